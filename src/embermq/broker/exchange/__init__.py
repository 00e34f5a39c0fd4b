"""Exchanges, their types and their bindings."""
