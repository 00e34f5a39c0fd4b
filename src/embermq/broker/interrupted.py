"""What outlives its connection for a while: channels to be resumed, checkpoints of references.

By a key and the user that it belongs to; another user's is not found. Bounded in number and time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embermq.broker.turn import Turn

KEPT_MS = 60_000
PER_USER_MAX = 256


class Interrupted:
    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.kept: dict[tuple[str, bytes], Kept] = {}
        self.resumable: dict[bytes, Any] = {}  # channels that may be resumed, also those still in use

    def put(self, user: str, key: bytes, thing: Any, end: Callable[[], None]) -> None:
        """Keep it; `end` is called when it is not taken in time, or one too many of the user's."""
        self.discard(user, key)
        mine = [other for other in self.kept if other[0] == user]
        if len(mine) >= PER_USER_MAX:
            self.discard(*mine[0])
        kept = self.kept[user, key] = Kept(self, user, key, thing, end)
        if self.turn.timers is not None:
            self.turn.timers.ask(self.turn.now_ms + KEPT_MS, kept)

    def take(self, user: str, key: bytes) -> Any:
        """None: there is no such thing, or it is another user's."""
        kept = self.kept.pop((user, key), None)
        return None if kept is None else kept.thing

    def discard(self, user: str, key: bytes) -> None:
        kept = self.kept.pop((user, key), None)
        if kept is not None:
            kept.end()


class Kept:
    def __init__(
        self, among: Interrupted, user: str, key: bytes, thing: Any, end: Callable[[], None]
    ) -> None:
        self.among, self.user, self.key = among, user, key
        self.thing, self.end = thing, end

    def on_due(self, now_ms: int) -> None:
        if self.among.kept.get((self.user, self.key)) is self:
            self.among.discard(self.user, self.key)
