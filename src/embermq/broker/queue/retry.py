"""Delayed retries: x-retry-delay, x-retry-backoff, x-retry-max-delay.

A message that a consumer gives back waits before it is delivered again: the first time for the delay, then
each time longer by the factor, up to the maximum. The delivery limit ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from embermq.broker.queue.arguments import TTL_MS_MAX


class Retry:
    def __init__(self, delay_ms: int, factor: float, delay_ms_max: int) -> None:
        self.delay_ms = delay_ms
        self.factor = factor
        self.delay_ms_max = delay_ms_max

    def wait_ms(self, returns: int) -> int:
        """How long a message waits that was given back so often."""
        try:
            return min(int(self.delay_ms * self.factor ** (returns - 1)), self.delay_ms_max)
        except OverflowError:
            return self.delay_ms_max


def retry_from(arguments: Mapping[str, object]) -> Retry | None:
    delay_ms = arguments.get("x-retry-delay")
    if not isinstance(delay_ms, int):
        return None
    factor, delay_ms_max = arguments.get("x-retry-backoff"), arguments.get("x-retry-max-delay")
    return Retry(
        delay_ms,
        float(factor) if isinstance(factor, int | float | Decimal) else 1.0,
        delay_ms_max if isinstance(delay_ms_max, int) else TTL_MS_MAX,
    )
