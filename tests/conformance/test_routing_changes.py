"""Routing follows every change at once: whatever a broker remembers of earlier routes must not show."""

import random
from itertools import pairwise

import pytest

from tests.conformance.model import bind_exchange, drain, exchange
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, spec, unique

fresh = rule("002", "4.4", "visibility/routing", "A message is routed by what exists when it is published")


def publish(channel: RawChannel, name: str, body: bytes, key: str = "key") -> None:
    channel.publish(body, exchange=name, routing_key=key)


@fresh
def test_unknown_queue_becomes_known(channel: RawChannel) -> None:
    queue = unique("queue")
    channel.publish(b"too early", routing_key=queue)
    channel.declare(queue)
    channel.publish(b"in time", routing_key=queue)
    assert drain(channel, queue) == [b"in time"]


@fresh
def test_queue_deleted_and_declared_again(channel: RawChannel) -> None:
    queue = unique("queue")
    for number in range(3):
        channel.declare(queue)
        channel.publish(b"%d" % number, routing_key=queue)
        assert drain(channel, queue) == [b"%d" % number]
        channel.call(spec.Queue.Delete(queue=queue))
        channel.publish(b"gone", routing_key=queue, mandatory=True)
        channel.returned(reply_code=312)


@fresh
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_bound_queue_deleted_and_declared_again(channel: RawChannel, kind: str) -> None:
    name, queue, witness = exchange(channel, kind), unique("queue"), channel.declare()
    channel.bind(witness, name, "key")
    for number in range(3):
        channel.declare(queue)
        publish(channel, name, b"not bound yet")
        channel.bind(queue, name, "key")
        publish(channel, name, b"%d" % number)
        assert drain(channel, queue) == [b"%d" % number]
        channel.call(spec.Queue.Delete(queue=queue))
        publish(channel, name, b"deleted")
    assert len(drain(channel, witness)) == 9


@fresh
def test_exchange_deleted_and_declared_again_with_another_type(channel: RawChannel) -> None:
    name, queue = unique("exchange"), channel.declare()
    for kind, arrives in (("direct", False), ("fanout", True), ("topic", False), ("direct", False)):
        channel.call(spec.Exchange.Declare(exchange=name, exchange_type=kind))
        channel.bind(queue, name, "bound key")
        publish(channel, name, kind.encode(), "another key")
        publish(channel, name, b"always", "bound key")
        assert drain(channel, queue) == ([kind.encode()] if arrives else []) + [b"always"]
        channel.call(spec.Exchange.Delete(exchange=name))


@fresh
def test_changes_far_down_a_chain_of_exchanges(channel: RawChannel) -> None:
    """The route of the first exchange depends on bindings of the last."""
    chain = [exchange(channel, "fanout", auto_delete=False) for _ in range(4)]
    for source, destination in pairwise(chain):
        bind_exchange(channel, source, destination)
    one, two = channel.declare(), channel.declare()
    publish(channel, chain[0], b"nobody")
    channel.bind(one, chain[-1])
    publish(channel, chain[0], b"one")
    channel.bind(two, chain[-1])
    publish(channel, chain[0], b"both")
    channel.call(spec.Queue.Unbind(queue=one, exchange=chain[-1]))
    publish(channel, chain[0], b"two")
    channel.call(spec.Exchange.Unbind(destination=chain[2], source=chain[1]))
    publish(channel, chain[0], b"cut off")
    bind_exchange(channel, chain[0], chain[3])
    publish(channel, chain[0], b"short cut")
    channel.call(spec.Queue.Delete(queue=two))
    publish(channel, chain[0], b"deleted")
    two = channel.declare()
    channel.bind(two, chain[3])
    publish(channel, chain[0], b"new two")
    channel.call(spec.Exchange.Delete(exchange=chain[3]))
    publish(channel, chain[0], b"end")
    assert drain(channel, one) == [b"one", b"both"]
    assert drain(channel, two) == [b"new two"]
    for name in chain[:3]:
        channel.call(spec.Exchange.Delete(exchange=name))


@fresh
@pytest.mark.parametrize("seed", range(4))
def test_random_changes_agree_with_a_model(channel: RawChannel, seed: int) -> None:
    """Queues and exchanges bound and unbound at random; after each change every exchange is tried."""
    dice = random.Random(seed)
    keys = ["a", "b"]
    exchanges = [exchange(channel, "direct", auto_delete=False) for _ in range(3)]
    queues = [channel.declare() for _ in range(3)]
    bindings: set[tuple[str, str, str]] = set()

    def reached(start: str, key: str) -> set[str]:
        seen, waiting = {start}, [start]
        while waiting:
            source = waiting.pop()
            for origin, target, bound in bindings:
                if origin == source and bound == key and target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen & set(queues)

    for step in range(60):
        source, target, key = dice.choice(exchanges), dice.choice(exchanges + queues), dice.choice(keys)
        remove = (source, target, key) in bindings and dice.random() < 0.7
        if target in queues:
            method = spec.Queue.Unbind if remove else spec.Queue.Bind
            channel.call(method(queue=target, exchange=source, routing_key=key))
        else:
            change = spec.Exchange.Unbind if remove else spec.Exchange.Bind
            channel.call(change(destination=target, source=source, routing_key=key))
        (bindings.discard if remove else bindings.add)((source, target, key))
        for name in exchanges:
            for key in keys:
                channel.publish(b"%d" % step, exchange=name, routing_key=key)
        got = {queue: len(drain(channel, queue)) for queue in queues}
        ways = [reached(name, key) for name in exchanges for key in keys]
        assert got == {queue: sum(queue in way for way in ways) for queue in queues}, f"step {step}"
    for name in exchanges:
        channel.call(spec.Exchange.Delete(exchange=name))


@fresh
def test_more_keys_than_anybody_remembers(channel: RawChannel) -> None:
    name, queue = exchange(channel, "topic"), channel.declare()
    channel.bind(queue, name, "*.wanted")
    for number in range(6000):
        kind = "wanted" if number % 1000 == 999 else "unwanted"
        publish(channel, name, b"%d" % number, f"{number}.{kind}")
    assert drain(channel, queue) == [b"%d" % number for number in range(999, 6000, 1000)]
