"""Table of numbered identities, kept as ranges: few bytes for a batch of any size.

A publisher that numbers what it publishes says so in the identity, `series:NAME/PART/NUMBER`: NAME is that of
a batch, PART one of those that publish it side by side, each of which counts its messages from 0. Of each
part the table knows up to where all have come, and a bit for each that came beyond: a message that was
refused, or that a power cut took, leaves a hole, and so do those that were routed elsewhere.

A series is as young as the last of its numbers, and is forgotten as a whole.
"""

from __future__ import annotations

from collections import OrderedDict

PREFIX = b"series:"
BLOCK = 1024  # numbers whose bits are kept together
DIGITS_MAX = 18


def split(text: bytes) -> tuple[bytes, int, int] | None:
    """The name, part and number in an identity; None: it is of no series."""
    at = text.rfind(b"/")
    before = text.rfind(b"/", 0, at) if at > 0 else -1
    if before < len(PREFIX) or not text.startswith(PREFIX):
        return None
    part, number = text[before + 1 : at], text[at + 1 :]
    return (text[:before], int(part), int(number)) if is_number(part) and is_number(number) else None


def is_number(text: bytes) -> bool:
    """There is one way to write a number: identities that differ are different."""
    return text.isdigit() and len(text) <= DIGITS_MAX and (text == b"0" or not text.startswith(b"0"))


class Part:
    """The numbers of one part that have come."""

    __slots__ = ("ahead", "next")

    def __init__(self) -> None:
        self.next = 0  # all below have come
        self.ahead: dict[int, int] = {}  # of those beyond, the bits of each block

    def has(self, number: int) -> bool:
        if number < self.next:
            return True
        block, bit = divmod(number, BLOCK)
        return bool(self.ahead.get(block, 0) >> bit & 1)

    def add(self, number: int) -> None:
        if number < self.next:
            return
        if number > self.next:
            block, bit = divmod(number, BLOCK)
            self.ahead[block] = self.ahead.get(block, 0) | 1 << bit
            return
        self.next += 1
        while self.ahead:
            block, bit = divmod(self.next, BLOCK)
            if bit == 0:
                self.ahead.pop(block - 1, None)
            if not self.ahead.get(block, 0) >> bit & 1:
                break
            self.next += 1

    def needs_block(self, number: int) -> bool:
        return number > self.next and number // BLOCK not in self.ahead

    @property
    def size(self) -> int:
        return 1 + len(self.ahead)


class Series:
    __slots__ = ("count", "first_ms", "last_ms", "parts", "size")

    def __init__(self, time_ms: int) -> None:
        self.first_ms = self.last_ms = time_ms
        self.parts: dict[int, Part] = {}
        self.size = 0  # parts and blocks
        self.count = 0  # numbers


class SeriesTable:
    """The series that a queue remembers, the one that was added to last at the end."""

    __slots__ = ("count", "last", "last_name", "series", "size")

    def __init__(self) -> None:
        self.series: OrderedDict[bytes, Series] = OrderedDict()
        self.last_name = b""  # of the one at the end, which is almost always the one that is asked for
        self.last = Series(0)
        self.size = 0  # parts and blocks of all
        self.count = 0  # numbers of all

    def get(self, name: bytes) -> Series | None:
        return self.last if name == self.last_name else self.series.get(name)

    def find(self, name: bytes, part: int, number: int) -> int:
        """When the series was added to last, if it has the number; -1: it has not."""
        series = self.get(name)
        known = None if series is None else series.parts.get(part)
        if series is None or known is None or not known.has(number):
            return -1
        return series.last_ms

    def growth(self, name: bytes, part: int, number: int) -> int:
        """By how much the table would grow with a number."""
        series = self.get(name)
        known = None if series is None else series.parts.get(part)
        return 1 + (number > 0) if known is None else int(known.needs_block(number))

    def size_of(self, name: bytes) -> int:
        series = self.get(name)
        return 0 if series is None else series.size

    def touch(self, name: bytes, time_ms: int) -> None:
        """The series is being added to."""
        series = self.get(name)
        if series is None:
            return
        if name != self.last_name:
            self.series.move_to_end(name)
            self.last_name, self.last = name, series
        if series.last_ms < time_ms:
            series.last_ms = time_ms

    def add(self, name: bytes, part: int, number: int, time_ms: int) -> None:
        if name != self.last_name and name not in self.series:
            self.series[name] = Series(time_ms)
        self.touch(name, time_ms)
        series = self.last
        known = series.parts.get(part)
        if known is None:
            known = series.parts[part] = Part()
            series.size += 1
            self.size += 1
        elif known.has(number):
            return
        series.count += 1
        self.count += 1
        if known.next == number and not known.ahead:
            known.next += 1  # as almost always
            return
        before = known.size
        known.add(number)
        series.size += known.size - before
        self.size += known.size - before

    def oldest_ms(self) -> int:
        """When the one that was left alone longest was added to; -1: there is none."""
        return next(iter(self.series.values())).last_ms if self.series else -1

    def first_ms(self) -> int:
        """When the first number came of all that are remembered; -1: there is none."""
        return min((series.first_ms for series in self.series.values()), default=-1)

    def drop_oldest(self) -> None:
        self.drop(next(iter(self.series)))

    def drop(self, name: bytes) -> None:
        gone = self.series.pop(name, None)
        if name == self.last_name:
            self.last_name, self.last = b"", Series(0)
        if gone is not None:
            self.size -= gone.size
            self.count -= gone.count
