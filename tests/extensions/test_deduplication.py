"""x-deduplication: what was published before is confirmed and dropped, across restarts and crashes, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pika
import pytest

from tests.support.management import api
from tests.support.pika_client import Client, eventually, unique
from tools.brokers import EmberBroker

PERSISTENT = 2


@pytest.fixture(scope="module")
def broker() -> Iterator[EmberBroker]:
    """One for this file: some tests restart it."""
    with EmberBroker() as running:
        yield running


def send(client: Client, queue: str, *ids: object, exchange: str = "", **properties: Any) -> None:
    for id in ids:
        headers = {**properties.pop("headers", {}), "x-deduplication-id": id}
        more = {"delivery_mode": PERSISTENT, **properties}
        client.publish(queue, str(id).encode(), exchange=exchange, headers=headers, **more)


def seen(broker: EmberBroker, queue: str) -> dict[str, int]:
    view: dict[str, int] = api(broker, "GET", "queues", "/", queue)["deduplication"]
    return view


def test_a_duplicate_is_confirmed_and_dropped(client: Client, broker: EmberBroker) -> None:
    queue = client.declare(durable=True, x_deduplication=True)
    client.channel.confirm_delivery()
    send(client, queue, "a", "b", "a", "c", "b", 7, "7")  # raises for what is not confirmed
    assert client.drain(queue) == [b"a", b"b", b"c", b"7"]
    send(client, queue, "a", "d")
    assert client.drain(queue) == [b"d"], "consumed is not forgotten"
    view = seen(broker, queue)
    assert (view["ids"], view["duplicates"]) == (5, 4)


def test_without_an_id_nothing_is_a_duplicate(client: Client) -> None:
    queue = client.declare(x_deduplication=True)
    for _ in range(3):
        client.publish(queue, b"plain")
        client.publish(queue, b"other", headers={"note": "x-deduplication-id"})
    assert len(client.drain(queue)) == 6


def test_another_header(client: Client) -> None:
    queue = client.declare(x_deduplication=True, x_deduplication_header="event")
    for _ in range(2):
        client.publish(queue, b"same", headers={"other": 1, "event": "e1"})
        client.publish(queue, b"free", headers={"x-deduplication-id": "e1"})
    assert client.drain(queue) == [b"same", b"free", b"free"]


def test_ids_of_any_type(client: Client) -> None:
    queue = client.declare(x_deduplication=True)
    for id in ("text", 5, Decimal("2.5"), True, b"\xff\x00", ["a", 1], {"k": "v"}):
        for _ in range(2):
            client.publish(queue, str(id).encode(), headers={"x-deduplication-id": id})
    assert len(client.drain(queue)) == 7


def test_the_window_in_count(client: Client) -> None:
    queue = client.declare(x_deduplication=True, x_deduplication_count=3)
    send(client, queue, "a", "b", "c", "a", "d", "a", "c")
    assert client.drain(queue) == [b"a", b"b", b"c", b"d", b"a"]


def test_the_window_in_time(client: Client) -> None:
    queue = client.declare(x_deduplication=True, x_deduplication_window=150)
    send(client, queue, "a")
    send(client, queue, "a")
    assert client.drain(queue) == [b"a"]

    def comes_again() -> bool:
        send(client, queue, "a")
        return client.drain(queue) == [b"a"]

    eventually(comes_again)


def test_a_refused_message_is_not_known(client: Client) -> None:
    queue = client.declare(x_deduplication=True, x_max_length=1, x_overflow="reject-publish")
    client.channel.confirm_delivery()
    send(client, queue, "first")
    with pytest.raises(pika.exceptions.NackError):
        send(client, queue, "second")
    send(client, queue, "first")  # a duplicate is no question of room
    assert client.drain(queue) == [b"first"]
    send(client, queue, "second")
    assert client.drain(queue) == [b"second"]


def test_in_a_transaction(client: Client) -> None:
    queue = client.declare(durable=True, x_deduplication=True)
    client.channel.tx_select()
    send(client, queue, "a", "a")
    client.channel.tx_rollback()
    send(client, queue, "a", "a", "b")
    client.channel.tx_commit()
    assert client.count(queue) == 2


def test_dead_letters_come_back(client: Client) -> None:
    """A retry by way of another queue must not be taken for a duplicate."""
    queue, wait = unique(), unique()
    client.declare(queue, x_deduplication=True, x_dead_letter_exchange="", x_dead_letter_routing_key=wait)
    client.declare(wait, x_message_ttl=1, x_dead_letter_exchange="", x_dead_letter_routing_key=queue)
    send(client, queue, "a")
    for _ in range(3):
        got = client.await_message(queue, ack=False)
        assert got.body == b"a"
        client.channel.basic_reject(got.method.delivery_tag, requeue=False)
    eventually(lambda: client.count(queue) == 1)
    send(client, queue, "a")
    assert client.drain(queue) == [b"a"]


def test_priorities(client: Client) -> None:
    queue = client.declare(durable=True, x_deduplication=True, x_max_priority=5)
    for priority in (1, 4, 1, 4):
        send(client, queue, f"p{priority}", priority=priority)
    assert client.drain(queue) == [b"p4", b"p1"]


def test_an_exchange_deduplicates_for_each_of_its_queues(client: Client) -> None:
    exchange, queues = unique("exchange"), [client.declare() for _ in range(2)]
    client.channel.exchange_declare(exchange, "fanout", arguments={"x-deduplication": True})
    client.channel.queue_bind(queues[0], exchange)
    send(client, "", "a", "a", exchange=exchange)
    client.channel.queue_bind(queues[1], exchange)
    send(client, "", "a", "b", exchange=exchange)
    assert [client.drain(queue) for queue in queues] == [[b"a", b"b"], [b"a", b"b"]]
    send(client, queues[0], "a", "a")
    assert client.drain(queues[0]) == [b"a", b"a"], "only what comes by that exchange"
    client.channel.exchange_delete(exchange)
    client.channel.exchange_declare(exchange, "fanout")
    client.channel.queue_bind(queues[0], exchange)
    send(client, "", "a", "a", exchange=exchange)
    assert client.drain(queues[0]) == [b"a", b"a"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("x-deduplication", "yes", "{unacceptable_type,longstr}"),
        ("x-deduplication-window", 0, "{value_zero,0}"),
        ("x-deduplication-count", -1, "{value_negative,-1}"),
        ("x-deduplication-count", 100_000_001, "{value_too_large,100000001}"),
        ("x-deduplication-header", "", "{invalid_length,0}"),
        ("x-deduplication-header", "h" * 256, '"not text of at most 255 bytes"'),
    ],
)
def test_arguments_that_are_refused(
    connect: Callable[[], Client], name: str, value: object, text: str
) -> None:
    thing = unique()
    arguments = {"x-deduplication": True, name: value}
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        connect().channel.queue_declare(thing, arguments=arguments)
    assert refusal.value.args[1].endswith(f"invalid arg '{name}' for queue '{thing}' in vhost '/': {text}")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        connect().channel.exchange_declare(thing, "fanout", arguments=arguments)
    assert refusal.value.args[1].endswith(f"invalid arg '{name}' for exchange '{thing}' in vhost '/': {text}")


def test_by_policy(client: Client, broker: EmberBroker) -> None:
    queue = client.declare(durable=True)
    send(client, queue, "a", "a")
    assert len(client.drain(queue)) == 2
    policy = {"pattern": f"^{queue}$", "definition": {"deduplication": True, "deduplication-count": 2}}
    api(broker, "PUT", "policies", "/", queue, body=policy)
    send(client, queue, "a", "a", "b", "c", "a")
    assert client.drain(queue) == [b"a", b"b", b"c", b"a"]
    api(broker, "DELETE", "policies", "/", queue)
    send(client, queue, "a", "a")
    assert len(client.drain(queue)) == 2


def test_purged_is_not_forgotten_and_deleted_is(client: Client) -> None:
    queue = client.declare(durable=True, x_deduplication=True)
    send(client, queue, "a")
    client.channel.queue_purge(queue)
    send(client, queue, "a")
    assert client.count(queue) == 0
    client.channel.queue_delete(queue)
    client.declare(queue, durable=True, x_deduplication=True)
    send(client, queue, "a")
    assert client.drain(queue) == [b"a"]


@pytest.mark.parametrize("crash", [False, True])
def test_across_restarts(broker: EmberBroker, crash: bool) -> None:
    plain, urgent, by_exchange = unique("plain"), unique("urgent"), unique("by-exchange")
    exchange = unique("exchange")
    with Client(broker.port) as client:
        client.declare(plain, durable=True, x_deduplication=True)
        client.declare(urgent, durable=True, x_deduplication=True, x_max_priority=3)
        client.declare(by_exchange, durable=True)
        client.channel.exchange_declare(exchange, "direct", durable=True, arguments={"x-deduplication": True})
        client.channel.queue_bind(by_exchange, exchange, "k")
        client.channel.confirm_delivery()
        for queue, where in ((plain, {}), (urgent, {"priority": 3}), ("k", {"exchange": exchange})):
            send(client, queue, "stays", "leaves", **where)
            send(client, queue, *range(50), **where)
        for queue in (plain, urgent, by_exchange):
            assert client.get(queue).body == b"stays"
            assert client.get(queue).body == b"leaves"
        client.publish(plain, b"x", headers={"x-deduplication-id": "transient"})
    for _ in range(2):  # the second time without anything new
        if crash:
            broker.kill()
            broker.start()
        else:
            broker.restart()
    with Client(broker.port) as client:
        client.channel.confirm_delivery()
        for queue, where in ((plain, {}), (urgent, {"priority": 3}), ("k", {"exchange": exchange})):
            send(client, queue, "stays", "leaves", *range(50), "new", **where)
        expected = [str(number).encode() for number in range(50)] + [b"new"]
        for queue in (plain, urgent, by_exchange):
            assert client.drain(queue) == expected
        send(client, plain, "transient")
        assert client.drain(plain) == [b"transient"], "forgotten with its message"
        for queue in (plain, urgent, by_exchange):
            client.channel.queue_delete(queue)
        client.channel.exchange_delete(exchange)


def test_a_drained_queue_still_knows_after_a_crash(broker: EmberBroker) -> None:
    """When every message is consumed, its files go; what was taken must be known all the same."""
    queue = unique()
    with Client(broker.port) as client:
        client.declare(queue, durable=True, x_deduplication=True)
        client.channel.confirm_delivery()
        body = bytes(1024 * 1024)
        for number in range(12):  # past a file of the log
            client.publish(queue, body, headers={"x-deduplication-id": number}, delivery_mode=PERSISTENT)
        assert len(client.drain(queue)) == 12
        send(client, queue, "last")
        assert client.drain(queue) == [b"last"]
    for _ in range(3):
        broker.kill()
        broker.start()
    with Client(broker.port) as client:
        send(client, queue, *range(12), "last", "new")
        assert client.drain(queue) == [b"new"]
        client.channel.queue_delete(queue)
