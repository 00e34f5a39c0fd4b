"""Identities in order of arrival, found by value: 32 bytes for each, whatever it was before hashing.

    ring    first, second (the 128 bits of an identity) and the time it came, oldest at `start`
    index   open addressing with linear probing, at most half full: the place in the ring, plus 1; 0 is free

The oldest leave first. An identity that comes once more while it is here gets a second place in the ring; the
index knows the younger one, and the older one leaves without touching it.
"""

from __future__ import annotations

PLACES_MIN = 256


class IdTable:
    __slots__ = ("count", "first", "index", "places", "second", "start", "times")

    def __init__(self) -> None:
        self.count = 0
        self.start = 0
        self.allocate(PLACES_MIN)

    def allocate(self, places: int) -> None:
        self.places = places  # a power of two
        # Fresh bytes cost no memory before they are written to.
        self.first = memoryview(bytearray(8 * places)).cast("Q")
        self.second = memoryview(bytearray(8 * places)).cast("Q")
        self.times = memoryview(bytearray(8 * places)).cast("Q")
        self.index = memoryview(bytearray(8 * places)).cast("I")

    def find(self, first: int, second: int) -> int:
        """When it came; -1: it is not here."""
        place = self.index[self.slot_of(first, second)]
        if place == 0:
            return -1
        found: int = self.times[place - 1]
        return found

    def add(self, first: int, second: int, time_ms: int) -> None:
        if self.count == self.places:
            self.grow()
        place = (self.start + self.count) & (self.places - 1)
        self.first[place] = first
        self.second[place] = second
        self.times[place] = time_ms
        self.index[self.slot_of(first, second)] = place + 1
        self.count += 1

    def oldest_ms(self) -> int:
        """When the oldest came; -1: there is none."""
        return self.times[self.start] if self.count else -1

    def drop_oldest(self) -> None:
        assert self.count > 0
        place = self.start
        slot = self.slot_of(self.first[place], self.second[place])
        if self.index[slot] == place + 1:
            self.free(slot)
        self.start = (place + 1) & (self.places - 1)
        self.count -= 1

    def slot_of(self, first: int, second: int) -> int:
        """Where the index has this identity, or would have it."""
        mask = 2 * self.places - 1
        slot = first & mask
        place = self.index[slot]
        while place != 0:
            if self.first[place - 1] == first and self.second[place - 1] == second:
                break
            slot = (slot + 1) & mask
            place = self.index[slot]
        return slot

    def free(self, slot: int) -> None:
        """Empty a slot; those behind it that wanted to be nearer move up, so that no search ends early."""
        mask = 2 * self.places - 1
        hole = slot
        self.index[hole] = 0
        slot = (slot + 1) & mask
        place = self.index[slot]
        while place != 0:
            wanted = self.first[place - 1] & mask
            if ((slot - wanted) & mask) >= ((slot - hole) & mask):
                self.index[hole] = place
                self.index[slot] = 0
                hole = slot
            slot = (slot + 1) & mask
            place = self.index[slot]

    def grow(self) -> None:
        first, second, times, places, start = self.first, self.second, self.times, self.places, self.start
        self.allocate(2 * places)
        self.start = 0
        for number in range(places):
            place = (start + number) & (places - 1)
            self.first[number] = first[place]
            self.second[number] = second[place]
            self.times[number] = times[place]
            self.index[self.slot_of(first[place], second[place])] = number + 1
