"""Those whom a turn finds marked, and the one who writes for it: what it needs of each (see `turn`).

Classes and not Protocols, because of the turns that one message has to itself: their code has not run for a
while and is cold, so that each of Python's ways to find a method costs as much as what the method does.
Compiled, these are plain calls.
"""

from __future__ import annotations

from embermq.store.log import Log


class Logged:
    """Somebody with a log to be written: a level of a queue, a part of a schedule."""

    __slots__ = ("dirty", "log", "log_id")

    def __init__(self, log_id: str, log: Log | None = None) -> None:
        self.log_id = log_id
        self.log = log  # None: not opened yet, or deleted
        self.dirty = False


class Sink:
    """Somebody with something to send: a connection."""

    __slots__ = ("direct", "dirty")

    def __init__(self) -> None:
        self.dirty = False
        self.direct = -1  # the socket, while anybody may write to it past everything else

    def end_turn(self) -> int:
        """Send what the turn has put together."""
        raise NotImplementedError

    def has_little(self) -> bool:
        """Is that no more than a few small messages?"""
        raise NotImplementedError

    # -- of one with a publisher that waits alone for its confirm

    def answer_ahead(self) -> bytes:
        """All there is to tell once what was published is safe; empty if that cannot be said beforehand."""
        return b""

    def answered(self, answer: bytes, told: int) -> int:
        """It is safe, and so much of the answer was told: tell the rest."""
        raise NotImplementedError


class LogWriter:
    """Who hands what logs have gathered to the disk."""

    __slots__ = ()

    def write(self, levels: list[Logged], turn: int) -> list[Logged]:
        """Write them; those that are left for the next turn."""
        raise NotImplementedError

    def write_synced(self, level: Logged, turn: int, waiting: Sink) -> bool:
        """Write the only log that has something new so that it is safe at once, and answer the only one who
        waits for that. False, and nothing is done, if that is not as quick and as simple as it should be."""
        return False
