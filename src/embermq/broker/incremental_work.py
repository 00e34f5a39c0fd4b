"""Long work in pieces: generators, advanced for a few milliseconds in each turn.

A generator yields after each of its pieces, which should take well under a millisecond: None to go on as soon
as others have had their turn, or a `Wait` to go on later. Each turn advances one of the works; several
alternate. This is the only scheduler of long work in the domain: whatever may touch thousands of messages,
bindings or queues is a generator that is begun here.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embermq.broker.turn import Turn

log = logging.getLogger("embermq.broker")

SHARE_S = 0.003  # of one turn
FINISH_S = 5.0  # for what is left when the broker stops

Action = Callable[[], None]
Wait = Callable[
    [Action], object
]  # calls what it is given when the work may go on: `Turn.after_safe`, a pause
Pieces = Iterator[Any]  # of Wait | None, for which mypy would want `yield None`


class Share:
    """A few milliseconds that begin now."""

    __slots__ = ("ends_s",)

    def __init__(self, share_s: float = SHARE_S) -> None:
        self.ends_s = time.perf_counter() + share_s

    def is_over(self) -> bool:
        return time.perf_counter() >= self.ends_s


class Work:
    """One generator; `about` is the object that it changes, `done` what is called at its end."""

    __slots__ = ("about", "done", "pieces")

    def __init__(self, pieces: Pieces, done: Action | None, about: object) -> None:
        self.pieces = pieces
        self.done = [] if done is None else [done]
        self.about = about


class Pause:
    """An entry in the timers."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action = action

    def on_due(self, now_ms: int) -> None:
        self.action()


class IncrementalWork:
    """All work that is under way; to the turn it is a queue to be drained."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.works: deque[Work] = deque()
        self.waiting: list[Work] = []
        self.dirty = False
        self.stopped = False
        self.share_s = SHARE_S

    def begin(self, pieces: Pieces, done: Action | None = None, about: object = None) -> None:
        """Advance it from the next turn on, then call `done`."""
        self.go_on_with(Work(pieces, done, about))

    def start(
        self, pieces: Pieces, done: Action | None = None, about: object = None, share_s: float = 0.0
    ) -> bool:
        """The same with the first piece, or the first share, at once; True when that was not all."""
        work = Work(pieces, done, about)
        if self.advance(work, share_s):
            self.go_on_with(work)
        return work in self.works or work in self.waiting

    def go_on_with(self, work: Work) -> None:
        self.works.append(work)
        if not self.dirty:
            self.dirty = True
            self.turn.add_queue(self)

    def pause(self, time_ms: int) -> Wait:
        """To be yielded: go on after that time."""

        def wait(action: Action) -> None:
            if self.turn.timers is not None:
                self.turn.timers.ask(self.turn.now_ms + time_ms, Pause(action))

        return wait

    def about(self, about: object) -> list[Work]:
        return [work for work in (*self.works, *self.waiting) if work.about is about]

    def finish_about(self, about: object) -> None:
        """Finish what changes this object now, but for works that wait."""
        for work in [work for work in self.works if work.about is about]:
            self.works.remove(work)
            self.advance(work, math.inf)

    def when_done(self, about: object, action: Action) -> None:
        """Call it once no work changes this object: now, as a rule."""
        left = self.about(about)
        for work in left[:]:

            def over(work: Work = work) -> None:
                left.remove(work)
                if not left:
                    action()

            work.done.append(over)
        if not left:
            action()

    def drain(self) -> bool:
        """Advance one work by one share; True when there is more to do."""
        if self.works:
            self.turn.refresh()
            work = self.works.popleft()
            if self.advance(work, self.share_s):
                self.works.append(work)
        return bool(self.works)

    def advance(self, work: Work, share_s: float) -> bool:
        """True if it can go on at once. A work that fails is over as well."""
        share = Share(share_s)
        try:
            for wait in work.pieces:
                if wait is not None:
                    self.waiting.append(work)
                    wait(partial(self.resume, work))
                    return False
                if share.is_over():
                    return True
        except Exception:
            log.exception("a fault of ours, in work about %r", work.about)
        for action in work.done:
            try:
                action()
            except Exception:  # the other actions and works go on
                log.exception("a fault of ours, after work about %r", work.about)
        return False

    def resume(self, work: Work) -> None:
        if work in self.waiting and not self.stopped:
            self.waiting.remove(work)
            self.go_on_with(work)

    def finish(self) -> None:
        """Before a clean stop: what can be finished in some seconds. What waits is left as it is on disk."""
        self.stopped = True
        limit = Share(FINISH_S)
        while self.works and not limit.is_over():
            self.drain()
