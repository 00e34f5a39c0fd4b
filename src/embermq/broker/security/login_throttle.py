"""Login throttle: addresses whose logins fail often wait longer and longer before the next attempt.

Each address has a bucket that a failed login fills by one and that leaks with time. Up to `free` failures
cost nothing more; beyond that the attempts of the address are let through one by one, INTERVAL_S apart, and
those that would have to wait longer than WAIT_S_MAX are refused unheard. So guessing from one address is a
few guesses per second at most, however many connections it opens; and the table is bounded, however many
addresses there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ADDRESSES_MAX = 10_000
LEAK_PER_S = 0.2
INTERVAL_S = 0.5
WAIT_S_MAX = 5.0


@dataclass(slots=True)
class Bucket:
    level: float
    at: float
    next_at: float = 0.0


class LoginThrottle:
    def __init__(self, clock: Callable[[], float], free: int = 20) -> None:
        self.clock = clock
        self.free = free
        self.buckets: dict[str, Bucket] = {}

    def failed(self, address: str) -> None:
        now = self.clock()
        bucket = self.buckets.pop(address, None)
        if bucket is None:
            if len(self.buckets) >= ADDRESSES_MAX:
                del self.buckets[next(iter(self.buckets))]  # the one that has not failed for longest
            bucket = Bucket(0.0, now)
        bucket.level = self.level(bucket, now) + 1
        bucket.at = now
        self.buckets[address] = bucket

    def wait_s(self, address: str) -> float | None:
        """How long an attempt from there has to wait; None: too long, refuse it unheard."""
        bucket = self.buckets.get(address)
        if bucket is None:
            return 0.0
        now = self.clock()
        if self.level(bucket, now) <= self.free:
            return 0.0
        turn = max(now, bucket.next_at) + INTERVAL_S
        if turn - now > WAIT_S_MAX:
            return None
        bucket.next_at = turn
        return turn - now

    def level(self, bucket: Bucket, now: float) -> float:
        return max(0.0, bucket.level - (now - bucket.at) * LEAK_PER_S)
