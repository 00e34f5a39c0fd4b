"""Field tables as clients really send them (002, 4.2.5.5), with the letters of RabbitMQ and its clients."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from pamqp import commands as spec

from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import (
    FRAME_HEADER,
    RawChannel,
    RawClient,
    long_string,
    short_string,
    table,
    unique,
)

VALUES = {
    "true": b"t\x01",
    "false": b"t\x00",
    "int8": b"b\x80",
    "uint8": b"B\xff",
    "int16": b"s\x80\x00",
    "uint16": b"u\xff\xff",
    "int32": b"I\x80\x00\x00\x00",
    "uint32": b"i\xff\xff\xff\xff",
    "int64": b"l" + b"\x80" + b"\x00" * 7,
    "float": b"f" + struct.pack(">f", -1.5),
    "double": b"d" + struct.pack(">d", 1e300),
    "decimal": b"D\x02\x00\x00\x30\x39",
    "text": b"S" + long_string("\N{SNOWMAN}"),
    "binary-text": b"S" + long_string(b"\x00\xff\xfe"),
    "empty-text": b"S" + long_string(b""),
    "array": b"A" + long_string(b"t\x01" + b"I\x00\x00\x00\x07" + b"S" + long_string("x")),
    "empty-array": b"A" + long_string(b""),
    "array-of-arrays": b"A" + long_string(b"A" + long_string(b"A" + long_string(b"V"))),
    "timestamp": b"T" + struct.pack(">Q", 1_700_000_000),
    "table": b"F" + table(("inner", b"F" + table(("k", b"V")))),
    "empty-table": b"F" + table(),
    "void": b"V",
    "byte-array": b"x" + long_string(b"\x00\x01\x02"),
}
TYPES = rule(
    "002", "4.2.5.5", "field-table/types", "Every type of field value is understood and passed on unchanged"
)
MALFORMED = rule(
    "002", "4.2.5.5", "field-table/malformed", "A table that cannot be read is a connection exception"
)
CRASH = "its reader crashes: the socket ends without a connection.close"


def declare_with(channel: RawChannel, arguments: bytes) -> str:
    """queue.declare with a hand-made arguments table."""
    queue = unique()
    channel.send_method(50, 10, b"\x00\x00" + short_string(queue) + b"\x0c" + arguments)
    return queue


def publish_with(channel: RawChannel, queue: str, headers: bytes) -> None:
    """basic.publish whose only property is a hand-made headers table."""
    channel.publish_method(routing_key=queue)
    channel.send_frame(FRAME_HEADER, struct.pack(">HHQH", 60, 0, 1, 0x2000) + headers)
    channel.send_body(b"x")


def nested(depth: int) -> bytes:
    """A table with tables within, `depth` levels in all."""
    inner = table(("k", b"t\x01"))
    for _ in range(depth - 1):
        inner = table(("k", b"F" + inner))
    return inner


def expect_refusal(channel: RawChannel, class_id: int, method_id: int) -> None:
    close = channel.client.expect(spec.Connection.Close)
    assert close.reply_code in (501, 502), close.reply_text
    assert (close.class_id, close.method_id) == (class_id, method_id)
    channel.client.send(spec.Connection.CloseOk())
    channel.client.expect_eof()


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@TYPES
def test_headers_travel_octet_by_octet(channel: RawChannel, value: bytes) -> None:
    queue = channel.declare()
    headers = table(("before", b"t\x01"), ("value", value), ("after", b"t\x01"))
    publish_with(channel, queue, headers)
    message = channel.get(queue)
    assert message is not None
    assert message.frames[0].payload[14:] == headers


@pytest.mark.parametrize("name", VALUES)
@TYPES
def test_arguments_of_every_type(channel: RawChannel, name: str) -> None:
    queue = declare_with(channel, table((f"x-{name}", VALUES[name])))
    channel.expect(spec.Queue.DeclareOk, queue=queue)


@TYPES
def test_headers_exchange_compares_values_of_every_type(channel: RawChannel) -> None:
    # Matching needs the values themselves, not only their octets.
    comparable = {
        name: value
        for name, value in VALUES.items()
        if value[:1] in (b"t", b"b", b"s", b"I", b"l", b"S", b"T")
    }
    queue = channel.declare()
    for name, value in comparable.items():
        arguments = table(("x-match", b"S" + long_string("all")), (name, value))
        fields = (
            b"\x00\x00" + short_string(queue) + short_string("amq.headers") + short_string(name) + b"\x00"
        )
        channel.send_method(50, 20, fields + arguments)
        channel.expect(spec.Queue.BindOk)
    for name, value in comparable.items():
        channel.publish_method(exchange="amq.headers", routing_key=name)
        channel.send_frame(FRAME_HEADER, struct.pack(">HHQH", 60, 0, 0, 0x2000) + table((name, value)))
        message = channel.get(queue)
        assert message is not None, name
        assert message.method.routing_key == name


@rule("002", "4.2.5.5", "field-table/nested", "Tables and arrays may be nested")
def test_nested_tables(channel: RawChannel) -> None:
    queue = channel.declare()
    for depth in (1, 2, 10, 32):
        publish_with(channel, queue, nested(depth))
        message = channel.get(queue)
        assert message is not None
        assert message.frames[0].payload[14:] == nested(depth)
        declare_with(channel, nested(depth))
        channel.expect(spec.Queue.DeclareOk)


@rabbitmq_differs("follows tables to any depth that fits a frame")
@rule(
    "002", "4.10.1", "field-table/bounded", "Nesting has a bound: an absurd depth is refused, nothing breaks"
)
def test_absurd_nesting_is_refused(connect: Callable[..., RawClient]) -> None:
    broken, other = connect().channel(1), connect().channel(1)
    declare_with(broken, nested(10_000))
    expect_refusal(broken, 50, 10)
    other.sync()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(table(("k", b"?\x00\x00\x00\x00")), id="unknown-letter"),
        pytest.param(table(("k", b"")), id="no-letter"),
        pytest.param(table(("k", b"S\x00\x00\x00\xffabc")), id="text-beyond-the-table"),
        pytest.param(table(("k", b"I\x00\x00")), id="integer-cut-off"),
        pytest.param(table(("k", b"F\x00\x00\x00\x09\x01k")), id="table-beyond-the-table"),
        pytest.param(table(("k", b"A\x00\x00\x00\x02tt\x01")), id="array-cut-off"),
        pytest.param(long_string(b"\x09name"), id="name-beyond-the-table"),
    ],
)
@rabbitmq_differs(CRASH)
@MALFORMED
def test_malformed_tables(channel: RawChannel, arguments: bytes) -> None:
    declare_with(channel, arguments)
    expect_refusal(channel, 50, 10)


@rule(
    "002",
    "4.2.5.5",
    "field-table/duplicates",
    "Repeated names are illegal, what happens is not defined: no harm is done",
)
@rule(
    "000",
    "4.2.5.5",
    "field-table/first-instance",
    "Of repeated names only the first counts, or the table is refused",
)
def test_repeated_names(connect: Callable[..., RawClient]) -> None:
    channel, other = connect().channel(1), connect().channel(1)
    declare_with(channel, table(("x-k", b"t\x01"), ("x-k", b"t\x00")))
    frame = channel.client.next_frame()
    value: Any = frame.value
    assert isinstance(value, spec.Queue.DeclareOk) or value.reply_code in (501, 502)
    other.sync()


@pytest.mark.parametrize("name", ["$price", "#tag", "a_b9", "x-dash", "with.dot", "k" * 128])
@rule(
    "002",
    "4.2.5.5",
    "field-table/names",
    "Names of letters, $, #, digits and underlines, up to 128 characters, are taken",
)
def test_field_names(channel: RawChannel, name: str) -> None:
    declare_with(channel, table((name, b"t\x01")))
    channel.expect(spec.Queue.DeclareOk)


@rule("002", "4.2.5.5", "field-table/decimal", "Decimals are a scale octet and a signed 32-bit value")
@rule("002", "4.2.5.4", "timestamp", "Timestamps are 64 bits of seconds")
def test_timestamps_and_decimals_beyond_32_bits(channel: RawChannel) -> None:
    queue = channel.declare()
    headers = table(
        ("late", b"T" + struct.pack(">Q", 1 << 40)),
        ("debt", b"D\x02" + struct.pack(">i", -12345)),
        ("scale", b"D\xff" + struct.pack(">i", 1)),
    )
    publish_with(channel, queue, headers)
    message = channel.get(queue)
    assert message is not None
    assert message.frames[0].payload[14:] == headers
