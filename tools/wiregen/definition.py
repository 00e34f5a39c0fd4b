"""The definition as objects: what amqp.toml says, and how each method's fields lie on the wire."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

FORMATS = {"octet": "B", "short": "H", "long": "I", "longlong": "Q", "timestamp": "Q", "bits": "B"}
SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8}
ANNOTATIONS = {"shortstr": "str", "longstr": "bytes", "bit": "bool", "table": "dict[str, object]"}
ZEROS = {"shortstr": '""', "longstr": 'b""', "bit": "False", "table": "None"}
RESERVED_BYTES = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "shortstr": 1, "longstr": 4}
BITS_PER_OCTET = 8


@dataclass(frozen=True)
class Field:
    """One line of `fields` or `properties` in the definition."""

    name: str
    type: str
    reserved: bool
    secret: bool
    default: str

    @classmethod
    def parse(cls, line: str) -> Field:
        declaration, _, default = line.partition(" = ")
        name, type, *flags = declaration.split()
        if type not in FORMATS and type not in ANNOTATIONS or set(flags) - {"reserved", "secret"}:
            raise ValueError(f"cannot read field {line!r}")
        return cls(name, type, "reserved" in flags, "secret" in flags, default or ZEROS.get(type, "0"))

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
    fields: tuple[Field, ...]

    @property
    def full_name(self) -> str:
        return f"{self.class_name}.{self.name}"

    @property
    def python_name(self) -> str:
        return camel(self.class_name) + camel(self.name)

    @property
    def visible(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if not field.reserved)

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


def read_methods(definition: dict[str, Any]) -> list[Method]:
    methods = []
    for klass in definition["class"]:
        for method in klass["method"]:
            methods.append(
                Method(
                    class_name=klass["name"],
                    class_id=klass["id"],
                    name=method["name"],
                    id=method["id"],
                    synchronous=method.get("synchronous", False),
                    content=method.get("content", False),
                    senders=frozenset(method["from"]),
                    responses=tuple(f"{klass['name']}.{name}" for name in method.get("responses", ())),
                    fields=tuple(Field.parse(line) for line in method.get("fields", ())),
                )
            )
    return methods
