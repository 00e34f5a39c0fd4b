"""The definition as objects: what amqp.toml says, and how each method's fields lie on the wire."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

LATEST = "0-9-1"
FORMATS = {"octet": "B", "short": "H", "long": "I", "longlong": "Q", "timestamp": "Q", "bits": "B"}
SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8}
ANNOTATIONS = {
    "shortstr": "str",
    "longstr": "bytes",
    "bit": "bool",
    "table": "dict[str, object]",
    "content": "Content",
}
ZEROS = {"shortstr": '""', "longstr": 'b""', "bit": "False", "table": "None", "content": "NO_CONTENT"}
FLAGS = {"reserved", "secret", "optional", "since", "until"}
RESERVED_BYTES = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "shortstr": 1, "longstr": 4}
BITS_PER_OCTET = 8


@dataclass(frozen=True)
class Field:
    """One line of `fields` or `properties` in the definition, as one version has it."""

    name: str
    type: str
    reserved: bool
    secret: bool
    optional: bool
    retired: bool  # reserved in the latest version: its attribute comes last, so that signatures agree
    default: str

    @classmethod
    def parse(cls, line: str, version: str = LATEST) -> Field | None:
        """None: this version does not have it."""
        declaration, _, default = line.partition(" = ")
        name, type, *words = declaration.split()
        flags = dict(word.partition(":")[::2] for word in words)
        if type not in FORMATS and type not in ANNOTATIONS or set(flags) - FLAGS:
            raise ValueError(f"cannot read field {line!r}")
        if not exists(version, flags):
            return None
        reserved_since = flags.get("reserved")
        reserved = reserved_since is not None and rank(version) >= rank(reserved_since)
        zero = default or ZEROS.get(type, "0")
        return cls(name, type, reserved, "secret" in flags, "optional" in flags, bool(reserved_since), zero)

    @property
    def attribute(self) -> str:
        name = self.name.replace("-", "_")
        return name + "_" if keyword.iskeyword(name) else name

    @property
    def annotation(self) -> str:
        return ANNOTATIONS.get(self.type, "int")

    @property
    def parameter(self) -> str:
        annotation = self.annotation + (" | None" if self.default == "None" else "")
        return f"{self.attribute}: {annotation} = {self.default}"


@dataclass(frozen=True)
class Item:
    """What lies on the wire: a field, or up to eight neighbouring bits in one octet."""

    type: str
    fields: tuple[Field, ...]

    @property
    def reserved(self) -> bool:
        return all(field.reserved for field in self.fields)

    @property
    def format(self) -> str | None:
        """The struct letter, None for what has no fixed size."""
        letter = FORMATS.get(self.type)
        return letter and ("x" * SIZES[letter] if self.reserved else letter)


@dataclass(frozen=True)
class Method:
    class_name: str
    class_id: int
    name: str
    id: int
    synchronous: bool
    content: bool
    senders: frozenset[str]
    responses: tuple[str, ...]
    instead_of: str
    fields: tuple[Field, ...]

    @property
    def full_name(self) -> str:
        return f"{self.class_name}.{self.name}"

    @property
    def id_text(self) -> str:
        """Class and method in one number, as generated code writes it."""
        return f"0x{self.class_id << 16 | self.id:08X}"

    @property
    def python_name(self) -> str:
        return camel(self.class_name) + camel(self.name)

    @property
    def visible(self) -> tuple[Field, ...]:
        """The attributes, in the order of the arguments."""
        return tuple(
            sorted((field for field in self.fields if not field.reserved), key=lambda field: field.retired)
        )

    @property
    def items(self) -> Iterator[Item]:
        for is_bit, group in groupby(self.fields, key=lambda field: field.type == "bit"):
            fields = tuple(group)
            if is_bit:
                for start in range(0, len(fields), BITS_PER_OCTET):
                    yield Item("bits", fields[start : start + BITS_PER_OCTET])
            else:
                for field in fields:
                    yield Item(field.type, (field,))


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def rank(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("-"))) if version else ()


def exists(version: str, limits: Mapping[str, Any]) -> bool:
    """Is the version between `since` and `until`, as far as these are given?"""
    since, until = limits.get("since", ""), limits.get("until", version)
    return rank(since) <= rank(version) <= rank(until)


def read_fields(lines: Iterable[str], version: str = LATEST) -> tuple[Field, ...]:
    return tuple(field for line in lines if (field := Field.parse(line, version)) is not None)


def read_methods(definition: dict[str, Any], version: str = LATEST) -> list[Method]:
    """The methods of one version of the protocol."""
    return [
        Method(
            class_name=klass["name"],
            class_id=klass["id"],
            name=method["name"],
            id=method.get("ids", {}).get(version, method["id"]),
            synchronous=method.get("synchronous", False),
            content=method.get("content", False),
            senders=frozenset(method["from"]),
            responses=tuple(f"{klass['name']}.{name}" for name in method.get("responses", ())),
            instead_of=method.get("instead-of", ""),
            fields=read_fields(method.get("fields", ()), version),
        )
        for klass in definition["class"]
        if exists(version, klass)
        for method in klass["method"]
        if exists(version, method)
    ]
