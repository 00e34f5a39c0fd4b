"""x-selector on basic.consume, by pika and aio-pika, together with what else a queue does."""

from __future__ import annotations

import asyncio
from typing import Any

import aio_pika
import pika
import pytest

from tests.support.pika_client import Client, eventually, unique
from tools.brokers import Broker


class Selecting:
    """A consumer, and what it got."""

    def __init__(self, client: Client, queue: str, selector: str, ack: bool = True, **arguments: Any) -> None:
        self.client = client
        self.got: list[tuple[Any, Any, bytes]] = []
        self.channel = client.connection.channel()
        prefetch = arguments.pop("prefetch", 0)
        if prefetch:
            self.channel.basic_qos(prefetch_count=prefetch)
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.acks = ack
        self.tag = self.channel.basic_consume(queue, self.on, arguments={"x-selector": selector, **named})

    def on(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.got.append((method, properties, body))
        if self.acks:
            channel.basic_ack(method.delivery_tag)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.got]

    def wait(self, count: int) -> list[bytes]:
        """At least so many, then whatever has come with them."""

        def there() -> bool:
            self.client.connection.process_data_events(0)
            return len(self.got) >= count

        eventually(there)
        return self.bodies


def send(client: Client, queue: str, *bodies: str, **properties: Any) -> None:
    """A body is its colour and number."""
    for body in bodies:
        headers = {"colour": body.split()[0], **properties.get("headers", {})}
        client.publish(queue, body.encode(), **(properties | {"headers": headers}))
    client.count(queue)  # they have arrived


def test_consumers_share_a_queue_by_what_they_select(client: Client) -> None:
    queue = client.declare()
    red, blue = Selecting(client, queue, "colour = 'red'"), Selecting(client, queue, "colour = 'blue'")
    send(client, queue, "green 1", "red 2", "blue 3", "red 4")
    assert red.wait(2) == [b"red 2", b"red 4"]
    assert blue.wait(1) == [b"blue 3"]
    assert client.drain(queue) == [b"green 1"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-filter-jms-selector": "colour = 'red'"},
        {"filter": {"x-selector": "colour = 'red'"}},
        {"filter": {"x-filter-jms-selector": "colour = 'red'"}},
    ],
)
def test_other_names_of_the_argument(client: Client, arguments: dict[str, Any]) -> None:
    queue = client.declare()
    send(client, queue, "blue 1", "red 2")
    consumer = Selecting(client, queue, "", **arguments)
    assert consumer.wait(1) == [b"red 2"]


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (
            "colour = ",
            "PRECONDITION_FAILED - invalid arg 'x-selector' for queue '{}' in vhost '/': invalid selector: ",
        ),
        ("colour ! 1", "(at character 8, near '! 1')"),
        (5, "invalid arg 'x-selector' for queue '{}' in vhost '/': expected a selector"),
    ],
)
def test_a_selector_that_cannot_be_understood(client: Client, selector: Any, text: str) -> None:
    queue = client.declare()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        Selecting(client, queue, selector)
    assert refused.value.reply_code == 406
    assert text.format(queue) in refused.value.reply_text


def test_a_lease_has_no_selector(client: Client) -> None:
    queue = client.declare()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="it has no selector"):
        Selecting(client, queue, "a = 1", x_lease="mine")


def test_prefetch_and_requeue(client: Client) -> None:
    queue = client.declare()
    send(client, queue, "red 1", "blue 2", "red 3", "red 4")
    red = Selecting(client, queue, "colour = 'red'", ack=False, prefetch=2)
    assert red.wait(2) == [b"red 1", b"red 3"]
    red.channel.basic_nack(red.got[0][0].delivery_tag, requeue=True)
    assert red.wait(3) == [b"red 1", b"red 3", b"red 1"]
    assert red.got[2][0].redelivered
    red.channel.basic_ack(0, multiple=True)
    assert red.wait(4)[3:] == [b"red 4"]
    assert client.count(queue) == 1


def test_a_closed_channel_gives_its_messages_to_those_that_select_them(client: Client) -> None:
    queue = client.declare()
    send(client, queue, "red 1", "blue 2", "red 3")
    first = Selecting(client, queue, "colour = 'red'", ack=False)
    first.wait(2)
    second = Selecting(client, queue, "colour IN ('red', 'green')")
    first.channel.close()
    assert second.wait(2) == [b"red 1", b"red 3"]


def test_rejected_messages_become_dead_letters_and_count_for_the_delivery_limit(client: Client) -> None:
    dead = client.declare()
    queue = client.declare(
        x_dead_letter_exchange="", x_dead_letter_routing_key=dead, x_delivery_limit=1, durable=True
    )
    send(client, queue, "blue 1", "red 2", "red 3")
    red = Selecting(client, queue, "colour = 'red'", ack=False)
    red.wait(2)
    red.channel.basic_reject(red.got[0][0].delivery_tag, requeue=False)
    for number in (1, 2):
        red.channel.basic_nack(red.got[number][0].delivery_tag, requeue=True)
        if number == 1:
            red.wait(3)
    letters = [client.await_message(dead), client.await_message(dead)]
    assert [letter.body for letter in letters] == [b"red 2", b"red 3"]
    assert [letter.headers["x-death"][0]["reason"] for letter in letters] == ["rejected", "delivery_limit"]
    assert client.count(queue) == 1


def test_the_count_of_deliveries_can_be_selected(client: Client) -> None:
    queue = client.declare(x_queue_type="quorum", durable=True)
    first = Selecting(client, queue, '"x-delivery-count" IS NULL', ack=False)
    send(client, queue, "red 1")
    first.wait(1)
    again = Selecting(client, queue, '"x-delivery-count" > 0')
    first.channel.basic_nack(first.got[0][0].delivery_tag, requeue=True)
    assert again.wait(1) == [b"red 1"]


def test_transactions(client: Client) -> None:
    queue = client.declare()
    send(client, queue, "blue 1", "red 2")
    red = Selecting(client, queue, "colour = 'red'", ack=False)
    red.wait(1)
    red.channel.tx_select()
    red.channel.basic_ack(red.got[0][0].delivery_tag)
    red.channel.tx_rollback()
    red.channel.basic_nack(red.got[0][0].delivery_tag, requeue=True)
    red.channel.tx_commit()
    assert red.wait(2) == [b"red 2", b"red 2"]
    red.channel.basic_ack(red.got[1][0].delivery_tag)
    red.channel.tx_commit()
    assert client.count(queue) == 1


def test_a_message_that_expires_is_not_delivered_later(client: Client) -> None:
    dead = client.declare()
    queue = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    send(client, queue, "red 1", expiration="1")
    assert client.await_message(dead).body == b"red 1"
    red = Selecting(client, queue, "colour = 'red'")
    send(client, queue, "red 2")
    assert red.wait(1) == [b"red 2"]


def test_a_lease_takes_from_the_head_what_no_consumer_has(client: Client) -> None:
    queue = client.declare(durable=True)
    red = Selecting(client, queue, "colour = 'red'")
    send(client, queue, "red 1", "blue 2", "red 3", "blue 4", delivery_mode=2)
    red.wait(2)
    channel = client.connection.channel()
    channel.basic_consume(
        queue, lambda *_: None, auto_ack=True, arguments={"x-lease": "one", "x-lease-action": "take"}
    )
    eventually(lambda: client.count(queue) == 0)
    channel = client.connection.channel()
    channel.basic_consume(
        queue, lambda *_: None, auto_ack=True, arguments={"x-lease": "one", "x-lease-action": "release"}
    )
    eventually(lambda: client.count(queue) == 2)
    blue = Selecting(client, queue, "colour = 'blue'")
    assert blue.wait(2) == [b"blue 2", b"blue 4"]


def test_a_full_queue_takes_what_a_consumer_selects(client: Client) -> None:
    queue = client.declare(x_overflow="reject-publish", x_max_length=1)
    red = Selecting(client, queue, "colour = 'red'")
    client.channel.confirm_delivery()
    client.publish(queue, b"blue 1", headers={"colour": "blue"})
    with pytest.raises(pika.exceptions.NackError):
        client.publish(queue, b"blue 2", headers={"colour": "blue"})
    client.publish(queue, b"red 3", headers={"colour": "red"})
    assert red.wait(1) == [b"red 3"]


def test_aio_pika(broker: Broker) -> None:
    asyncio.run(select_by_aio_pika(broker.url))


async def select_by_aio_pika(url: str) -> None:
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        queue = await channel.declare_queue(unique(), auto_delete=True)
        for number in range(10):
            message = aio_pika.Message(b"%d" % number, headers={"number": number})
            await channel.default_exchange.publish(message, queue.name)
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def on(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                got.put_nowait(message.body)

        await queue.consume(on, arguments={"x-selector": "number BETWEEN 3 AND 4 OR number = 8"})
        async with asyncio.timeout(60):
            assert [await got.get() for _ in range(3)] == [b"3", b"4", b"8"]
