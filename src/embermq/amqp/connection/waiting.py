"""Methods that come too early: what they are about is in the middle of something that is done in pieces.

Such a method stays unread, and with it whatever follows on its connection, until that is over. Then it is
read as if it had come only now. So who takes a name again while the bindings of its last bearer go, or comes
to a queue that thousands of messages return to, waits for that, and nobody else does.
"""

from __future__ import annotations


class NotYet(Exception):
    """Of the connection's own; nobody is told."""


def wait_while(is_under_way: bool) -> None:
    """Before anything is done for a method."""
    if is_under_way:
        raise NotYet
