"""The states of a connection, in the order in which it passes through them."""

from __future__ import annotations

HEADER, START, SECURE, CHECKING, TUNE, OPENING, OPEN, CLOSING, CLOSED = range(9)
