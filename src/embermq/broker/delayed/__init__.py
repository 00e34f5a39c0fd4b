"""Delayed messages: sorted runs on disk, handed to their queues when they are due."""
