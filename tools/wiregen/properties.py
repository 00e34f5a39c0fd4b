"""The source of wire/properties.py (class basic) and properties_0_9.py (the other classes with content)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.wiregen.definition import Field, camel, read_fields
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
'''

HEAD_0_9 = '''"""The properties of files, stream packets and tunnelled requests, which 0-9 has besides.

Flags and values lie as in `properties`.
"""

from __future__ import annotations

from datetime import datetime

from embermq.errors import SyntaxFault
from embermq.wire.primitive import Buffer, encode_shortstr, misfit
from embermq.wire.table import decode_table, encode_table
from embermq.wire.times import timestamp_of
'''

COMMON = '''
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, {name}):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # properties may change

    def __repr__(self) -> str:
        present = (
            f"{{name}}={{getattr(self, name)!r}}"
            for name in self.__slots__
            if getattr(self, name) is not None
        )
        return f"{name}({{', '.join(present)}})"

    @staticmethod
    def decode(buf: Buffer, pos: int, end: int) -> {name}:
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
        if flags & {unknown}:
            raise SyntaxFault("content header has flags of unknown properties")
        self = {name}()
'''


TIMES = {"timestamp": "datetime", "expiration": "timedelta"}  # taken as well, converted at once


def properties(definition: dict[str, Any]) -> Iterator[str]:
    fields = properties_of(definition)["basic"]
    yield BANNER + CLASSES_PRAGMAS
    yield HEAD
    for field, flag in flags_of(fields).items():
        yield f"FLAG_{shout(field.name)} = 0x{flag:04X}"
    unknown = 0xFFFE & ~sum(flags_of(fields).values())
    yield f"UNKNOWN_FLAGS = 0x{unknown:04X}\n\n"
    flags = {field: f"FLAG_{shout(field.name)}" for field in fields}
    doc = "The fourteen properties of class basic."
    yield from properties_class("Properties", doc, flags, "UNKNOWN_FLAGS")


def properties_0_9(definition: dict[str, Any]) -> Iterator[str]:
    yield BANNER + CLASSES_PRAGMAS
    yield HEAD_0_9.rstrip()
    for class_name, fields in properties_of(definition).items():
        if class_name != "basic":
            flags = {field: f"0x{flag:04X}" for field, flag in flags_of(fields).items()}
            unknown = f"0x{0xFFFE & ~sum(flags_of(fields).values()):04X}"
            doc = f"The properties of class {class_name}."
            yield "\n"
            yield from properties_class(f"{camel(class_name)}Properties", doc, flags, unknown)


def properties_of(definition: dict[str, Any]) -> dict[str, tuple[Field, ...]]:
    return {
        klass["name"]: read_fields(klass["properties"])
        for klass in definition["class"]
        if "properties" in klass
    }


def flags_of(fields: tuple[Field, ...]) -> dict[Field, int]:
    return {field: 1 << (15 - index) for index, field in enumerate(fields)}


def properties_class(class_name: str, doc: str, flags: dict[Field, str], unknown: str) -> Iterator[str]:
    yield f"class {class_name}:"
    yield f'    """{doc}"""\n'
    yield "    " + tuple_of("__slots__ =", [f'"{field.attribute}"' for field in flags])
    yield ""
    yield "    def __init__("
    yield "        self,"
    for field in flags:
        also = f" | {TIMES[field.name]}" if field.name in TIMES else ""
        yield f"        {field.attribute}: {field.annotation}{also} | None = None,"
    yield "    ) -> None:"
    for field in flags:
        name = field.attribute
        value = f"None if {name} is None else {name}_of({name})" if field.name in TIMES else name
        yield f"        self.{name} = {value}"
    yield COMMON.format(name=class_name, unknown=unknown).rstrip()
    for field, flag in flags.items():
        yield f"        if flags & {flag}:"
        yield from indent(property_reader(field), 12)
    yield "        if pos != end:"
    yield '            raise misfit("content header", pos, end)'
    yield "        return self\n"
    yield "    def encode(self) -> bytes:"
    yield '        """Flags and values, as `decode` reads them."""'
    yield "        flags = 0"
    yield "        values: list[bytes] = []"
    for field, flag in flags.items():
        yield f"        if self.{field.attribute} is not None:"
        yield f"            flags |= {flag}"
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
