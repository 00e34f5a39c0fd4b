"""The states of a connection, the reasons for which it is not read from, and methods that come too early."""

from __future__ import annotations

from enum import IntFlag

# In the order in which a connection passes through them.
HEADER, START, SECURE, CHECKING, TUNE, OPENING, OPEN, CLOSING, CLOSED = range(9)


class Pause(IntFlag):
    """Why nothing is read from a connection. It is read from again when no reason is left."""

    TURN = 1  # it has had its share of this turn; until the turn has ended
    WORK = 2  # what it asked for is done in pieces; until all of that is done
    OUTPUT = 4  # replies pile up; until they are sent
    LOGIN = 8  # its login is being checked
    ALARM = 16  # it publishes, and memory or disk are short: the client sees "blocked"
    THROTTLE = 32  # it publishes faster than a queue's consumers take: the client sees "flow"


class NotYet(Exception):
    """What a method is about is being deleted in pieces: the method is to be read again in the next turn."""


def wait_while(is_under_way: bool) -> None:
    """Called by a handler before it changes anything."""
    if is_under_way:
        raise NotYet
