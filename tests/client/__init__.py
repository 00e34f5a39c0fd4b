"""The client library as applications use it: both shells against a real broker."""
