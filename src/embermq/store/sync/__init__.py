"""Group commit, and what makes a sync cheap."""
