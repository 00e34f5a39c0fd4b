"""The blocking shell: ordinary calls that wait, for scripts and threads; a thread keeps it alive."""
