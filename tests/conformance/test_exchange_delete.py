"""exchange.delete and the exchanges that delete themselves."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.conformance.model import (
    bind_exchange,
    drain,
    eventually,
    exchange,
    exchange_exists,
    leave,
    no_exchange,
)
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

if_unused = rule(
    "001",
    "1.6.2.3.3",
    "exchange.delete.if-unused",
    "With if-unused an exchange that has bindings is not deleted; a channel exception is raised",
)
auto_delete = rule(
    "002", "3.1.3", "exchange/auto-delete", "An auto-delete exchange lives until it is no longer used"
)
system = rule("002", "2.1.2.3", "exchange/predeclared-stay", "Pre-declared exchanges cannot be destroyed")


@rule("001", "1.6.2.3", "exchange.delete", "Deleting an exchange cancels all its bindings")
def test_deleted_exchange_is_gone_with_its_bindings(channel: RawChannel) -> None:
    queue, name = channel.declare(), exchange(channel, "fanout", auto_delete=False)
    channel.bind(queue, name)
    channel.call(spec.Exchange.Delete(exchange=name))
    assert not exchange_exists(channel, name)
    # The same name declared again starts without the old binding.
    channel.call(spec.Exchange.Declare(exchange=name, exchange_type="fanout"))
    channel.publish(b"nobody listens", exchange=name)
    assert drain(channel, queue) == []
    channel.call(spec.Exchange.Delete(exchange=name))


@rule(
    "001",
    "1.8.3.7.2",
    "basic.publish.exchange/missing",
    "Publishing to a missing exchange is a channel exception",
)
def test_publishing_to_a_deleted_exchange(channel: RawChannel) -> None:
    name = exchange(channel)
    channel.call(spec.Exchange.Delete(exchange=name))
    channel.publish(b"lost", exchange=name)
    channel.expect_close(404, no_exchange(name), spec.Basic.Publish)


@if_unused
def test_exchange_with_a_queue_is_not_deleted_if_unused(channel: RawChannel) -> None:
    queue, name = channel.declare(), exchange(channel)
    channel.bind(queue, name)
    text = f"PRECONDITION_FAILED - exchange '{name}' in vhost '/' in use"
    channel.call_fails(spec.Exchange.Delete(exchange=name, if_unused=True), 406, text)
    channel.open()
    assert exchange_exists(channel, name)


@if_unused
def test_exchange_with_a_bound_exchange_is_not_deleted_if_unused(channel: RawChannel) -> None:
    source, destination = exchange(channel), exchange(channel, auto_delete=False)
    bind_exchange(channel, source, destination)
    text = f"PRECONDITION_FAILED - exchange '{source}' in vhost '/' in use"
    channel.call_fails(spec.Exchange.Delete(exchange=source, if_unused=True), 406, text)
    channel.open()
    # Being a destination is no use of an exchange.
    channel.call(spec.Exchange.Delete(exchange=destination, if_unused=True))
    assert not exchange_exists(channel, source), "its last binding went with the destination"


@if_unused
def test_unused_exchange_is_deleted(channel: RawChannel) -> None:
    name = exchange(channel)
    channel.call(spec.Exchange.Delete(exchange=name, if_unused=True))
    assert not exchange_exists(channel, name)


@rule(
    "004",
    "exchange.delete",
    "exchange.delete/idempotent",
    "Deleting a missing exchange succeeds (404 in the documents; RabbitMQ's clients rely on the success)",
)
def test_deleting_a_missing_exchange_succeeds(channel: RawChannel) -> None:
    channel.call(spec.Exchange.Delete(exchange=unique()))
    channel.call(spec.Exchange.Delete(exchange=unique(), if_unused=True))


@system
@pytest.mark.parametrize("name", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"])
def test_predeclared_exchanges_cannot_be_deleted(channel: RawChannel, name: str) -> None:
    text = f"ACCESS_REFUSED - deletion of system exchange '{name}' in vhost '/' not allowed"
    channel.call_fails(spec.Exchange.Delete(exchange=name), 403, text)
    channel.open()
    assert exchange_exists(channel, name)


@rule(
    "001", "1.1", "no-wait/exchange.delete", "With no-wait exchange.delete has no reply, but the work is done"
)
def test_delete_without_waiting(channel: RawChannel) -> None:
    name = exchange(channel)
    channel.send(spec.Exchange.Delete(exchange=name, nowait=True))
    channel.call_fails(spec.Exchange.Declare(exchange=name, passive=True), 404)


@auto_delete
def test_auto_delete_exchange_goes_with_its_last_unbind(channel: RawChannel) -> None:
    queue, name = channel.declare(), exchange(channel)
    channel.bind(queue, name, "one")
    channel.bind(queue, name, "two")
    channel.call(spec.Queue.Unbind(queue=queue, exchange=name, routing_key="one"))
    assert exchange_exists(channel, name)
    channel.call(spec.Queue.Unbind(queue=queue, exchange=name, routing_key="two"))
    assert not exchange_exists(channel, name)


@auto_delete
def test_auto_delete_exchange_goes_with_its_last_queue(channel: RawChannel) -> None:
    queue, name = channel.declare(), exchange(channel)
    channel.bind(queue, name)
    channel.call(spec.Queue.Delete(queue=queue))
    assert not exchange_exists(channel, name)


@auto_delete
def test_auto_delete_exchange_goes_with_the_exclusive_queue_of_a_closed_connection(
    connect: Callable[..., RawClient], channel: RawChannel
) -> None:
    other_client = connect()
    other = other_client.channel()
    queue, name = other.declare(), exchange(other)
    other.bind(queue, name)
    leave(other_client)
    assert eventually(lambda: not exchange_exists(channel, name))


@auto_delete
def test_auto_delete_exchange_without_any_binding_stays(channel: RawChannel) -> None:
    name = exchange(channel)
    channel.publish(b"unused", exchange=name)
    assert exchange_exists(channel, name)
    channel.call(spec.Exchange.Delete(exchange=name))


@auto_delete
def test_chain_of_auto_delete_exchanges_goes_at_once(channel: RawChannel) -> None:
    queue = channel.declare()
    chain = [exchange(channel, "fanout") for _ in range(4)]
    for source, destination in pairwise(chain):
        bind_exchange(channel, source, destination)
    channel.bind(queue, chain[-1])
    channel.call(spec.Queue.Delete(queue=queue))
    assert [name for name in chain if exchange_exists(channel, name)] == []
