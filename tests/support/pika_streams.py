"""Words for tests of streams: a pika channel that declares, fills and reads them."""

from __future__ import annotations

import struct
import time
from typing import Any, NamedTuple

import pika

from tests.support.pika_client import PATIENCE_S, Client, unique

Channel = Any
_RECORD = struct.Struct("<4xIQ9xI")
_RECORD_HEADER_BYTES = 25


class Seen(NamedTuple):
    offset: int
    body: bytes
    headers: dict[str, Any]


def declare(client: Client, name: str | None = None, **arguments: Any) -> str:
    """`x_max_age="1h"` is the argument `x-max-age`."""
    return client.declare(name or unique("stream"), durable=True, x_queue_type="stream", **arguments)


def fill(client: Client, stream: str, count: int, first: int = 0, size: int = 0, **properties: Any) -> None:
    """Publish, and wait until it is safe; bodies are numbers, filled up to `size`."""
    channel = client.connection.channel()
    many = count > 30
    if many:
        channel.tx_select()  # one answer for all of them
    else:
        channel.confirm_delivery()  # each in a chunk of its own, where RabbitMQ is concerned
    for number in range(first, first + count):
        body = (b"%d" % number).ljust(size, b" ")
        channel.basic_publish("", stream, body, pika.BasicProperties(**properties))
    if many:
        channel.tx_commit()
    channel.close()


def read(
    client: Client, stream: str, count: int, *, prefetch: int = 100, ack: bool = True, **arguments: Any
) -> list[Seen]:
    """The first `count` messages that a consumer with these arguments gets; it waits for as many."""
    channel = client.connection.channel()
    prefetch = min(prefetch, count)
    channel.basic_qos(prefetch_count=prefetch)
    seen: list[Seen] = []
    arguments = {name.replace("_", "-"): value for name, value in arguments.items()}

    # Credit for no more than `count`: pika rejects what it has not handed out, which streams refuse.
    def on_message(_channel: Any, method: Any, properties: Any, body: bytes) -> None:
        headers = dict(properties.headers)
        seen.append(Seen(int(headers.pop("x-stream-offset")), body.rstrip(), headers))
        if ack and len(seen) + prefetch <= count:
            channel.basic_ack(method.delivery_tag)

    channel.basic_consume(stream, on_message, arguments=arguments)
    deadline = time.monotonic() + PATIENCE_S
    while len(seen) < count:
        assert time.monotonic() < deadline, f"only {len(seen)} of {count} messages came"
        client.connection.process_data_events(0.05)
    channel.close()
    return seen


def read_range(client: Client, stream: str, begin: Any, end: int, **arguments: Any) -> list[Seen]:
    """Everything in [begin, end): without acks, until the broker says that this is all."""
    channel = client.connection.channel()
    arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
    arguments |= {"x-stream-offset": begin, "x-stream-end-offset": end}
    seen = []
    for method, properties, body in channel.consume(
        stream, auto_ack=True, arguments=arguments, inactivity_timeout=60
    ):
        assert method is not None, f"no end came behind {len(seen)} messages"
        headers = dict(properties.headers)
        seen.append(Seen(int(headers.pop("x-stream-offset")), body.rstrip(), headers))
    channel.close()
    return seen


def offsets(seen: list[Seen]) -> list[int]:
    return [one.offset for one in seen]


def unpacked(block: bytes) -> list[tuple[int, bytes]]:
    """The offsets and bodies of a block (docs/streams.md)."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(block):
        size, offset, header_size = _RECORD.unpack_from(block, at)
        key_at = at + 31 + block[at + 30]
        body_at = key_at + 1 + block[key_at] + header_size
        at += _RECORD_HEADER_BYTES + size
        found.append((offset, block[body_at:at]))
    assert at == len(block)
    return found
