"""Files, directories, the page cache and the lock of a data directory."""
