"""A request: a method that was sent and awaits its answer. Answers come in the order of the requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from embermq.client.core.message import Message
from embermq.wire.methods import (
    BasicGet,
    BasicRecover,
    ChannelClose,
    Method,
    TxCommit,
    TxRollback,
)

# What must not be done twice, or means nothing any more, after the connection broke before the answer.
NOT_REPEATABLE: tuple[type[Method], ...] = (BasicGet, BasicRecover, ChannelClose, TxCommit, TxRollback)

Answer = Method | Message


class Waiter(Protocol):
    """A future of any kind; asyncio's is one."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class Request:
    """`undo` is what takes the result back when the caller has gone before it got it."""

    __slots__ = ("abandoned", "method", "on_answer", "refusals", "result", "undo", "waiter")

    def __init__(
        self,
        method: Method,
        waiter: Waiter | None = None,
        on_answer: Callable[[Answer], object] | None = None,
        undo: Callable[[Any], object] | None = None,
    ) -> None:
        self.method = method
        self.waiter = waiter
        self.on_answer = on_answer  # what the core itself has to note; its result is what the waiter gets
        self.undo = undo
        self.abandoned = False
        self.refusals = 0  # so often the broker closed the connection before it answered
        self.result: object = None  # kept while it may have to be undone

    @property
    def repeatable(self) -> bool:
        return not isinstance(self.method, NOT_REPEATABLE)

    def answered(self, answer: Answer) -> None:
        result: object = answer if self.on_answer is None else self.on_answer(answer)
        if self.abandoned:
            self.take_back(result)
            return
        self.result = result
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(result)

    def abandon(self) -> None:
        """No caller waits for it any more: what was done, or will be, is undone."""
        if not self.abandoned:
            self.abandoned = True
            result, self.result = self.result, None
            self.take_back(result)

    def take_back(self, result: object) -> None:
        if self.undo is not None and result is not None:
            self.undo(result)

    def failed(self, error: Exception) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(error)
