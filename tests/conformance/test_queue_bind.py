"""queue.bind, queue.unbind and "the last declared queue of the channel"."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.model import (
    NO_DEFAULT,
    NO_LAST_QUEUE,
    drain,
    exchange,
    exchange_exists,
    fill,
    no_exchange,
    no_queue,
    round_trip,
)
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

last_queue = rule(
    "001", "1.7.2.3.4", "queue/last-declared", "An empty queue name means the last queue declared here"
)
no_last_queue = rule(
    "001",
    "1.7.2.3.2",
    "queue/no-last-declared",
    "An empty queue name without a declared queue is refused (530 in the document, 404 as in RabbitMQ)",
)
unbind = rule("001", "1.7.2.5", "queue.unbind", "queue.unbind takes exactly one binding away")


@rule("001", "1.7.2.3", "queue.bind/duplicates", "Binding twice alike is no error and no second binding")
def test_duplicate_bindings(channel: RawChannel) -> None:
    name, queue = exchange(channel), channel.declare()
    for _ in range(3):
        channel.bind(queue, name, "key", arguments={"a": 1})
    channel.publish(b"once", exchange=name, routing_key="key")
    assert drain(channel, queue) == [b"once"]
    channel.call(spec.Queue.Unbind(queue=queue, exchange=name, routing_key="key", arguments={"a": 1}))
    assert not exchange_exists(channel, name), "one unbind took them all, and the exchange deleted itself"


@rule("001", "1.7.2.3", "queue.bind/binding-count", "A queue can have at least 4 bindings", "SHOULD")
def test_many_bindings(channel: RawChannel) -> None:
    queue = channel.declare()
    exchanges = [exchange(channel) for _ in range(40)]
    for name in exchanges:
        for key in ("one", "two"):
            channel.bind(queue, name, key)
    for name in exchanges:
        channel.publish(name.encode(), exchange=name, routing_key="two")
    assert drain(channel, queue) == [name.encode() for name in exchanges]


@rule("001", "1.7.2.3", "queue.bind/transient-exchange", "A durable queue may bind to a transient exchange")
@pytest.mark.parametrize("durable_queue", [True, False])
@pytest.mark.parametrize("durable_exchange", [True, False])
def test_durable_and_transient_mix(channel: RawChannel, durable_queue: bool, durable_exchange: bool) -> None:
    name = exchange(channel, durable=durable_exchange)
    queue = channel.declare(unique("queue"), durable=durable_queue, exclusive=False)
    channel.bind(queue, name, "key")
    channel.publish(b"x", exchange=name, routing_key="key")
    assert drain(channel, queue) == [b"x"]
    channel.call(spec.Queue.Delete(queue=queue))


@rule("001", "1.7.2.3.2", "queue.bind.queue/queue-existence", "A missing queue cannot be bound: 404")
@pytest.mark.parametrize("no_wait", [False, True])
def test_binding_a_missing_queue(channel: RawChannel, no_wait: bool) -> None:
    name = unique()
    channel.call_fails(
        spec.Queue.Bind(queue=name, exchange="amq.direct", nowait=no_wait), 404, no_queue(name)
    )


@rule(
    "001", "1.7.2.3.3", "queue.bind.exchange/exchange-existence", "A missing exchange cannot be bound to: 404"
)
def test_binding_to_a_missing_exchange(channel: RawChannel) -> None:
    name, queue = unique(), channel.declare()
    channel.call_fails(spec.Queue.Bind(queue=queue, exchange=name), 404, no_exchange(name))


@rule(
    "004", "default exchange", "default/no-bind", "Bind and unbind are refused on the default exchange: 403"
)
@pytest.mark.parametrize("method", [spec.Queue.Bind, spec.Queue.Unbind])
def test_binding_to_the_default_exchange(channel: RawChannel, method: Any) -> None:
    queue = channel.declare()
    channel.call_fails(method(queue=queue, exchange="", routing_key=queue), 403, NO_DEFAULT)


@last_queue
def test_last_declared_queue_is_bound_by_its_name(channel: RawChannel) -> None:
    """Queue name and key both empty: the name of the queue is the key, too."""
    name, queue = exchange(channel), channel.declare()
    channel.bind("", name, "")
    channel.publish(b"by name", exchange=name, routing_key=queue)
    channel.publish(b"by empty key", exchange=name, routing_key="")
    assert drain(channel, queue) == [b"by name"]


@rule("001", "1.7.2.3.4", "queue.bind.routing-key/empty", "With a queue name, an empty key is an empty key")
def test_empty_key_with_a_queue_name(channel: RawChannel) -> None:
    name, queue = exchange(channel), channel.declare()
    channel.bind(queue, name, "")
    channel.publish(b"by name", exchange=name, routing_key=queue)
    channel.publish(b"by empty key", exchange=name, routing_key="")
    assert drain(channel, queue) == [b"by empty key"]


@last_queue
def test_last_declared_queue_with_a_key(channel: RawChannel) -> None:
    name, queue = exchange(channel), channel.declare()
    channel.bind("", name, "key")
    channel.publish(b"x", exchange=name, routing_key="key")
    assert drain(channel, queue) == [b"x"]
    channel.call(spec.Queue.Unbind(queue="", exchange=name, routing_key="key"))
    assert not exchange_exists(channel, name)


@last_queue
def test_last_declared_queue_everywhere(channel: RawChannel) -> None:
    first, second = channel.declare(unique("queue")), channel.declare(unique("queue"))
    fill(channel, second, [b"get", b"consume", b"purge"])
    got = channel.get("")
    assert got is not None
    assert got.body == b"get"
    channel.qos(1)
    tag = channel.consume("")
    assert channel.delivery().body == b"consume"
    channel.cancel(tag)
    channel.call(spec.Queue.Purge(queue=""), message_count=1)
    # A passive declare is a declare as well.
    channel.call(spec.Queue.Declare(queue=first, passive=True))
    fill(channel, first, [b"x", b"y"])
    channel.call(spec.Queue.Delete(queue=""), message_count=2)


@last_queue
def test_last_declared_queue_belongs_to_the_channel(client: RawClient, channel: RawChannel) -> None:
    channel.declare()
    client.channel(2).call_fails(spec.Basic.Get(queue=""), 404, NO_LAST_QUEUE)


@no_last_queue
@pytest.mark.parametrize(
    "request_",
    [
        spec.Queue.Bind(queue="", exchange="amq.direct"),
        spec.Queue.Unbind(queue="", exchange="amq.direct"),
        spec.Queue.Purge(queue=""),
        spec.Queue.Delete(queue=""),
        spec.Basic.Consume(queue=""),
        spec.Basic.Get(queue=""),
    ],
    ids=lambda request: request.name,
)
def test_no_last_declared_queue(channel: RawChannel, request_: Any) -> None:
    channel.call_fails(request_, 404, NO_LAST_QUEUE)


@last_queue
def test_deleted_last_queue_is_missed_by_name(channel: RawChannel) -> None:
    queue = channel.declare(unique("queue"))
    channel.call(spec.Queue.Delete(queue=queue))
    channel.call_fails(spec.Queue.Bind(queue="", exchange="amq.direct"), 404, no_queue(queue))


@unbind
def test_unbind_needs_key_and_arguments_to_agree(channel: RawChannel) -> None:
    name, queue = exchange(channel), channel.declare()
    channel.bind(queue, name, "key", arguments={"a": 1})
    for key, arguments in (("key", {}), ("key", {"a": 2}), ("other", {"a": 1})):
        channel.call(spec.Queue.Unbind(queue=queue, exchange=name, routing_key=key, arguments=arguments))
        channel.publish(b"still", exchange=name, routing_key="key")
        assert drain(channel, queue) == [b"still"]
    channel.call(spec.Queue.Unbind(queue=queue, exchange=name, routing_key="key", arguments={"a": 1}))
    assert not exchange_exists(channel, name)


@rule(
    "004",
    "queue.unbind",
    "queue.unbind/idempotent",
    "Unbinding what is not bound or not there succeeds (an error in the documents; clients rely on it)",
)
def test_unbinding_what_is_not_there(channel: RawChannel) -> None:
    queue, name = channel.declare(), unique()
    for missing_queue, missing_exchange in (
        (queue, "amq.direct"),
        (queue, name),
        (name, "amq.direct"),
        (name, name),
    ):
        request = spec.Queue.Unbind(queue=missing_queue, exchange=missing_exchange, routing_key="unknown")
        channel.call(request)


@rule("001", "1.1", "no-wait/queue.bind", "With no-wait queue.bind has no reply, but the work is done")
def test_bind_without_waiting(channel: RawChannel) -> None:
    name, queue = exchange(channel, "fanout"), channel.declare()
    channel.send(spec.Queue.Bind(queue=queue, exchange=name, nowait=True))
    channel.publish(b"bound", exchange=name)
    assert drain(channel, queue) == [b"bound"]
    round_trip(channel)


@rule("002", "4.4", "visibility/bind", "A binding confirmed to one client routes the messages of every other")
def test_bindings_are_visible_to_other_connections(
    connect: Callable[..., RawClient], channel: RawChannel
) -> None:
    name = exchange(channel, "fanout", auto_delete=False)
    publisher = connect().channel()
    for _ in range(20):
        queue = channel.declare()
        channel.bind(queue, name)
        publisher.publish(b"x", exchange=name)
        publisher.sync()
        assert drain(channel, queue) == [b"x"]
        channel.call(spec.Queue.Unbind(queue=queue, exchange=name))
        publisher.publish(b"y", exchange=name, mandatory=True)
        publisher.returned(reply_code=312)
    channel.call(spec.Exchange.Delete(exchange=name))
