"""What a browser shows: plain documents without scripts, nothing from outside."""
