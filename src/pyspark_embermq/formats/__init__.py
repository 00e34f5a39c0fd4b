"""Formats of bodies with a library or a standard of their own, each with its reading and its writing."""
