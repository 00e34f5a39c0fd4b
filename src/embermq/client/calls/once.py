"""One body for two shells: a coroutine function that blocking code can call, too.

`await given(x)` waits for what the asyncio shell answers, and takes what the blocking shell answers as it is:
that has waited already. So a coroutine that awaits nothing but `given` values never suspends in blocking
code, and `blocking` makes an ordinary method of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from inspect import isawaitable
from itertools import starmap
from operator import methodcaller
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
START = methodcaller("send", None)


class given(Generic[T]):  # noqa: N801  # reads as a function
    """The value of something that may have to be awaited."""

    __slots__ = ("_value",)

    def __init__(self, value: Awaitable[T] | T) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, Any, T]:
        value = self._value
        if isawaitable(value):
            return (yield from value.__await__())
        return value


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The same for blocking code."""

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            # Made and started by one call into C: what a signal handler raises must not come in between.
            next(map(START, starmap(partial(function, **options), (arguments,))))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError(f"{function.__name__} awaits something in blocking code")

    return call


def blocking_block(function: Callable[P, AbstractAsyncContextManager[T]]) -> Callable[P, BlockingBlock[T]]:
    """The same for what is used in `async with`."""

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> BlockingBlock[T]:
        return BlockingBlock(function(*arguments, **options))

    return call


class BlockingBlock(Generic[T]):
    """For `with` instead of `async with`."""

    def __init__(self, block: AbstractAsyncContextManager[T]) -> None:
        self._enter = blocking(type(block).__aenter__)
        self._exit = blocking(type(block).__aexit__)
        self._block = block

    def __enter__(self) -> T:
        return self._enter(self._block)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._exit(self._block, kind, error, trace)
