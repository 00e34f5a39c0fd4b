"""Segmented append-only logs, group commit, definitions: bytes in, sequences out. Knows no AMQP."""
