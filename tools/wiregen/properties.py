"""The source of wire/properties.py: the properties of class basic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.wiregen.definition import Field
from tools.wiregen.source import BANNER, CLASSES_PRAGMAS, indent, read_shortstr, shout, tuple_of

HEAD = '''"""The properties of a basic message: flags that say which are there, then their values.

    flags (2) [more flag words while bit 0 is set]   values in the order of the flags, bit 15 first

None means absent. Bits that no property has are refused: where their values would lie is unknown.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from embermq.errors import SyntaxFault
from embermq.wire.primitive import Buffer, encode_shortstr, misfit
from embermq.wire.table import decode_table, encode_table
from embermq.wire.times import expiration_of, timestamp_of


class Properties:
    """The fourteen properties of class basic."""

'''

COMMON = '''
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Properties):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # properties may change

    def __repr__(self) -> str:
        present = (
            f"{name}={getattr(self, name)!r}" for name in self.__slots__ if getattr(self, name) is not None
        )
        return f"Properties({', '.join(present)})"

    @staticmethod
    def decode(buf: Buffer, pos: int, end: int) -> Properties:
        """The properties that fill `pos` to `end`: a header frame's payload from its flags on."""
        assert end <= len(buf)
        if pos + 2 > end:
            raise misfit("content header", pos + 2, end)
        flags = buf[pos] << 8 | buf[pos + 1]
        pos += 2
        more = flags
        while more & 1:
            if pos + 2 > end:
                raise misfit("content header", pos + 2, end)
            more = buf[pos] << 8 | buf[pos + 1]
            pos += 2
            if more & 0xFFFE:
                raise SyntaxFault("content header has flags of unknown properties")
        if flags & UNKNOWN_FLAGS:
            raise SyntaxFault("content header has flags of unknown properties")
        self = Properties()
'''


TIMES = {"timestamp": "datetime", "expiration": "timedelta"}  # taken as well, converted at once


def properties(definition: dict[str, Any]) -> Iterator[str]:
    (basic,) = (klass for klass in definition["class"] if "properties" in klass)
    fields = [Field.parse(line) for line in basic["properties"]]
    flags = {field: 1 << (15 - index) for index, field in enumerate(fields)}
    yield BANNER + CLASSES_PRAGMAS
    head, tail = HEAD.rstrip().split("\n\n\n")
    yield head + "\n"
    for field, flag in flags.items():
        yield f"FLAG_{shout(field.name)} = 0x{flag:04X}"
    yield f"UNKNOWN_FLAGS = 0x{0xFFFE & ~sum(flags.values()):04X}\n\n"
    yield tail + "\n"
    yield from indent(tuple_of("__slots__ =", [f'"{field.attribute}"' for field in fields]))
    yield ""
    yield "    def __init__("
    yield "        self,"
    for field in fields:
        also = f" | {TIMES[field.name]}" if field.name in TIMES else ""
        yield f"        {field.attribute}: {field.annotation}{also} | None = None,"
    yield "    ) -> None:"
    for field in fields:
        name = field.attribute
        value = f"None if {name} is None else {name}_of({name})" if field.name in TIMES else name
        yield f"        self.{name} = {value}"
    yield COMMON.rstrip()
    for field in fields:
        yield f"        if flags & FLAG_{shout(field.name)}:"
        yield from indent(property_reader(field), 12)
    yield "        if pos != end:"
    yield '            raise misfit("content header", pos, end)'
    yield "        return self\n"
    yield "    def encode(self) -> bytes:"
    yield '        """Flags and values, as `decode` reads them."""'
    yield "        flags = 0"
    yield "        values: list[bytes] = []"
    for field in fields:
        yield f"        if self.{field.attribute} is not None:"
        yield f"            flags |= FLAG_{shout(field.name)}"
        yield f"            values.append({property_writer(field)})"
    yield '        return flags.to_bytes(2, "big") + b"".join(values)'


def property_reader(field: Field) -> Iterator[str]:
    target = f"self.{field.attribute}"
    match field.type:
        case "shortstr":
            yield from read_shortstr("content header", target)
        case "table":
            yield f"{target}, pos = decode_table(buf, pos, end)"
        case "octet":
            yield "if pos >= end:"
            yield '    raise misfit("content header", pos + 1, end)'
            yield f"{target} = buf[pos]"
            yield "pos += 1"
        case "timestamp":
            yield "if pos + 8 > end:"
            yield '    raise misfit("content header", pos + 8, end)'
            yield f'{target} = int.from_bytes(buf[pos : pos + 8], "big")'
            yield "pos += 8"
        case _:
            raise ValueError(f"no reader for a property of type {field.type}")


def property_writer(field: Field) -> str:
    match field.type:
        case "octet":
            return f'self.{field.attribute}.to_bytes(1, "big")'
        case "timestamp":
            return f'self.{field.attribute}.to_bytes(8, "big")'
        case _:
            return f"encode_{field.type}(self.{field.attribute})"
