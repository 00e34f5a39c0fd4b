"""Short forms for the tests of exchanges, queues and messages: what they share beyond the raw channel."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from pamqp import commands as spec

from tests.support.raw_client import RawChannel, RawClient
from tests.support.raw_frames import REPLY_SECONDS_MAX, short_string, unique

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '/'. It could be "
    "originally declared on another connection or the exclusive property value does not match that of the "
    "original declaration."
)
NO_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"
NO_LAST_QUEUE = "NOT_FOUND - no previously declared queue"


def no_exchange(name: str) -> str:
    return f"NOT_FOUND - no exchange '{name}' in vhost '/'"


def no_queue(name: str) -> str:
    return f"NOT_FOUND - no queue '{name}' in vhost '/'"


def unknown_tag(tag: int) -> str:
    return f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def exchange(channel: RawChannel, kind: str = "direct", **options: Any) -> str:
    """Declare an exchange with a fresh name; auto-delete, so that it leaves with the queues of the test."""
    name = unique("exchange")
    options.setdefault("auto_delete", True)
    channel.call(spec.Exchange.Declare(exchange=name, exchange_type=kind, **options))
    return name


def bind_exchange(channel: RawChannel, source: str, destination: str, key: str = "", **options: Any) -> None:
    """Messages of `source` flow into `destination`."""
    channel.call(spec.Exchange.Bind(destination=destination, source=source, routing_key=key, **options))


def exchange_exists(channel: RawChannel, name: str) -> bool:
    """Ask on a channel of its own, which does not survive the answer no."""
    return _exists(channel, spec.Exchange.Declare(exchange=name, passive=True), spec.Exchange.DeclareOk)


def queue_exists(channel: RawChannel, name: str) -> bool:
    return _exists(channel, spec.Queue.Declare(queue=name, passive=True), spec.Queue.DeclareOk)


def _exists(channel: RawChannel, question: Any, yes: type[Any]) -> bool:
    asking = channel.client.channel(1900)
    asking.send(question)
    answer = channel.client.next_frame().value
    if isinstance(answer, yes):
        asking.close()
        return True
    assert isinstance(answer, spec.Channel.Close), answer
    assert answer.reply_code == 404, answer.reply_text
    asking.send(spec.Channel.CloseOk())
    return False


def fill(channel: RawChannel, queue: str, bodies: Iterable[bytes], **properties: Any) -> None:
    """Publish to a queue through the default exchange."""
    for body in bodies:
        channel.publish(body, routing_key=queue, properties=spec.Basic.Properties(**properties))


def await_confirms(channel: RawChannel, count: int) -> None:
    """Every message from 1 to `count` of a channel in confirm mode is acknowledged."""
    confirmed = 0
    while confirmed < count:
        ack = channel.expect(spec.Basic.Ack)
        assert ack.multiple or ack.delivery_tag == confirmed + 1, "RabbitMQ and EmberMQ confirm in order"
        confirmed = ack.delivery_tag
    assert confirmed == count


def drain(channel: RawChannel, queue: str) -> list[bytes]:
    """Take everything out of a queue and return the bodies in order."""
    bodies = []
    while (message := channel.get(queue)) is not None:
        bodies.append(message.body)
    return bodies


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"message %d" % number for number in range(start, start + count)]


def round_trip(channel: RawChannel) -> None:
    """Everything sent before has been handled. Unlike `channel.sync()` it does not touch the prefetch."""
    channel.call(spec.Exchange.Declare(exchange="amq.direct", passive=True))


def leave(client: RawClient) -> None:
    """Close a connection politely, without waiting for the broker's end of the socket."""
    client.send(spec.Connection.Close(200, "", 0, 0))
    while not isinstance(client.next_frame().value, spec.Connection.CloseOk):
        pass
    client.drop()


def eventually(condition: Callable[[], bool]) -> bool:
    """For what a broker does after the last answer, such as tidying up behind a closed connection."""
    deadline = time.monotonic() + REPLY_SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def raw_queue_declare(name: str, flags: int = 0b00100) -> bytes:
    """Arguments of queue.declare without pamqp's own opinion on names; exclusive by default."""
    return b"\0\0" + short_string(name) + bytes([flags]) + b"\0\0\0\0"


def raw_exchange_declare(name: str, kind: str = "direct", flags: int = 0) -> bytes:
    return b"\0\0" + short_string(name) + short_string(kind) + bytes([flags]) + b"\0\0\0\0"
