"""Interfaces of the turn: what has a log to be written, what has output to send, what writes logs.

Classes and not Protocols: compiled, calling their methods is a plain call.
"""

from __future__ import annotations

from collections.abc import Callable

from embermq.store.log.log import Log


class Logged:
    """Owner of a log to be written: a level of a queue, a part of a schedule."""

    __slots__ = ("dirty", "log", "log_id")

    def __init__(self, log_id: str, log: Log | None = None) -> None:
        self.log_id = log_id
        self.log = log  # None: not opened yet, or deleted
        self.dirty = False


class Sink:
    """A connection with output to send."""

    __slots__ = ("dirty",)

    def __init__(self) -> None:
        self.dirty = False

    def end_turn(self) -> int:
        """Send what the turn has put together."""
        raise NotImplementedError

    def has_little(self) -> bool:
        """Is that no more than a few small messages?"""
        raise NotImplementedError


class LogWriter:
    """Writes what logs have gathered to disk: the storage."""

    __slots__ = ()

    def write(self, levels: list[Logged], turn: int) -> list[Logged]:
        """Write them; those that are left for the next turn."""
        raise NotImplementedError

    def write_synced(self, level: Logged, turn: int) -> bool:
        """Write the only log that has something new so that it is safe at once. False if that is not as quick
        and as simple as it should be: then `write` has to follow."""
        return False

    def when_safe(self, callback: Callable[[], None], with_acks: bool = False) -> None:
        """Call back when everything written so far would survive a power cut."""
        raise NotImplementedError
