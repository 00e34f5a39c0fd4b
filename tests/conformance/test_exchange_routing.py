"""How direct and fanout exchanges route, and what any exchange owes to the queues it routes to."""

import pytest

from tests.conformance.model import drain, exchange
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, spec

direct = rule(
    "002", "3.1.3.1", "direct/matching", "A direct exchange passes a message to queues bound by its key"
)
fanout = rule("002", "3.1.3.2", "fanout/all", "A fanout exchange passes every message to every bound queue")


@direct
@pytest.mark.parametrize("key", ["simple", "", "with.dots", "*", "#", "Ünïcode", "x" * 255])
def test_direct_matches_the_same_key_only(channel: RawChannel, key: str) -> None:
    name, equal, other = exchange(channel), channel.declare(), channel.declare()
    channel.bind(equal, name, key)
    channel.bind(other, name, "another key")
    channel.publish(b"routed", exchange=name, routing_key=key)
    channel.publish(b"unrouted", exchange=name, routing_key="Simple")
    assert drain(channel, equal) == [b"routed"]
    assert drain(channel, other) == []


@direct
@rule("002", "3.1.3", "exchange/many-queues", "One message can go to many queues, as independent instances")
def test_direct_passes_to_all_queues_of_a_key(channel: RawChannel) -> None:
    name = exchange(channel)
    queues = [channel.declare() for _ in range(5)]
    for queue in queues:
        channel.bind(queue, name, "shared")
    channel.publish(b"for all", exchange=name, routing_key="shared")
    # Taking one instance away leaves the others.
    assert [drain(channel, queue) for queue in queues] == [[b"for all"]] * 5


@direct
def test_direct_queue_with_several_keys(channel: RawChannel) -> None:
    name, queue = exchange(channel), channel.declare()
    for key in ("one", "two"):
        channel.bind(queue, name, key)
    for key in ("one", "two", "three"):
        channel.publish(key.encode(), exchange=name, routing_key=key)
    assert drain(channel, queue) == [b"one", b"two"]


@fanout
def test_fanout_ignores_the_keys(channel: RawChannel) -> None:
    name = exchange(channel, "fanout")
    queues = [channel.declare() for _ in range(3)]
    for number, queue in enumerate(queues):
        channel.bind(queue, name, f"key {number}", arguments={"x-match": "any", "number": number})
    channel.publish(b"one", exchange=name, routing_key="key 1")
    channel.publish(b"two", exchange=name)
    assert [drain(channel, queue) for queue in queues] == [[b"one", b"two"]] * 3


@rule(
    "001",
    "1.7.2.3",
    "queue.bind/duplicate-delivery",
    "A queue gets a message once, however many bindings match",
)
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_matching_bindings_deliver_once(channel: RawChannel, kind: str) -> None:
    name, queue = exchange(channel, kind), channel.declare()
    for pattern in ("a.b", "#", "*.b", "a.*", "a.#", "#.b"):
        channel.bind(queue, name, pattern, arguments={"x-match": "any", "h": 1, pattern: 1})
    headers = {"h": 1, "#": 1, "*.b": 1}
    properties = spec.Basic.Properties(headers=headers)
    channel.publish(b"once", exchange=name, routing_key="a.b", properties=properties)
    assert drain(channel, queue) == [b"once"]


@rule("002", "3.1.5", "binding/lifetime", "The bindings of a queue end with the queue")
def test_deleted_queue_leaves_no_binding_behind(channel: RawChannel) -> None:
    name, queue = exchange(channel, "fanout", auto_delete=False), channel.declare()
    channel.bind(queue, name)
    channel.call(spec.Queue.Delete(queue=queue))
    channel.publish(b"unroutable", exchange=name, mandatory=True)
    channel.returned(reply_code=312)
    channel.call(spec.Exchange.Delete(exchange=name, if_unused=True))


@rule(
    "002",
    "4.6",
    "synchronisation/bind-unbind",
    "Bind and unbind take effect at their -ok, neither before nor after",
)
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_bindings_take_effect_between_publishes(channel: RawChannel, kind: str) -> None:
    name, queue, witness = exchange(channel, kind), channel.declare(), channel.declare()
    channel.bind(witness, name, "key")
    bodies = [b"before", b"bound", b"after"]
    channel.publish(bodies[0], exchange=name, routing_key="key")
    channel.bind(queue, name, "key")
    channel.publish(bodies[1], exchange=name, routing_key="key")
    channel.call(spec.Queue.Unbind(queue=queue, exchange=name, routing_key="key"))
    channel.publish(bodies[2], exchange=name, routing_key="key")
    assert drain(channel, queue) == [b"bound"]
    assert drain(channel, witness) == bodies


@rule(
    "001",
    "1.8.3.9.4",
    "basic.deliver.exchange",
    "A delivery names the exchange and the key it was published with",
)
@pytest.mark.parametrize(
    ("kind", "name"), [("direct", "amq.direct"), ("topic", "amq.topic"), ("fanout", "amq.fanout")]
)
def test_deliveries_name_exchange_and_key(channel: RawChannel, kind: str, name: str) -> None:
    queue = channel.declare()
    key = f"key.{queue}"
    channel.bind(queue, name, key)
    channel.publish(kind.encode(), exchange=name, routing_key=key)
    channel.publish(kind.encode(), exchange=name, routing_key=key)
    got = channel.get(queue)
    assert got is not None
    assert (got.method.exchange, got.method.routing_key) == (name, key)
    channel.consume(queue)
    channel.delivery(exchange=name, routing_key=key)
