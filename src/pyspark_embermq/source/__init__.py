"""Reading: batch and streaming readers, one per way of reading a stream or a queue."""
