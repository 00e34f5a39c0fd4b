"""The management API, metrics and the start page, on the broker's own loop."""
