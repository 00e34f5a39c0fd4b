"""Weighted rendezvous hashing: which of several destinations a key belongs to.

Every destination draws a lot for the key, and the best lot wins. A lot depends on nothing but the key, the
destination's own number and its weight, so a destination that comes or goes moves only the keys that it wins
or had won, neither order nor restarts matter, and two brokers with the same bindings choose the same.

A lot is `-ln(u) / weight` with u out of (0, 1), drawn by mixing the numbers of key and destination: the least
wins, which a destination of twice the weight does twice as often.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from math import log

MASK = 0xFFFFFFFFFFFFFFFF
# Of splitmix64; with names, because as mere numbers they would be Python's and slow.
FACTOR_1 = 0xBF58476D1CE4E5B9
FACTOR_2 = 0x94D049BB133111EB


def number_of(text: bytes) -> int:
    """64 bits out of any bytes, the same today and tomorrow."""
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


class Rendezvous:
    __slots__ = ("count", "even", "numbers", "weights")

    def __init__(self, destinations: list[tuple[int, float]]) -> None:
        """`destinations`: number and weight of each."""
        self.count = len(destinations)
        self.even = len({weight for _, weight in destinations}) == 1
        # One more than needed: there is no view of nothing.
        self.numbers = array("Q", [number for number, _ in destinations] + [0])
        self.weights = array("d", [weight for _, weight in destinations] + [1.0])

    def choose(self, key: int) -> int:
        """The place of the destination that the key belongs to; there must be one."""
        assert self.count > 0
        numbers = self.numbers
        best = 0
        best_draw = 0
        best_lot = -1.0
        for place in range(self.count):
            # splitmix64: every bit of the sum decides about every bit of the draw.
            mixed = (key + numbers[place]) & MASK
            mixed = ((mixed ^ (mixed >> 30)) * FACTOR_1) & MASK
            mixed = ((mixed ^ (mixed >> 27)) * FACTOR_2) & MASK
            mixed = mixed ^ (mixed >> 31)
            if self.even:  # the least logarithm is that of the largest draw
                if mixed > best_draw:
                    best = place
                    best_draw = mixed
                continue
            # 53 bits are what a float can carry; the half keeps the draw away from 0.
            lot = -log(((mixed >> 11) + 0.5) / 9007199254740992.0) / self.weights[place]
            if best_lot < 0 or lot < best_lot:
                best = place
                best_lot = lot
        return best
