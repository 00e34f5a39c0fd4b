"""A super stream: an exchange with streams behind it, its partitions `NAME-0`, `NAME-1` ...

By number, a message's partition follows from the hash of its routing key (the exchange is x-modulus-hash);
with keys of one's own it is the one bound with that key (the exchange is direct). Both carry the argument
`x-super-stream`, the bindings their place in `x-stream-partition-order`, as RabbitMQ's do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.exchange.binding import Binding
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.stream.arguments import STREAM
from embermq.errors import AMQPError, PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.queue.queue import Queue
    from embermq.broker.vhost import VirtualHost

SUPER_STREAM = "x-super-stream"
PARTITION_ORDER = "x-stream-partition-order"
NO_OWNER = object()  # owns the partitions


def is_super_stream(exchange: Exchange) -> bool:
    return exchange.arguments.get(SUPER_STREAM) is True


def partitions(exchange: Exchange) -> list[Binding]:
    """The bindings to the partitions, in order."""
    found = [binding for binding in exchange.bindings.values() if PARTITION_ORDER in binding.arguments]
    return sorted(found, key=lambda binding: int(str(binding.arguments[PARTITION_ORDER])))


def partition_number(stream: Queue) -> int | None:
    """Which partition of a super stream it is; None: of none."""
    for binding in stream.vhost.queue_bindings.get(stream, ()):
        if is_super_stream(binding.source) and PARTITION_ORDER in binding.arguments:
            return int(str(binding.arguments[PARTITION_ORDER]))
    return None


def create(
    vhost: VirtualHost, name: str, keys: list[str] | None, count: int, arguments: dict[str, object]
) -> Exchange:
    """Declare exchange, streams and bindings; the same again changes nothing, another number is refused."""
    existing = vhost.exchanges.get(name)
    if existing is not None and is_super_stream(existing) and len(partitions(existing)) != count:
        raise PreconditionFailed(
            f"super stream '{name}' in vhost '{vhost.name}' has {len(partitions(existing))} partitions, "
            f"not {count}"
        )
    names = [f"{name}-{number}" for number in range(count)]
    before = vhost.queues.keys() & names  # streams that are there already become its partitions
    with vhost.definitions.together():
        try:
            return declare_all(vhost, name, keys, names, arguments)
        except AMQPError:
            # It could not be made again with some of its partitions.
            for made in (vhost.queues.keys() & names) - before:
                vhost.delete_queue(vhost.queues[made])
            if existing is None and name in vhost.exchanges:
                vhost.delete_exchange(vhost.exchanges[name])
            raise


def declare_all(
    vhost: VirtualHost,
    name: str,
    keys: list[str] | None,
    names: list[str],
    arguments: dict[str, object],
) -> Exchange:
    exchange = vhost.declare_exchange(
        name,
        "x-modulus-hash" if keys is None else "direct",
        durable=True,
        auto_delete=False,
        internal=False,
        arguments={SUPER_STREAM: True},
    )
    if not is_super_stream(exchange):
        raise PreconditionFailed(f"exchange '{name}' in vhost '{vhost.name}' is no super stream")
    for number, partition in enumerate(names):
        stream = vhost.declare_queue(
            partition,
            owner=NO_OWNER,
            durable=True,
            exclusive=False,
            auto_delete=False,
            arguments={**arguments, "x-queue-type": "stream"},
        )
        key = str(number) if keys is None else keys[number]
        vhost.bind(exchange, stream, key, {PARTITION_ORDER: number})
    return exchange


def delete(exchange: Exchange) -> None:
    """With its partitions."""
    vhost = exchange.vhost
    with vhost.definitions.together():
        for binding in partitions(exchange):
            bound = binding.destination
            if not isinstance(bound, Exchange) and bound.effective.get("x-queue-type") == STREAM:
                vhost.delete_queue(bound)
        vhost.delete_exchange(exchange)
