"""Rows to messages: bodies in the formats of option `format`, and typed headers."""
