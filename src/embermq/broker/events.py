"""What happens in the broker, told to whoever listens: the event exchange, an audit log, a test.

An event has a key in RabbitMQ's words ("queue.created", "user.authentication.failure"), the moment, who did
it, and the properties of the thing. Whoever lets something happen calls

    events.emit("queue.created", queue_created, queue)

and is done: the properties are put together by calling `queue_created(queue)`, and only if somebody listens.
Events are told at once and in order, after the fact; a listener that fails harms nobody else.
"""

from __future__ import annotations

import logging
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

log = logging.getLogger("embermq.events")

INTERNAL_USER = "rmq-internal"  # RabbitMQ's name for "nobody: the broker itself"

Properties = Mapping[str, object]
Result = TypeVar("Result")


class Event(NamedTuple):
    key: str
    timestamp_ms: int
    actor: str  # the user on whose behalf it happened
    properties: Properties


Listener = Callable[[Event], None]


class Events:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.listeners: list[Listener] = []
        self.actor = INTERNAL_USER

    def listen(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        self.listeners.remove(listener)

    @contextmanager
    def acting(self, user: str) -> Iterator[None]:
        """What happens inside is this user's doing."""
        before, self.actor = self.actor, user
        try:
            yield
        finally:
            self.actor = before

    def acting_in_pieces(self, pieces: Iterator[None]) -> Iterator[None]:
        """Each of the pieces is the doing of whoever acts now."""
        actor = self.actor
        while True:
            with self.acting(actor):
                if next(pieces, self) is self:
                    return
            yield

    @types.coroutine
    def acting_throughout(self, user: str, work: Coroutine[Any, Any, Result]) -> Generator[Any, None, Result]:
        """The same for what waits in between, while others act."""
        failure: BaseException | None = None
        while True:
            with self.acting(user):
                try:
                    awaited = work.send(None) if failure is None else work.throw(failure)
                except StopIteration as end:
                    result: Result = end.value
                    return result
            failure = None
            try:
                yield awaited
            except BaseException as error:  # the work's to deal with: cancelled, for one
                failure = error

    def emit(self, key: str, describe: Callable[..., Properties], *subject: object) -> None:
        if not self.listeners:
            return
        event = Event(key, int(self.clock() * 1000), self.actor, describe(*subject))
        for listener in list(self.listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a fault of ours, telling of %s", key)
