"""The log: segments of records, acks beside them, readers."""
