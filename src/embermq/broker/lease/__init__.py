"""Leases: messages taken out of a queue as a range that can be read again until it is settled."""
