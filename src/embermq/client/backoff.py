"""How long to wait before the next attempt: twice as long each time, up to a limit, never twice the same.

The random part keeps a thousand clients of one broker from coming back in the same instant.
"""

from __future__ import annotations

import random


class Backoff:
    def __init__(self, first_s: float, max_s: float) -> None:
        self.first_s = first_s
        self.max_s = max_s
        self.failures = 0

    def next_delay_s(self) -> float:
        # The exponent is bounded first: 2.0 ** 5000 is an error, not a long time.
        delay_s = min(self.max_s, self.first_s * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return delay_s * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self.failures = 0
