"""x-max-priority, x-priority of consumers, and x-single-active-consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.support.pika_client import Client, eventually, unique


class Listener:
    """A consumer on a connection of its own that notes what it gets."""

    def __init__(self, client: Client, queue: str, prefetch: int = 0, **arguments: Any) -> None:
        self.client = client
        self.bodies: list[bytes] = []
        self.tags: list[int] = []
        client.channel.basic_qos(prefetch_count=prefetch)
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.tag = client.channel.basic_consume(queue, self.on_message, arguments=table)

    def on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.bodies.append(body)
        self.tags.append(method.delivery_tag)

    def look(self) -> list[bytes]:
        """What has come so far: a round trip brings everything that was sent before it."""
        self.client.connection.process_data_events(0)
        self.client.channel.basic_qos(prefetch_count=0)
        self.client.connection.process_data_events(0)
        return self.bodies

    def ack_all(self) -> None:
        self.client.channel.basic_ack(0, multiple=True)


def fill(client: Client, queue: str, count: int) -> None:
    client.channel.confirm_delivery()
    for number in range(count):
        client.publish(queue, b"%d" % number)


def test_higher_priorities_leave_first(client: Client) -> None:
    queue = client.declare(x_max_priority=10)
    for priority in (1, 5, 10, 3, None, 200, 0):
        client.publish(queue, b"%r" % priority if priority is not None else b"none", priority=priority)
    assert client.drain(queue) == [b"10", b"200", b"5", b"3", b"1", b"none", b"0"]


def test_order_within_a_priority(client: Client) -> None:
    queue = client.declare(x_max_priority=3)
    for number in range(30):
        client.publish(queue, b"%d" % number, priority=number % 3)
    assert client.drain(queue) == [b"%d" % number for number in sorted(range(30), key=lambda n: -(n % 3))]


def test_more_than_the_maximum_is_the_maximum(client: Client) -> None:
    queue = client.declare(x_max_priority=1)
    for number, priority in enumerate((0, 1, 9, 255)):
        client.publish(queue, b"%d" % number, priority=priority)
    assert client.drain(queue) == [b"1", b"2", b"3", b"0"]


def test_given_back_to_its_priority(client: Client) -> None:
    queue = client.declare(x_max_priority=5)
    for priority in (1, 4, 2):
        client.publish(queue, b"%d" % priority, priority=priority)
    got = client.get(queue, ack=False)
    assert got is not None and got.body == b"4"
    client.channel.basic_nack(got.method.delivery_tag)
    assert client.drain(queue) == [b"4", b"2", b"1"]


def test_consumers_get_the_highest_first(client: Client, connect: Callable[[], Client]) -> None:
    queue = client.declare(x_max_priority=255)
    client.channel.confirm_delivery()
    for priority in (7, 255, 0, 100):
        client.publish(queue, b"%d" % priority, priority=priority)
    listener = Listener(connect(), queue)
    eventually(lambda: len(listener.look()) == 4)
    assert listener.bodies == [b"255", b"100", b"7", b"0"]


def test_purge_and_count_all_priorities(client: Client) -> None:
    queue = client.declare(x_max_priority=9)
    for priority in range(10):
        client.publish(queue, priority=priority)
    assert client.count(queue) == 10
    assert client.channel.queue_purge(queue).method.message_count == 10
    assert client.get(queue) is None


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_priorities_survive(start_broker: Callable[..., Any], end: str) -> None:
    broker = start_broker()
    name = unique()
    with Client(broker.port) as client:
        client.declare(name, durable=True, x_max_priority=20)
        client.channel.confirm_delivery()
        for priority in (3, 20, 0, 11):
            client.publish(name, b"%d" % priority, priority=priority, delivery_mode=2)
    getattr(broker, end)()
    broker.start()
    with Client(broker.port) as client:
        assert client.count(name) == 4
        client.publish(name, b"12", priority=12)
        assert client.drain(name) == [b"20", b"12", b"11", b"3", b"0"]


def test_consumers_with_priority_come_first(client: Client, connect: Callable[[], Client]) -> None:
    queue = client.declare()
    low, high = Listener(connect(), queue), Listener(connect(), queue, prefetch=3, x_priority=5)
    fill(client, queue, 5)
    eventually(lambda: len(high.look()) + len(low.look()) == 5)
    assert high.bodies == [b"0", b"1", b"2"]
    assert low.bodies == [b"3", b"4"]


def test_below_nothing(client: Client, connect: Callable[[], Client]) -> None:
    queue = client.declare()
    last, first = Listener(connect(), queue, x_priority=-1), Listener(connect(), queue)
    fill(client, queue, 5)
    eventually(lambda: len(first.look()) == 5)
    assert last.look() == []


def test_equals_take_turns(client: Client, connect: Callable[[], Client]) -> None:
    queue = client.declare()
    some = [Listener(connect(), queue, x_priority=1) for _ in range(3)]
    fill(client, queue, 9)
    eventually(lambda: sum(len(one.look()) for one in some) == 9)
    assert [len(one.bodies) for one in some] == [3, 3, 3]


def test_a_single_active_consumer(client: Client, connect: Callable[[], Client]) -> None:
    queue = client.declare(x_single_active_consumer=True)
    first, second, third = (Listener(connect(), queue) for _ in range(3))
    fill(client, queue, 4)
    eventually(lambda: len(first.look()) == 4)
    assert second.look() == third.look() == []
    first.ack_all()
    first.client.channel.basic_cancel(first.tag)
    fill(client, queue, 2)
    eventually(lambda: len(second.look()) == 2)
    assert third.look() == []
    second.client.connection.close()
    eventually(lambda: len(third.look()) == 2)
    assert third.bodies == [b"0", b"1"]


def test_the_active_one_may_be_out_of_credit(client: Client, connect: Callable[[], Client]) -> None:
    queue = client.declare(x_single_active_consumer=True)
    first, second = Listener(connect(), queue, prefetch=1), Listener(connect(), queue)
    fill(client, queue, 3)
    eventually(lambda: len(first.bodies) == 1 or first.client.connection.process_data_events(0.01))
    assert second.look() == []
    assert client.count(queue) == 2


def test_exclusive_and_single_active_exclude_each_other(client: Client) -> None:
    queue = client.declare(x_single_active_consumer=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        client.channel.basic_consume(queue, lambda *_: None, exclusive=True)
    assert refusal.value.reply_code == 403
    assert "in exclusive use" in refusal.value.reply_text
