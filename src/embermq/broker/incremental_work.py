"""Work that is too long for one turn, done in pieces between which everybody else has theirs.

A piece of work is a generator that stops after each of its pieces, which should take well under a
millisecond. Every turn gives one of the works a few milliseconds; several take turns.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.broker.turn import Turn

log = logging.getLogger("embermq.broker")

SHARE_S = 0.003  # of one turn
FINISH_S = 5.0  # for what is left when the broker stops

Pieces = Iterator[None]


class Share:
    """A few milliseconds, which begin now: for loops that go on later."""

    __slots__ = ("ends_s",)

    def __init__(self, share_s: float = SHARE_S) -> None:
        self.ends_s = time.perf_counter() + share_s

    def is_over(self) -> bool:
        return time.perf_counter() >= self.ends_s


class Work:
    """`about` is what it is done to, for those who have to wait for that."""

    __slots__ = ("about", "done", "pieces")

    def __init__(self, pieces: Pieces, done: list[Callable[[], None]], about: object) -> None:
        self.pieces = pieces
        self.done = done
        self.about = about


class IncrementalWork:
    """All that is under way; to the turn it looks like a queue that is never quite drained."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.works: deque[Work] = deque()
        self.dirty = False
        self.share_s = SHARE_S

    def begin(self, pieces: Pieces, done: Callable[[], None] | None = None, about: object = None) -> None:
        """Work through it from the next turn on, then call `done`."""
        self.go_on_with(Work(pieces, [] if done is None else [done], about))

    def start(self, pieces: Pieces, done: Callable[[], None], about: object) -> bool:
        """The same with the first piece at once, which may be all; True when there is more."""
        work = Work(pieces, [done], about)
        if not self.advance(work, 0.0):
            return False
        self.go_on_with(work)
        return True

    def go_on_with(self, work: Work) -> None:
        self.works.append(work)
        if not self.dirty:
            self.dirty = True
            self.turn.add_queue(self)

    def finish_about(self, about: object) -> None:
        """Somebody cannot wait for what is done to it: all of that now."""
        for work in [work for work in self.works if work.about is about]:
            self.works.remove(work)
            self.advance(work, math.inf)

    def when_done(self, about: object, action: Callable[[], None]) -> None:
        """Once all that is under way and done to it is over: now, as a rule."""
        left = [work for work in self.works if work.about is about]
        for work in left[:]:

            def over(work: Work = work) -> None:
                left.remove(work)
                if not left:
                    action()

            work.done.append(over)
        if not left:
            action()

    def drain(self) -> bool:
        """One share of one work; True when there is more to do."""
        if self.works:
            work = self.works.popleft()
            if self.advance(work, self.share_s):
                self.works.append(work)
        return bool(self.works)

    def advance(self, work: Work, share_s: float) -> bool:
        """True while it is not done. One that fails is over as well: somebody waits for it."""
        share = Share(share_s)
        try:
            for _ in work.pieces:
                if share.is_over():
                    return True
        except Exception:
            log.exception("a fault of ours, in work about %r", work.about)
        for action in work.done:
            try:
                action()
            except Exception:  # the others wait as well, and so do the other works
                log.exception("a fault of ours, after work about %r", work.about)
        return False

    def finish(self) -> None:
        """Before a clean stop, as far as that is possible in some seconds: what is left is still on disk."""
        limit = Share(FINISH_S)
        while self.works and not limit.is_over():
            self.drain()
