"""What hypothesis may put into methods, properties and tables, derived from the definition itself."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from embermq.wire.methods import METHODS, Method
from embermq.wire.primitive import Content
from embermq.wire.properties import Properties
from embermq.wire.table import Timestamp
from tools.wiregen.definition import Method as Definition
from tools.wiregen.definition import read_methods
from tools.wiregen.properties import properties_of

REPOSITORY = Path(__file__).resolve().parents[2]
DEFINITION = tomllib.loads((REPOSITORY / "src/embermq/wire/amqp.toml").read_text())
DEFINITIONS: dict[int, Definition] = {
    method.class_id << 16 | method.id: method for method in read_methods(DEFINITION)
}
PROPERTIES = properties_of(DEFINITION)


def uints(bits: int) -> SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


def ints(bits: int) -> SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# Any bytes at all are allowed in a string; most of the time they are text.
raw_text = st.binary(max_size=255).map(lambda data: data.decode("utf-8", "surrogateescape"))
shortstrs = st.text(max_size=60) | raw_text
field_names = st.text(max_size=20) | raw_text
decimals = st.builds(
    lambda unscaled, places: Decimal(unscaled).scaleb(-places), ints(32), st.integers(0, 255)
)
finite = st.floats(allow_nan=False)

scalars: SearchStrategy[object] = st.one_of(
    st.none(),
    st.booleans(),
    ints(32),
    ints(64),
    finite,
    shortstrs,
    st.binary(max_size=300),
    decimals,
    uints(64).map(Timestamp),
)
values: SearchStrategy[object] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(field_names, inner, max_size=4),
    max_leaves=8,
)
tables: SearchStrategy[dict[str, object]] = st.dictionaries(field_names, values, max_size=5)

# What goes under each letter of a typed table.
LETTERS: dict[str, SearchStrategy[object]] = {
    "b": ints(8),
    "B": uints(8),
    "s": ints(16),
    "u": uints(16),
    "I": ints(32),
    "i": uints(32),
    "l": ints(64),
    "L": ints(64),
    "t": st.booleans(),
    "f": st.floats(width=32, allow_nan=False),
    "d": finite,
    "D": decimals,
    "S": shortstrs,
    "T": uints(64).map(Timestamp),
    "V": st.none(),
    "x": st.binary(max_size=300),
}


def typed_fields(pairs: SearchStrategy[tuple[str, object]]) -> SearchStrategy[list[tuple[str, str, object]]]:
    named = st.dictionaries(field_names, pairs, max_size=4)
    return named.map(lambda fields: [(name, letter, value) for name, (letter, value) in fields.items()])


typed_values: SearchStrategy[tuple[str, object]] = st.recursive(
    st.one_of(*(st.tuples(st.just(letter), inner) for letter, inner in LETTERS.items())),
    lambda inner: (
        st.tuples(st.just("A"), st.lists(inner, max_size=4)) | st.tuples(st.just("F"), typed_fields(inner))
    ),
    max_leaves=8,
)
typed_tables = typed_fields(typed_values)

WIRE_TYPES: dict[str, SearchStrategy[object]] = {
    "bit": st.booleans(),
    "octet": uints(8),
    "short": uints(16),
    "long": uints(32),
    "longlong": uints(64),
    "timestamp": uints(64),
    "shortstr": shortstrs,
    "longstr": st.binary(max_size=300),
    "table": tables,
    "content": st.builds(Content, st.binary(max_size=300), st.booleans()),
}


def methods_of(method_id: int) -> SearchStrategy[Method]:
    return instances(METHODS[method_id], DEFINITIONS[method_id])


def instances(method_class: type[Method], definition: Definition) -> SearchStrategy[Method]:
    fields = {field.attribute: WIRE_TYPES[field.type] for field in definition.visible}
    return st.builds(method_class, **fields)


methods: SearchStrategy[Method] = st.sampled_from(sorted(DEFINITIONS)).flatmap(methods_of)
properties: SearchStrategy[Properties] = st.builds(
    Properties, **{field.attribute: st.none() | WIRE_TYPES[field.type] for field in PROPERTIES["basic"]}
)
