"""One body for two shells."""

from __future__ import annotations

import asyncio

import pytest

from embermq.client.calls.once import blocking, given


async def doubled(value: object, *, times: int = 1) -> int:
    """Its docstring."""
    number = await given(value)
    assert isinstance(number, int)
    return number * 2 * times


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


def test_for_coroutines() -> None:
    assert asyncio.run(doubled(later(4))) == 8


def test_for_blocking_code() -> None:
    call = blocking(doubled)
    assert call(4) == 8
    assert call(4, times=3) == 24
    assert call.__name__ == "doubled" and call.__doc__ == "Its docstring."
    with pytest.raises(TypeError, match="tiems"):
        call(4, tiems=3)  # type: ignore[call-arg]
    with pytest.raises(AssertionError):
        call("no number")


def test_blocking_code_cannot_wait() -> None:
    with pytest.raises(AssertionError, match="doubled awaits something"):
        blocking(doubled)(later(4))
