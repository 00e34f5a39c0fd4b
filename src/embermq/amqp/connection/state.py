"""The states of a connection, in the order in which it passes through them; and methods that come too early.

A method that comes too early (a queue is declared again while the bindings of the last one of that name are
still being deleted, say) stays unread, and with it whatever follows on its connection, until that is over.
"""

from __future__ import annotations

HEADER, START, SECURE, CHECKING, TUNE, OPENING, OPEN, CLOSING, CLOSED = range(9)


class NotYet(Exception):
    """The method is to be read again in another turn."""


def wait_while(is_under_way: bool) -> None:
    """Called by a handler before it changes anything."""
    if is_under_way:
        raise NotYet
