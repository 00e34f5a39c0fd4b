"""The scanner of field tables: its two forms find what `decode_table` decodes, and refuse what it refuses."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import embermq.wire.field_scan as imported
from embermq.errors import SyntaxFault
from embermq.wire.table import decode_table, encode_table
from tests.support.wire_strategies import tables

NAMES = ("CC", "BCC", "x-delay", "", "é")


def interpreted() -> ModuleType:
    path = Path(imported.__file__).with_name("field_scan.py")
    spec = importlib.util.spec_from_file_location("interpreted_field_scan", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TWIN = interpreted()
FORMS = [pytest.param(imported, id="imported"), pytest.param(TWIN, id="interpreted")]


def scanned(form: ModuleType, data: bytes, names: tuple[str, ...] = NAMES) -> tuple[dict[str, object], int]:
    scan = form.FieldScan(names)
    stop = scan.read(data, 0, len(data))
    found = {name: scan.value(data, i) for i, name in enumerate(names) if scan.has(i)}
    assert scan.found == len(found)
    return found, stop


def expected(data: bytes) -> tuple[dict[str, object], int]:
    fields, stop = decode_table(data, 0, len(data))
    return {name: fields[name] for name in NAMES if name in fields}, stop


def outcome(read: Callable[[bytes], object], data: bytes) -> object:
    try:
        return read(data)
    except SyntaxFault as error:
        return str(error)


def assert_same_verdict(form: ModuleType, data: bytes) -> None:
    assert outcome(partial(scanned, form), data) == outcome(expected, data)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=300, deadline=None)
@given(fields=tables, wanted=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)))
def test_finds_what_is_there(form: ModuleType, fields: dict[str, object], wanted: dict[str, object]) -> None:
    data = encode_table({**fields, **wanted})
    assert scanned(form, data) == scanned(form, bytearray(data)) == expected(data)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=500, deadline=None)
@given(data=st.binary(max_size=60).map(lambda content: len(content).to_bytes(4, "big") + content))
@example(data=b"\x00\x00\x00\x0c\x02CCt\x01\x02CCt\x01")  # twice
@example(data=b"\x00\x00\x00\x08\x02CCF\xff\xff\xff\xff")
def test_refuses_what_decoding_refuses(form: ModuleType, data: bytes) -> None:
    assert_same_verdict(form, data)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(fields=tables, at=st.integers(0, 200), octet=st.integers(0, 255))
def test_a_damaged_table(form: ModuleType, fields: dict[str, object], at: int, octet: int) -> None:
    data = bytearray(encode_table({**fields, "CC": [1]}))
    data[at % len(data)] = octet
    assert_same_verdict(form, bytes(data))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [31, 32, 33, 5000])
def test_many_fields(form: ModuleType, count: int) -> None:
    data = encode_table({**{f"field-{i}": i for i in range(count)}, "BCC": ["x"]})
    assert scanned(form, data) == ({"BCC": ["x"]}, len(data))
    twice = data + b"\x03BCCt\x01"
    twice = (len(twice) - 4).to_bytes(4, "big") + twice[4:]
    with pytest.raises(SyntaxFault, match="'BCC' appears twice"):
        scanned(form, twice)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_left_of_the_table_before(form: ModuleType) -> None:
    scan = form.FieldScan(NAMES)
    first, second = encode_table({"CC": 1}), encode_table({"other": 1})
    scan.read(first, 0, len(first))
    assert scan.found == 1
    scan.read(second, 0, len(second))
    assert (scan.found, scan.has(0)) == (0, False)
    scan.read(first, 0, len(first))
    with pytest.raises(SyntaxFault):
        scan.read(first, 0, len(first) - 1)


@pytest.mark.parametrize("form", FORMS)
def test_bounds(form: ModuleType) -> None:
    with pytest.raises(ValueError, match="17 names"):
        form.FieldScan(tuple(map(str, range(17))))
    scan = form.FieldScan(("a",))
    for number in (-1, 1):
        with pytest.raises(IndexError):
            scan.has(number)
    for start, end in ((-1, 4), (0, 5)):
        with pytest.raises(IndexError):
            scan.read(bytes(4), start, end)
