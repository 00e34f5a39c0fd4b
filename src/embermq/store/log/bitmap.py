"""A set of sequences within a bounded span, one bit each: which records of a segment are alive.

Grows as it is filled, so that a small queue pays for few bytes; a full 8 MiB segment of 100-byte messages
needs 8 KiB. Where nothing is ever removed, as in a full segment of a stream, a whole map needs no bits.
"""

from __future__ import annotations

NO_BITS = bytearray()  # never written to


class Bitmap:
    """Members are `base + i`; adding grows the map, removing never shrinks it.

    A `whole` map has every sequence that is asked for, and stays so.
    """

    __slots__ = ("base", "bits", "count", "size", "whole")

    def __init__(self, base: int) -> None:
        self.base = base
        self.bits = bytearray(16)
        self.size = 16  # bytes; len(bits), kept because the hot path asks for it
        self.count = 0
        self.whole = False

    def fill(self, count: int) -> None:
        """Be whole from now on, with so many members."""
        self.bits = NO_BITS
        self.size = 0
        self.count = count
        self.whole = True

    def add(self, sequence: int) -> None:
        """Add a sequence that is not a member."""
        offset = sequence - self.base
        at = offset >> 3
        if at >= self.size:
            assert not self.whole
            self.bits.extend(bytes(at + 1))  # what is missing, and as much again as there is
            self.size = len(self.bits)
        self.bits[at] |= 1 << (offset & 7)
        self.count += 1

    def has(self, sequence: int) -> bool:
        if sequence < self.base:
            return False
        offset = sequence - self.base
        at = offset >> 3
        if at >= self.size:
            return self.whole
        return (self.bits[at] >> (offset & 7)) & 1 == 1

    def remove(self, sequence: int) -> bool:
        """Remove a sequence; False when it was not a member."""
        if sequence < self.base:
            return False
        offset = sequence - self.base
        at = offset >> 3
        if at >= self.size:
            return False
        mask = 1 << (offset & 7)
        if not self.bits[at] & mask:
            return False
        self.bits[at] ^= mask
        self.count -= 1
        return True

    def add_range(self, first: int, count: int) -> None:
        """Add every sequence of [first, first + count), members or not."""
        sequence = first
        end = first + count
        while sequence < end:
            if not self.has(sequence):
                self.add(sequence)
            sequence += 1

    def clear(self) -> None:
        self.bits = bytearray(self.size)
        self.count = 0
