"""What can be used in `with` or `async with`, and ends when that block is left."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


class WithBlock:
    """Leaving its `with` block closes it; `_leave` may do something else, and gets the type of an error."""

    close: Any

    def _leave(self, kind: type[BaseException] | None) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(kind)


class AsyncWithBlock:
    """The same for `async with`."""

    close: Any

    async def _leave(self, kind: type[BaseException] | None) -> None:
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave(kind)
