"""The source of wire/methods.py: one class per method, with straight-line `encode` and `decode`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tools.wiregen.definition import RESERVED_BYTES, Field, Method, read_methods
from tools.wiregen.source import (
    BANNER,
    CLASSES_PRAGMAS,
    LINE_MAX,
    Structs,
    call,
    indent,
    literal,
    read_fixed,
    read_longstr,
    read_shortstr,
    tuple_of,
)

HEAD = '''"""Every method of the protocol as a slotted class with its own encoder and decoder."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

from embermq.errors import NotImplementedYet
from embermq.wire.primitive import Buffer, encode_longstr, encode_shortstr, misfit
from embermq.wire.table import decode_table, encode_table

'''

BASE = '''

class Method:
    """What all methods have in common; `ID` is class id and method id in one number, as on the wire."""

    __slots__ = ()

    ID: ClassVar[int]
    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]
    NAME: ClassVar[str]
    SYNCHRONOUS: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False
    FROM_CLIENT: ClassVar[bool] = False
    FROM_SERVER: ClassVar[bool] = False
    RESPONSES: ClassVar[tuple[int, ...]] = ()
    FIELDS: ClassVar[tuple[str, ...]] = ()
    SECRETS: ClassVar[frozenset[str]] = frozenset()

    @staticmethod
    def decode(buf: Buffer, pos: int, end: int) -> Method:
        """The method whose arguments, after the two ids, fill `pos` to `end`."""
        raise NotImplementedError

    def encode(self) -> bytes:
        """The payload of a method frame: ids and arguments."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # fields may change

    def __repr__(self) -> str:
        shown = (
            f"{name}={'<secret>' if name in self.SECRETS else repr(getattr(self, name))}"
            for name in self.FIELDS
        )
        return f"{type(self).__name__}({', '.join(shown)})"
'''

TAIL = '''

def decode_method(buf: Buffer, pos: int, end: int) -> Method:
    """The method that fills `pos` to `end` of `buf`, a method frame's payload."""
    assert end <= len(buf)
    if pos + 4 > end:
        raise misfit("method frame", pos + 4, end)
    method_class = METHODS.get(int.from_bytes(buf[pos : pos + 4], "big"))
    if method_class is None:
        class_id, method_id = _HH.unpack_from(buf, pos)
        raise NotImplementedYet(f"unknown method id {{{class_id},{method_id}}}")
    return method_class.decode(buf, pos + 4, end)
'''


def decoder(method: Method, structs: Structs) -> Iterator[str]:
    """The statements of `decode`."""
    arguments: list[str] = []
    octets_of_bits = 0
    for fixed, group in groupby(method.items, key=lambda item: item.format is not None):
        items = list(group)
        if fixed:
            targets = []
            for item in items:
                if item.type == "bits" and not item.reserved:
                    octets_of_bits += 1
                    bits = "bits" if octets_of_bits == 1 else f"bits{octets_of_bits}"
                    targets.append(bits)
                    arguments += [
                        f"{bits} & {1 << index} != 0"
                        for index, field in enumerate(item.fields)
                        if not field.reserved
                    ]
                elif not item.reserved:
                    targets.append(item.fields[0].attribute)
                    arguments.append(item.fields[0].attribute)
            format = "".join(item.format or "" for item in items)
            yield from read_fixed(method.full_name, format, targets, structs)
            continue
        for item in items:
            target = None if item.reserved else item.fields[0].attribute
            if target is not None:
                arguments.append(target)
            if item.type == "table":
                yield f"{target}, pos = decode_table(buf, pos, end)"
            elif item.type == "shortstr":
                yield from read_shortstr(method.full_name, target)
            else:
                yield from read_longstr(method.full_name, target)
    yield "if pos != end:"
    yield f'    raise misfit("{method.full_name}", pos, end)'
    yield from call(f"return {method.python_name}", arguments)


def packed_bits(fields: tuple[Field, ...]) -> str:
    terms = [
        f"self.{field.attribute}" + (f" << {index}" if index else "")
        for index, field in enumerate(fields)
        if not field.reserved
    ]
    return " | ".join(terms)


def encoder(method: Method, structs: Structs) -> Iterator[str]:
    """The statements of `encode`."""
    parts: list[str] = []
    constant = method.class_id.to_bytes(2, "big") + method.id.to_bytes(2, "big")
    for reserved_or_kind, group in groupby(
        method.items, key=lambda item: "reserved" if item.reserved else "fixed" if item.format else "long"
    ):
        items = list(group)
        if reserved_or_kind == "reserved":
            constant += bytes(sum(RESERVED_BYTES.get(item.type, 1) for item in items))
            continue
        if constant:
            parts.append(literal(constant))
            constant = b""
        if reserved_or_kind == "fixed":
            values = [
                packed_bits(item.fields) if item.type == "bits" else f"self.{item.fields[0].attribute}"
                for item in items
            ]
            format = "".join(item.format or "" for item in items)
            parts.append(f"{structs.name(format)}.pack({', '.join(values)})")
        else:
            for item in items:
                parts.append(f"encode_{item.type}(self.{item.fields[0].attribute})")
    if constant:
        parts.append(literal(constant))
    line = f"return {' + '.join(parts)}"
    if len(line) <= LINE_MAX - 8 and len(parts) <= 3:
        yield line
        return
    yield 'return b"".join('
    yield "    ("
    for part in parts:
        yield from indent(wrapped(part), 8)
    yield "    )"
    yield ")"


def wrapped(part: str) -> Iterator[str]:
    """One element of the tuple in `encode`, broken the way ruff would when it is too long."""
    if len(part) <= LINE_MAX - 17:
        yield f"{part},"
        return
    function, _, argument = part[:-1].partition("(")
    yield f"{function}("
    if len(argument) <= LINE_MAX - 20:
        yield f"    {argument}"
    else:
        first, *others = argument.split(" | ")
        yield f"    {first}"
        yield from (f"    | {other}" for other in others)
    yield "),"


def method_class(method: Method, ids: dict[str, str], structs: Structs) -> Iterator[str]:
    """The source of one class."""
    fields = method.visible
    yield f"class {method.python_name}(Method):"
    yield from indent(tuple_of("__slots__ =", [f'"{field.attribute}"' for field in fields]))
    yield ""
    yield f"    ID = 0x{method.class_id << 16 | method.id:08X}"
    yield f"    CLASS_ID = {method.class_id}"
    yield f"    METHOD_ID = {method.id}"
    yield f'    NAME = "{method.full_name}"'
    flags = {
        "SYNCHRONOUS": method.synchronous,
        "HAS_CONTENT": method.content,
        "FROM_CLIENT": "client" in method.senders,
        "FROM_SERVER": "server" in method.senders,
    }
    yield from (f"    {flag} = True" for flag, value in flags.items() if value)
    if method.responses:
        yield from indent(tuple_of("RESPONSES =", [ids[name] for name in method.responses]))
    if fields:
        yield "    FIELDS = __slots__"
    secrets = [f'"{field.attribute}"' for field in fields if field.secret]
    if secrets:
        yield f"    SECRETS = frozenset(({', '.join(secrets)},))"
    yield ""
    if fields:
        parameters = ["self", *(field.parameter for field in fields)]
        line = f"def __init__({', '.join(parameters)}) -> None:"
        if len(line) <= LINE_MAX - 4:
            yield "    " + line
        else:
            yield "    def __init__("
            yield from (f"        {parameter}," for parameter in parameters)
            yield "    ) -> None:"
        for field in fields:
            name = field.attribute
            if field.default == "None":
                yield f"        self.{name}: {field.annotation} = {{}} if {name} is None else {name}"
            else:
                yield f"        self.{name} = {name}"
        yield ""
    yield "    @staticmethod"
    yield f"    def decode(buf: Buffer, pos: int, end: int) -> {method.python_name}:"
    yield from indent(decoder(method, structs), 8)
    yield ""
    yield "    def encode(self) -> bytes:"
    yield from indent(encoder(method, structs), 8)


def methods(definition: dict[str, Any]) -> Iterator[str]:
    all_methods = read_methods(definition)
    ids = {method.full_name: f"0x{method.class_id << 16 | method.id:08X}" for method in all_methods}
    structs = Structs()
    classes = ["\n".join(method_class(method, ids, structs)) for method in all_methods]
    yield BANNER + CLASSES_PRAGMAS
    yield HEAD.rstrip() + "\n"
    yield from structs.definitions()
    yield BASE
    for source in classes:
        yield "\n" + source + "\n"
    yield "\nMETHODS: dict[int, type[Method]] = {"
    for method in all_methods:
        yield f"    {method.python_name}.ID: {method.python_name},"
    yield "}"
    yield TAIL.rstrip()
