"""The source of wire/methods*.py: one class per method, with straight-line `encode` and `decode`.

methods.py has the latest version whole. methods_0_9.py and methods_0_8.py have the methods that are not in
it, those with another number or other fields (as subclasses, so that one handler takes both), and the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tools.wiregen.definition import LATEST, RESERVED_BYTES, Field, Method, read_methods
from tools.wiregen.source import (
    BANNER,
    CLASSES_PRAGMAS,
    Structs,
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

OLDER_HEAD = '''"""Methods of AMQP {version} that are not in 0-9-1, or are different there."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

from embermq.wire import {newer}
from embermq.wire.methods import Method
from embermq.wire.primitive import {primitives}
from embermq.wire.table import decode_table, encode_table

'''

PRIMITIVES = (
    "NO_CONTENT",
    "Buffer",
    "Content",
    "decode_content",
    "encode_content",
    "encode_longstr",
    "encode_shortstr",
    "misfit",
)

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
    values: dict[Field, str] = {}
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
                    values |= {
                        field: f"{bits} & {1 << index} != 0"
                        for index, field in enumerate(item.fields)
                        if not field.reserved
                    }
                elif not item.reserved:
                    targets.append(item.fields[0].attribute)
                    values[item.fields[0]] = item.fields[0].attribute
            format = "".join(item.format or "" for item in items)
            if items[0].fields[0].optional:
                yield "if pos == end:"
                yield f"    {targets[0]} = 0"
                yield "else:"
                yield from indent(read_fixed(method.full_name, format, targets, structs))
            else:
                yield from read_fixed(method.full_name, format, targets, structs)
            continue
        for item in items:
            target = None if item.reserved else item.fields[0].attribute
            if target is not None:
                values[item.fields[0]] = target
            if item.type in ("table", "content"):
                yield f"{target}, pos = decode_{item.type}(buf, pos, end)"
            elif item.type == "shortstr":
                yield from read_shortstr(method.full_name, target)
            else:
                yield from read_longstr(method.full_name, target)
    yield "if pos != end:"
    yield f'    raise misfit("{method.full_name}", pos, end)'
    yield f"return {method.python_name}({', '.join(values[field] for field in method.visible)})"


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
        if items[0].fields[0].optional:
            parts.append(f'{literal(bytes([1]))} if self.{items[0].fields[0].attribute} else b""')
        elif reserved_or_kind == "fixed":
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
    if len(parts) <= 3:
        yield f"return {' + '.join(parts)}"
    else:
        yield f'return b"".join(({", ".join(parts)}))'


def method_class(
    method: Method, ids: dict[str, str], structs: Structs, newer: Method | None = None
) -> Iterator[str]:
    """The source of one class; `newer` is the method of the latest version that it is a subclass of."""
    fields = method.visible
    inherited = {field.attribute for field in newer.visible} if newer else set()
    own = [f'"{field.attribute}"' for field in fields if field.attribute not in inherited]
    yield f"class {method.python_name}({f'methods.{method.python_name}' if newer else 'Method'}):"
    yield "    " + tuple_of("__slots__ =", own)
    yield ""
    yield f"    ID = {method.id_text}"
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
        yield "    " + tuple_of("RESPONSES =", [ids[name] for name in method.responses])
    if inherited:
        yield "    " + tuple_of("FIELDS =", [f'"{field.attribute}"' for field in fields])
    elif fields:
        yield "    FIELDS: ClassVar[tuple[str, ...]] = __slots__"
    secrets = [f'"{field.attribute}"' for field in fields if field.secret]
    if secrets:
        yield f"    SECRETS = frozenset(({', '.join(secrets)},))"
    yield ""
    if fields:
        parameters = ["self", *(field.parameter for field in fields)]
        yield f"    def __init__({', '.join(parameters)}) -> None:"
        for field in fields:
            name = field.attribute
            if field.default == "None":
                yield f"        self.{name}: {field.annotation} = {{}} if {name} is None else {name}"
            else:
                yield f"        self.{name} = {name}"
        missing = (field for field in newer.visible if field not in fields) if newer else ()
        yield from (
            f"        self.{field.attribute} = {'{}' if field.default == 'None' else field.default}"
            for field in missing
        )
        yield ""
    yield "    @staticmethod"
    yield f"    def decode(buf: Buffer, pos: int, end: int) -> {method.python_name}:"
    yield from indent(decoder(method, structs), 8)
    yield ""
    yield "    def encode(self) -> bytes:"
    yield from indent(encoder(method, structs), 8)


def methods(definition: dict[str, Any]) -> Iterator[str]:
    """The latest version, whole."""
    all_methods = read_methods(definition)
    structs = Structs()
    classes = ["\n".join(method_class(method, ids(all_methods), structs)) for method in all_methods]
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


def methods_0_9(definition: dict[str, Any]) -> Iterator[str]:
    yield from older_methods(definition, "0-9", {"methods": LATEST})


def methods_0_8(definition: dict[str, Any]) -> Iterator[str]:
    yield from older_methods(definition, "0-8", {"methods": LATEST, "methods_0_9": "0-9"})


def older_methods(definition: dict[str, Any], version: str, newer: dict[str, str]) -> Iterator[str]:
    """What `version` has for itself, not in common with modules of newer versions, and the table of all."""
    latest = {method.full_name: method for method in read_methods(definition)}
    known = {
        method: module
        for module, of_version in reversed(newer.items())
        for method in read_methods(definition, of_version)
    }
    all_methods = read_methods(definition, version)
    structs = Structs()
    classes = [
        "\n".join(method_class(method, ids(all_methods), structs, latest.get(method.full_name)))
        for method in all_methods
        if method not in known
    ]
    source = "\n".join(classes)
    used = [name for name in PRIMITIVES if name in source]
    head = OLDER_HEAD.format(version=version, newer=", ".join(newer), primitives=", ".join(used))
    yield BANNER + CLASSES_PRAGMAS
    for name, use in (("_table", "_table("), ("ClassVar", "ClassVar[")):
        head = "\n".join(line for line in head.split("\n") if name not in line or use in source)
    yield head.rstrip()
    yield ""
    yield from (line for line in structs.definitions() if f"{line.split()[0]}." in source)
    for source in classes:
        yield "\n\n" + source
    yield "\n\nMETHODS: dict[int, type[Method]] = {"
    alternatives = {}
    for method in all_methods:
        name = method.python_name if method not in known else f"{known[method]}.{method.python_name}"
        if method.instead_of:
            alternatives[method.id_text] = name
        else:
            yield f"    {name}.ID: {name},"
    yield "}"
    yield "# Other layouts under the same number."
    yield "ALTERNATIVES: dict[int, type[Method]] = {"
    yield from (f"    {first}: {other}," for first, other in alternatives.items())
    yield "}"


def ids(all_methods: list[Method]) -> dict[str, str]:
    return {method.full_name: method.id_text for method in all_methods}
