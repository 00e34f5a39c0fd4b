"""Field tables as plain JSON that still knows the letter of every value.

    true  "text"  7  5000000000  1.5  null  [..]  {..}      letters t S I l d V A F
    {"$b": 7}  {"$T": 1700000000}  {"$x": "00ff"}  {"$D": [2, 314]}     any other letter, by name

This code shares nothing with EmberMQ's own `wire`, so that a mistake there cannot hide itself.
"""

from __future__ import annotations

import struct
from typing import Any

NUMBERS = {"b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "f": ">f", "d": ">d"}
NUMBERS |= {"T": ">Q", "L": ">q"}
INT32_LIMIT = 2**31
Table = dict[str, Any]


def short_string(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    return bytes([len(data)]) + data


def long_string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def readable(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def encode_table(table: Table) -> bytes:
    return long_string(b"".join(short_string(name) + encode_value(value) for name, value in table.items()))


def letter_of(value: Any) -> tuple[str, Any]:
    """The letter under which a JSON value travels, and the value without its mark."""
    if isinstance(value, dict):
        mark = next(iter(value), "")
        if len(value) == 1 and len(mark) == 2 and mark[0] == "$":
            return mark[1], value[mark]
        return "F", value
    if isinstance(value, bool):
        return "t", value
    if isinstance(value, int):
        return ("I" if -INT32_LIMIT <= value < INT32_LIMIT else "l"), value
    if value is None:
        return "V", value
    return {str: "S", float: "d", list: "A"}[type(value)], value


def encode_value(value: Any) -> bytes:
    letter, value = letter_of(value)
    tag = letter.encode()
    if letter in NUMBERS:
        return tag + struct.pack(NUMBERS[letter], value)
    if letter == "t":
        return tag + bytes([value])
    if letter == "S":
        return tag + long_string(value.encode("utf-8", "surrogateescape"))
    if letter == "x":
        return tag + long_string(bytes.fromhex(value))
    if letter == "D":
        return tag + struct.pack(">BI", *value)
    if letter == "A":
        return tag + long_string(b"".join(encode_value(item) for item in value))
    if letter == "F":
        return tag + encode_table(value)
    assert letter == "V", letter
    return tag


class Reader:
    """Bytes with a place in them."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.place : self.place + count]
        if len(piece) < count:
            raise ValueError(f"{count} bytes wanted at {self.place} of {self.data!r}")
        self.place += count
        return piece

    def number(self, format: str) -> Any:
        return struct.unpack(format, self.take(struct.calcsize(format)))[0]

    def short_string(self) -> str:
        return readable(self.take(self.number(">B")))

    def long_string(self) -> bytes:
        return self.take(self.number(">I"))

    def table(self) -> Table:
        inner = Reader(self.long_string())
        found: Table = {}
        while inner.place < len(inner.data):
            name = inner.short_string()
            found[name] = inner.value()
        return found

    def value(self) -> Any:
        letter = self.take(1).decode("latin-1")
        if letter in NUMBERS:
            number = self.number(NUMBERS[letter])
            plain = letter == "d" or letter in "Il" and letter_of(number)[0] == letter
            return number if plain else {f"${letter}": number}
        if letter == "t":
            return self.take(1) != b"\0"
        if letter == "S":
            return readable(self.long_string())
        if letter == "x":
            return {"$x": self.long_string().hex()}
        if letter == "D":
            return {"$D": [self.number(">B"), self.number(">I")]}
        if letter == "A":
            inner = Reader(self.long_string())
            items = []
            while inner.place < len(inner.data):
                items.append(inner.value())
            return items
        if letter == "F":
            return self.table()
        if letter == "V":
            return None
        raise ValueError(f"a value of type {letter!r}")
