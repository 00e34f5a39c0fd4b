"""What can be used in `with` or `async with`, and ends when that block is left."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


class WithBlock:
    """Leaving its `with` block calls `_leave`, with the type of the error if there is one."""

    _leave: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(kind)


class AsyncWithBlock:
    """The same for `async with`."""

    _leave: Any

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave(kind)
