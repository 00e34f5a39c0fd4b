"""Streams: logs that are read and not emptied."""
