"""Many messages at once, as columns."""
