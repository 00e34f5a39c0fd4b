"""Other people's codecs as judges: what pika and pamqp write we read as the same values, and the other way.

Both build a method from its fields in the order of the wire, reserved ones included, so a field that we put
in the wrong place shows here.
"""

from __future__ import annotations

import inspect
import string
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pamqp.base
import pamqp.body
import pamqp.commands
import pamqp.decode
import pamqp.encode
import pamqp.frame
import pamqp.header
import pamqp.heartbeat
import pika.data
import pika.frame
import pika.spec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.wire.frame import HEARTBEAT_FRAME, content_frames, content_header, method_frame
from embermq.wire.methods import METHODS, ChannelOpen, ChannelOpenOk, ConnectionUpdateSecret, decode_method
from embermq.wire.properties import Properties
from embermq.wire.table import Timestamp, TypedField, decode_table, encode_table, encode_typed
from tests.support.wire_strategies import DEFINITIONS, LETTERS, ints, uints

PIKA: dict[int, Any] = pika.spec.methods
PAMQP: dict[int, Any] = pamqp.commands.INDEX_MAPPING

# pamqp insists on the specification's alphabet for names.
names = st.text(string.ascii_letters + string.digits + "-_.:", max_size=40)
# pamqp takes a timestamp beyond 2106 for milliseconds, and neither knows what lies before 1970.
moments = st.integers(0, 2**32 - 1).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
decimals = st.builds(
    lambda unscaled, places: Decimal(unscaled).scaleb(-places), st.integers(-9999, 9999), st.integers(0, 9)
)
common_scalars = st.none() | st.booleans() | ints(64) | st.text(max_size=20) | moments | decimals


def tables_of(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=6,
    )
    return st.dictionaries(names, values, max_size=4)


CLIENT_TABLES = {
    "pika": tables_of(common_scalars | st.binary(max_size=20)),
    "pamqp": tables_of(
        common_scalars | st.binary(max_size=20).map(bytearray) | st.floats(width=32, allow_nan=False)
    ),
}
FIELD_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": uints(8),
    "short": uints(16),
    "long": uints(32),
    "longlong": uints(63),  # pamqp's is signed
    "shortstr": names,
    "longstr": names,
}
RESERVED: dict[str, Any] = {"bit": False, "short": 0, "shortstr": "", "longstr": ""}
# pamqp fills these two reserved strings with "0".
PAMQP_PECULIAR = {ChannelOpen.ID, ChannelOpenOk.ID}


def plain(value: Any) -> Any:
    """The value as we decode it, whichever codec it comes from."""
    if isinstance(value, datetime):
        return Timestamp(int(value.timestamp()))
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def draw_arguments(data: st.DataObject, client: str, method_id: int) -> list[Any]:
    """One argument per field of the wire, as the client's constructor takes them."""
    if client == "pamqp" and method_id in PAMQP_PECULIAR:
        return ["0"]
    strategies = FIELD_VALUES | {"table": CLIENT_TABLES[client]}
    fields = DEFINITIONS[method_id].fields
    return [RESERVED[field.type] if field.reserved else data.draw(strategies[field.type]) for field in fields]


def our_method(method_id: int, arguments: list[Any]) -> Any:
    fields = DEFINITIONS[method_id].fields
    visible = {
        field.attribute: value.encode() if field.type == "longstr" else plain(value)
        for field, value in zip(fields, arguments, strict=True)
        if not field.reserved
    }
    return METHODS[method_id](**visible)


def method_name(method_id: int) -> str:
    return DEFINITIONS[method_id].full_name


def test_we_know_all_their_methods() -> None:
    assert set(PIKA) == set(METHODS)
    assert set(PAMQP) == {method_id for method_id in METHODS if method_id >> 16 != 30}  # no class access


@pytest.mark.parametrize("method_id", sorted(PIKA), ids=method_name)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_pika_and_we_read_each_other(method_id: int, data: st.DataObject) -> None:
    arguments = draw_arguments(data, "pika", method_id)
    theirs = pika.frame.Method(7, PIKA[method_id](*arguments)).marshal()
    expected = our_method(method_id, arguments)
    assert decode_method(theirs, 7, len(theirs) - 1) == expected
    if method_id == ConnectionUpdateSecret.ID:
        return  # only clients send it, and pika 1.4.4 cannot read it

    ours = method_frame(7, expected)
    size, decoded = pika.frame.decode_frame(ours)
    assert (size, decoded.channel_number, type(decoded.method)) == (len(ours), 7, PIKA[method_id])
    parameters = list(inspect.signature(PIKA[method_id].__init__).parameters)[1:]
    for parameter, field, value in zip(parameters, DEFINITIONS[method_id].fields, arguments, strict=True):
        expected_value = value.encode() if field.type == "longstr" else plain(value)
        assert plain(getattr(decoded.method, parameter)) == expected_value


@pytest.mark.filterwarnings("ignore:This command is deprecated")
@pytest.mark.parametrize("method_id", sorted(PAMQP), ids=method_name)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_pamqp_and_we_read_each_other(method_id: int, data: st.DataObject) -> None:
    arguments = draw_arguments(data, "pamqp", method_id)
    theirs = pamqp.frame.marshal(PAMQP[method_id](*arguments), 7)
    expected = our_method(method_id, arguments)
    assert decode_method(theirs, 7, len(theirs) - 1) == expected

    ours = method_frame(7, expected)
    size, channel, decoded = pamqp.frame.unmarshal(ours)
    assert (size, channel, type(decoded)) == (len(ours), 7, PAMQP[method_id])
    for field, (_, found), value in zip(DEFINITIONS[method_id].fields, decoded, arguments, strict=True):
        assert field.reserved or plain(found) == plain(value)


@pytest.mark.filterwarnings("ignore:This command is deprecated")
@pytest.mark.parametrize("method_id", sorted(PIKA), ids=method_name)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_without_tables_all_write_the_same_bytes(method_id: int, data: st.DataObject) -> None:
    arguments = draw_arguments(data, "pika", method_id)
    arguments = [{} if isinstance(argument, dict) else argument for argument in arguments]
    ours = method_frame(7, our_method(method_id, arguments))
    assert pika.frame.Method(7, PIKA[method_id](*arguments)).marshal() == ours
    if method_id in PAMQP.keys() - PAMQP_PECULIAR:
        assert pamqp.frame.marshal(PAMQP[method_id](*arguments), 7) == ours


@settings(max_examples=100, deadline=None)
@given(CLIENT_TABLES["pika"])
def test_tables_with_pika(table: dict[str, Any]) -> None:
    pieces: list[bytes] = []
    pika.data.encode_table(pieces, table)
    theirs = b"".join(pieces)
    assert decode_table(theirs, 0, len(theirs)) == (plain(table), len(theirs))
    ours = encode_table(table)
    decoded, size = pika.data.decode_table(ours, 0)
    assert (plain(decoded), size) == (plain(table), len(ours))


@settings(max_examples=100, deadline=None)
@given(CLIENT_TABLES["pamqp"])
def test_tables_with_pamqp(table: dict[str, Any]) -> None:
    theirs = pamqp.encode.field_table(table)
    assert decode_table(theirs, 0, len(theirs)) == (plain(table), len(theirs))
    ours = encode_table(table)
    size, decoded = pamqp.decode.field_table(ours)
    assert (plain(decoded), size) == (plain(table), len(ours))


def client_letters(unsupported: str) -> st.SearchStrategy[list[TypedField]]:
    """A list with a field for every letter, its name the letter."""
    narrowed = LETTERS | {"S": st.text(max_size=20), "T": uints(32).map(Timestamp), "D": decimals}
    letters = [letter for letter in narrowed if letter not in unsupported]
    return st.tuples(*(narrowed[letter] for letter in letters)).map(
        lambda values: [(letter, letter, value) for letter, value in zip(letters, values, strict=True)]
    )


@settings(max_examples=50, deadline=None)
@given(client_letters(unsupported="fd"))  # pika 1.4.4 cuts the fraction off floats
def test_pika_reads_every_letter_as_we_do(fields: list[TypedField]) -> None:
    data = encode_typed(fields)
    assert plain(pika.data.decode_table(data, 0)[0]) == decode_table(data, 0, len(data))[0]


@settings(max_examples=50, deadline=None)
@given(client_letters(unsupported=""))
def test_pamqp_reads_every_letter_as_we_do(fields: list[TypedField]) -> None:
    data = encode_typed(fields)
    assert plain(pamqp.decode.field_table(data)[1]) == decode_table(data, 0, len(data))[0]


PROPERTY_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "content_type": names.filter(bool),
    "content_encoding": names.filter(bool),
    "headers": CLIENT_TABLES["pika"],
    "delivery_mode": st.sampled_from([1, 2]),
    "priority": st.integers(0, 9),
    "correlation_id": names.filter(bool),
    "reply_to": names.filter(bool),
    "expiration": names.filter(bool),
    "message_id": names.filter(bool),
    "timestamp": moments,
    "type": names.filter(bool),
    "user_id": names.filter(bool),
    "app_id": names.filter(bool),
}
property_sets = st.fixed_dictionaries({}, optional=PROPERTY_VALUES)


@settings(max_examples=100, deadline=None)
@given(property_sets, st.binary(max_size=50))
def test_content_with_pika(properties: dict[str, Any], body: bytes) -> None:
    properties = plain(properties)
    headers = properties.pop("headers", None)
    simple = Properties(**properties)
    theirs = pika.frame.Header(7, len(body), pika.spec.BasicProperties(**properties)).marshal()
    theirs += pika.frame.Body(7, body).marshal() if body else b""
    assert theirs == content_frames(7, content_header(len(body), simple.encode()), body, 0)

    simple.headers = headers
    ours = content_frames(7, content_header(len(body), simple.encode()), b"", 0)
    decoded = pika.frame.decode_frame(ours)[1]
    assert decoded.body_size == len(body)
    for name in Properties.__slots__:
        assert plain(getattr(decoded.properties, name)) == getattr(simple, name)


@settings(max_examples=100, deadline=None)
@given(property_sets, st.binary(max_size=50))
def test_content_with_pamqp(properties: dict[str, Any], body: bytes) -> None:
    ours = Properties(**plain(properties))
    if "headers" in properties:  # pamqp has no letter for bytes, only for bytearrays
        properties["headers"] = with_bytearrays(properties["headers"])
    if "type" in properties:
        properties["message_type"] = properties.pop("type")
    header = pamqp.header.ContentHeader(0, len(body), pamqp.commands.Basic.Properties(**properties))
    theirs = pamqp.frame.marshal(header, 7)
    assert Properties.decode(theirs, 7 + 12, len(theirs) - 1) == ours

    _, channel, decoded = pamqp.frame.unmarshal(
        content_frames(7, content_header(len(body), ours.encode()), b"", 0)
    )
    assert (channel, decoded.body_size) == (7, len(body))
    for name in Properties.__slots__:
        found = getattr(decoded.properties, "message_type" if name == "type" else name)
        # pamqp never leaves cluster_id absent.
        assert plain(found) == (getattr(ours, name) if name != "cluster_id" else "")


def with_bytearrays(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, dict):
        return {name: with_bytearrays(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_bytearrays(item) for item in value]
    return value


def test_heartbeats_are_the_same() -> None:
    assert pika.frame.Heartbeat().marshal() == HEARTBEAT_FRAME
    assert pamqp.frame.marshal(pamqp.heartbeat.Heartbeat(), 0) == HEARTBEAT_FRAME
