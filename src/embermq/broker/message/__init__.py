"""A message: its bytes, its record in a log, and changes of its headers."""
