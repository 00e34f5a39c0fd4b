"""What time it is, for code that asks once per read or turn. `clock.pyx` is the compiled twin.

Asking Python costs as much as finding the queue of a message: a module's attribute, a call, two objects.
"""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds since some moment; they never go back."""
    return time.monotonic()
