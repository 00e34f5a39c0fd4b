"""Deliveries as columns: for consumers that take messages by the ten thousand and look at none of them.

What is wanted of each message is appended to a few buffers as its frames arrive (`wire.columns.column`); no
object is made of it. Apache Arrow, NumPy and the like take the buffers as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from embermq.client.core.message import STREAM_OFFSET, STREAM_OFFSET_FIELD, Message
from embermq.client.core.publication import raw_properties
from embermq.errors import SyntaxFault
from embermq.wire.columns.column import ByteColumn, NumberColumn, field_value
from embermq.wire.columns.publish_rows import Buffer, Cells, Column, Rows
from embermq.wire.properties import Properties

NAMES = ("body", "exchange", "offset", "properties", "redelivered", "routing_key")
NO_OFFSET = -1  # of a message that is in no stream
OFFSET_FIELD = STREAM_OFFSET_FIELD
OFFSET_NAME = STREAM_OFFSET.encode()


@dataclass(frozen=True)
class Values:
    """Value `n` is data[places[n] : places[n + 1]]; the places are 32-bit integers of this machine.

    Those that arrive are bytearrays or views of some; to publish, anything with the buffer protocol will do.
    """

    places: Buffer
    data: Buffer

    def __repr__(self) -> str:
        count = memoryview(self.places).nbytes // 4 - 1
        return f"<{count} Values, {memoryview(self.data).nbytes} bytes>"

    def __getitem__(self, index: int) -> bytes:
        places = memoryview(self.places).cast("i")
        return bytes(memoryview(self.data)[places[index] : places[index + 1]])


@dataclass(frozen=True)
class ColumnBatch:
    """Messages as they came; what was not asked for is None.

    `properties` are as they stand on the wire (`Properties.decode`), `offset` and `redelivered` 64-bit
    integers of this machine; an offset is -1 where there is none.
    """

    count: int
    last_tag: int
    epoch: int  # of the channel; the tag means nothing in another one
    body: Values | None
    exchange: Values | None
    routing_key: Values | None
    properties: Values | None
    offset: bytearray | None
    redelivered: bytearray | None

    def __repr__(self) -> str:
        present = [name for name in NAMES if getattr(self, name) is not None]
        return f"<ColumnBatch of {self.count} messages: {', '.join(present)}>"

    @property
    def nbytes(self) -> int:
        """Of the bodies, if they are there."""
        return 0 if self.body is None else memoryview(self.body.data).nbytes

    def message(self, index: int) -> Message:
        """One of them as an object, if all its columns are there; it cannot be acked."""
        assert self.body and self.exchange and self.routing_key and self.properties
        again = self.redelivered is not None and memoryview(self.redelivered).cast("q")[index] != 0
        exchange = self.exchange[index].decode("utf-8", "surrogateescape")
        routing_key = self.routing_key[index].decode("utf-8", "surrogateescape")
        properties, body = self.properties[index], self.body[index]
        return Message(None, 0, "", 0, again, exchange, routing_key, properties, body)


class Columns:
    """What has arrived for one consumer. A message counts when its last byte is there."""

    __slots__ = (
        "bodies",
        "count",
        "exchanges",
        "last_tag",
        "offsets",
        "properties",
        "redelivered",
        "routing_keys",
        "tag",
    )

    def __init__(self, wanted: Collection[str]) -> None:
        unknown = set(wanted).difference(NAMES)
        if unknown:
            raise ValueError(f"there is no column {unknown.pop()!r}; there are {', '.join(NAMES)}")
        self.bodies = ByteColumn() if "body" in wanted else None
        self.exchanges = ByteColumn() if "exchange" in wanted else None
        self.properties = ByteColumn() if "properties" in wanted else None
        self.routing_keys = ByteColumn() if "routing_key" in wanted else None
        self.offsets = NumberColumn() if "offset" in wanted else None
        self.redelivered = NumberColumn() if "redelivered" in wanted else None
        self.count = 0
        self.tag = 0  # of the message whose content is awaited
        self.last_tag = 0  # of the last whole one

    # -- the channel calls these

    def on_deliver(self, buf: bytearray, tag: int, redelivered: bool, pos: int, stop: int) -> int:
        """basic.deliver; exchange and routing key are at `pos`."""
        key_at = pos + 1 + buf[pos]
        if key_at >= stop or key_at + 1 + buf[key_at] != stop:
            raise SyntaxFault("basic.deliver is not as long as its fields say")
        self.tag = tag
        if self.exchanges is not None:
            self.exchanges.append(buf, pos + 1, key_at)
            self.exchanges.end()
        if self.routing_keys is not None:
            self.routing_keys.append(buf, key_at + 1, stop)
            self.routing_keys.end()
        if self.redelivered is not None:
            self.redelivered.append(redelivered)
        return 0

    def on_header(self, buf: bytearray, pos: int, stop: int) -> int:
        """The content header; the property flags are at `pos`."""
        if self.properties is not None:
            self.properties.append(buf, pos, stop)
            self.properties.end()
        if self.offsets is not None:
            offset = field_value(buf, pos, stop, OFFSET_FIELD)
            if offset < 0 and buf.find(OFFSET_NAME, pos, stop) >= 0:  # more than once, or of another type
                offset = decoded_offset(buf, pos, stop)
            self.offsets.append(offset)
        return 0

    def on_body(self, buf: bytearray, pos: int, stop: int) -> int:
        """A part of the body, or all of it."""
        if self.bodies is not None:
            self.bodies.append(buf, pos, stop)
        return 0

    def whole(self) -> int:
        if self.bodies is not None:
            self.bodies.end()
        self.last_tag = self.tag
        self.count += 1
        return 0

    def forget_part(self) -> None:
        """The rest of the message that was arriving will not come."""
        self._forget_after(self.count)

    def clear(self) -> None:
        """None of what waits counts any more."""
        self._forget_after(0)
        self.count = 0

    def _forget_after(self, count: int) -> None:
        for column in (
            self.bodies,
            self.exchanges,
            self.properties,
            self.routing_keys,
            self.offsets,
            self.redelivered,
        ):
            if column is not None:
                column.forget_after(count)

    # -- and the user this

    def take(self, epoch: int) -> ColumnBatch:
        """All that is whole."""
        count, self.count = self.count, 0
        return ColumnBatch(
            count,
            self.last_tag,
            epoch,
            taken(self.bodies, count),
            taken(self.exchanges, count),
            taken(self.routing_keys, count),
            taken(self.properties, count),
            None if self.offsets is None else self.offsets.take(count),
            None if self.redelivered is None else self.redelivered.take(count),
        )


def taken(column: ByteColumn | None, count: int) -> Values | None:
    return None if column is None else Values(*column.take(count))


def decoded_offset(buf: bytearray, pos: int, stop: int) -> int:
    headers = Properties.decode(bytes(buf[pos:stop]), 0, stop - pos).headers or {}
    offset = headers.get(STREAM_OFFSET)
    return offset if isinstance(offset, int) else NO_OFFSET


def rows_of(
    bodies: Values,
    routing_key: str | Values,
    exchange: str | Values,
    properties: Properties | bytes | Values | None,
    mandatory: bool,
) -> Rows:
    """Columns in the form in which they can be published."""
    return Rows(
        Cells(bodies.places, bodies.data),
        text_column(exchange),
        text_column(routing_key),
        Cells(properties.places, properties.data)
        if isinstance(properties, Values)
        else raw_properties(properties),
        mandatory,
    )


def text_column(values: str | Values) -> Column:
    if isinstance(values, Values):
        return Cells(values.places, values.data)
    return values.encode("utf-8", "surrogateescape")
