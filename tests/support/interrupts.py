"""Signals whose handler raises, at a moment of the test's choice."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType


class Interrupted(Exception):
    """What the signal handler raises."""


@contextmanager
def interrupts() -> Iterator[Callable[[float], object]]:
    """Its result sets an alarm after so many seconds, whose handler raises."""

    def on_alarm(number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_name == "gc_callback":
            # Hypothesis's, called by the garbage collector: an exception there reaches no caller.
            signal.setitimer(signal.ITIMER_REAL, 0.0001)
            return
        raise Interrupted

    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        yield partial(signal.setitimer, signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(alarm: Callable[[float], object], delay_s: float, function: Callable[[], object]) -> bool:
    """Whether the alarm came while the function ran."""
    try:
        try:
            alarm(delay_s)
            function()
        finally:
            alarm(0)
    except Interrupted:
        return True
    return False
