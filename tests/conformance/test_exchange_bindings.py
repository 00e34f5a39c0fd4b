"""RabbitMQ's exchange-to-exchange bindings, and internal exchanges, which only they can feed."""

import pytest

from tests.conformance.model import (
    bind_exchange,
    drain,
    exchange,
    exchange_exists,
    no_exchange,
    round_trip,
)
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, spec, unique

flow = rule(
    "004", "exchange.bind", "exchange.bind/flow", "Messages flow from the source to the destination exchange"
)
cycles = rule(
    "004", "exchange.bind", "exchange.bind/cycles", "Cycles are allowed; a queue still gets a message once"
)
missing = rule(
    "004", "exchange.bind", "exchange.bind/missing", "Binding a missing exchange is answered with 404"
)
unbinding = rule(
    "004", "exchange.unbind", "exchange.unbind", "exchange.unbind stops the flow; unbinding is idempotent"
)
lifetime = rule(
    "004", "exchange.bind", "exchange.bind/lifetime", "A binding ends with its source or destination"
)
internal = rule(
    "001", "1.8.3.7.2", "basic.publish.exchange/internal", "Publishing to an internal exchange: 403"
)


@flow
def test_chain_of_exchange_types(channel: RawChannel) -> None:
    """Every link filters by its own type, with the key and the headers of the message."""
    topic, direct, fanout = exchange(channel, "topic"), exchange(channel), exchange(channel, "fanout")
    queue = channel.declare()
    bind_exchange(channel, topic, direct, "a.#")
    bind_exchange(channel, direct, fanout, "a.b")
    channel.bind(queue, fanout)
    for key in ("a.b", "a.c", "b.b"):
        channel.publish(key.encode(), exchange=topic, routing_key=key)
    message = channel.get(queue)
    assert message is not None
    # The consumer sees where the message was published, not the way it went.
    assert (message.method.exchange, message.method.routing_key, message.body) == (topic, "a.b", b"a.b")
    assert drain(channel, queue) == []


@flow
def test_headers_decide_in_the_middle_of_a_chain(channel: RawChannel) -> None:
    fanout, headers, queue = exchange(channel, "fanout"), exchange(channel, "headers"), channel.declare()
    bind_exchange(channel, fanout, headers)
    channel.bind(queue, headers, arguments={"x-match": "all", "wanted": True})
    for wanted in (True, False):
        properties = spec.Basic.Properties(headers={"wanted": wanted})
        channel.publish(str(wanted).encode(), exchange=fanout, properties=properties)
    assert drain(channel, queue) == [b"True"]


@flow
@rule("001", "1.7.2.3", "queue.bind/once-over-exchanges", "Two ways to a queue still deliver a message once")
def test_two_ways_deliver_once(channel: RawChannel) -> None:
    entry, left, right, queue = (*(exchange(channel, "fanout") for _ in range(3)), channel.declare())
    for way in (left, right):
        bind_exchange(channel, entry, way)
        channel.bind(queue, way)
    channel.bind(queue, entry)
    channel.publish(b"once", exchange=entry)
    assert drain(channel, queue) == [b"once"]


@cycles
@pytest.mark.parametrize("length", [1, 2, 5])
def test_cycle(channel: RawChannel, length: int) -> None:
    ring = [exchange(channel, "fanout", auto_delete=False) for _ in range(length)]
    queues = [channel.declare() for _ in ring]
    for number, name in enumerate(ring):
        bind_exchange(channel, name, ring[(number + 1) % length])
        channel.bind(queues[number], name)
    for name in ring:
        channel.publish(name.encode(), exchange=name)
    everything = [name.encode() for name in ring]
    assert [drain(channel, queue) for queue in queues] == [everything] * length
    for name in ring:
        channel.call(spec.Exchange.Delete(exchange=name))


@cycles
def test_mandatory_message_lost_in_a_cycle_is_returned(channel: RawChannel) -> None:
    one, two = (exchange(channel, "fanout", auto_delete=False) for _ in range(2))
    bind_exchange(channel, one, two)
    bind_exchange(channel, two, one)
    channel.publish(b"round and round", exchange=one, mandatory=True)
    assert channel.returned(reply_code=312, exchange=one).body == b"round and round"
    for name in (one, two):
        channel.call(spec.Exchange.Delete(exchange=name))


@missing
@pytest.mark.parametrize(
    ("source", "destination", "blamed"),
    [
        ("gone", "amq.fanout", "gone"),
        ("amq.fanout", "gone", "gone"),
        ("gone.source", "gone.too", "gone.source"),
    ],
)
def test_binding_missing_exchanges(channel: RawChannel, source: str, destination: str, blamed: str) -> None:
    request = spec.Exchange.Bind(destination=destination, source=source)
    channel.call_fails(request, 404, no_exchange(blamed))


@unbinding
def test_unbinding_stops_the_flow(channel: RawChannel) -> None:
    source, destination, queue = exchange(channel), exchange(channel, "fanout"), channel.declare()
    channel.bind(queue, destination)
    for key in ("one", "two"):
        bind_exchange(channel, source, destination, key)
    channel.call(spec.Exchange.Unbind(destination=destination, source=source, routing_key="one"))
    for key in ("one", "two"):
        channel.publish(key.encode(), exchange=source, routing_key=key)
    assert drain(channel, queue) == [b"two"]


@unbinding
def test_unbinding_what_is_not_bound(channel: RawChannel) -> None:
    name = unique()
    for source, destination in (("amq.fanout", "amq.direct"), (name, "amq.direct"), ("amq.direct", name)):
        channel.call(spec.Exchange.Unbind(destination=destination, source=source, routing_key="unknown"))


@flow
def test_binding_twice_is_binding_once(channel: RawChannel) -> None:
    source, destination, queue = exchange(channel), exchange(channel, "fanout"), channel.declare()
    channel.bind(queue, destination)
    for _ in range(2):
        bind_exchange(channel, source, destination, "key")
    channel.publish(b"x", exchange=source, routing_key="key")
    assert drain(channel, queue) == [b"x"]
    channel.call(spec.Exchange.Unbind(destination=destination, source=source, routing_key="key"))
    assert not exchange_exists(channel, source)


@flow
@unbinding
def test_no_wait(channel: RawChannel) -> None:
    source, destination, queue = exchange(channel, "fanout"), exchange(channel, "fanout"), channel.declare()
    channel.bind(queue, destination)
    channel.send(spec.Exchange.Bind(destination=destination, source=source, nowait=True))
    channel.publish(b"bound", exchange=source)
    assert drain(channel, queue) == [b"bound"]
    channel.send(spec.Exchange.Unbind(destination=destination, source=source, nowait=True))
    round_trip(channel)
    assert not exchange_exists(channel, source), "auto-delete, and unbound"


@lifetime
def test_deleting_the_destination_ends_the_binding(channel: RawChannel) -> None:
    source, destination = exchange(channel, "fanout"), exchange(channel, "fanout")
    bind_exchange(channel, source, destination)
    channel.call(spec.Exchange.Delete(exchange=destination))
    assert not exchange_exists(channel, source), "the last binding of an auto-delete exchange ended"


@lifetime
def test_deleting_the_source_ends_the_binding(channel: RawChannel) -> None:
    source, destination = exchange(channel, "fanout"), exchange(channel, "fanout")
    queue = channel.declare()
    channel.bind(queue, destination)
    bind_exchange(channel, source, destination)
    channel.call(spec.Exchange.Delete(exchange=source))
    channel.call(spec.Exchange.Declare(exchange=source, exchange_type="fanout", auto_delete=True))
    channel.publish(b"nowhere to go", exchange=source)
    assert drain(channel, queue) == []
    channel.call(spec.Exchange.Delete(exchange=source))


@lifetime
def test_destination_stays_when_its_last_source_goes(channel: RawChannel) -> None:
    """Auto-delete counts what an exchange feeds, not what feeds it."""
    source, destination = exchange(channel, "fanout"), exchange(channel, "fanout")
    bind_exchange(channel, source, destination)
    channel.call(spec.Exchange.Delete(exchange=source))
    assert exchange_exists(channel, destination)
    channel.call(spec.Exchange.Delete(exchange=destination))


@internal
def test_internal_exchange_refuses_publishers(channel: RawChannel) -> None:
    name, queue = exchange(channel, "fanout", internal=True), channel.declare()
    channel.bind(queue, name)
    channel.publish(b"refused", exchange=name)
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '/'"
    channel.expect_close(403, text, spec.Basic.Publish)
    channel.open()
    assert drain(channel, queue) == []


@flow
def test_internal_exchange_is_fed_by_other_exchanges(channel: RawChannel) -> None:
    entry, inner, queue = exchange(channel), exchange(channel, "topic", internal=True), channel.declare()
    bind_exchange(channel, entry, inner, "a.b")
    channel.bind(queue, inner, "a.*")
    channel.publish(b"by the back door", exchange=entry, routing_key="a.b")
    assert drain(channel, queue) == [b"by the back door"]
