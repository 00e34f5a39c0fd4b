"""A long queue is deleted while the broker dies: each of its messages becomes a dead letter all the same."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pika
import pytest

from embermq.broker.queue.deletion import UNSAFE_COUNT_MAX
from tests.support.pika_client import eventually
from tools.brokers import EmberBroker

COUNT = 3000
QUEUE, LETTERS, EXCHANGE = "long", "letters", "late"
PERSISTENT = pika.BasicProperties(delivery_mode=2)
AUTHORIZATION = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


def connected(broker: EmberBroker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def fill(broker: EmberBroker, **arguments: object) -> None:
    with connected(broker) as connection:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "fanout", durable=True)
        channel.queue_declare(LETTERS, durable=True)
        channel.queue_bind(LETTERS, EXCHANGE)
        channel.queue_declare(
            QUEUE, durable=True, arguments={"x-dead-letter-exchange": EXCHANGE, **arguments}
        )
        for number in range(COUNT - 1):
            channel.basic_publish("", QUEUE, str(number).encode(), PERSISTENT)
        channel.confirm_delivery()
        channel.basic_publish("", QUEUE, str(COUNT - 1).encode(), PERSISTENT)


def delete(broker: EmberBroker) -> None:
    with connected(broker) as connection:
        connection.channel().queue_delete(QUEUE)


def letter_count(broker: EmberBroker) -> int:
    with connected(broker) as connection:
        count: int = connection.channel().queue_declare(LETTERS, passive=True).method.message_count
        return count


def letters(broker: EmberBroker) -> list[int]:
    with connected(broker) as connection:
        channel = connection.channel()
        found = []
        for method, properties, body in channel.consume(LETTERS, auto_ack=True, inactivity_timeout=5):
            if method is None:
                break
            assert properties.headers["x-first-death-reason"] == "deleted"
            assert properties.headers["x-first-death-queue"] == QUEUE
            found.append(int(body))
            if set(found) == set(range(COUNT)):
                break
        return found


def directories(broker: EmberBroker) -> set[str]:
    return {path.name for path in (broker.data_dir / "queues").iterdir()}


def queue_names(broker: EmberBroker) -> list[str]:
    request = urllib.request.Request(
        f"http://{broker.host}:{broker.http_port}/api/queues/%2F", headers=AUTHORIZATION
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return [queue["name"] for queue in json.loads(response.read())]


@pytest.mark.parametrize("lives", [1, 4])
def test_killed_while_it_is_emptied(tmp_path: Path, lives: int) -> None:
    """Killed at once and, in the longer history, again while the start goes on with it."""
    with EmberBroker(tmp_path / "data") as broker:
        fill(broker)
        before = directories(broker)
        delete(broker)
        for _ in range(lives):
            broker.kill()
            broker.start()
        assert queue_names(broker) == [LETTERS]
        found = letters(broker)
        assert set(found) == set(range(COUNT))
        assert len(found) - len(set(found)) <= UNSAFE_COUNT_MAX * lives, "twice came more than was on its way"
        assert list(dict.fromkeys(found)) == sorted(set(found)), "each first came in its order"
        eventually(lambda: not directories(broker) & before)
        broker.kill()
        broker.start()
        assert letter_count(broker) == 0, "what was done is not done again"


def test_killed_while_a_consumer_has_some(tmp_path: Path) -> None:
    with EmberBroker(tmp_path / "data") as broker:
        fill(broker)
        consumer = connected(broker)
        channel = consumer.channel()
        taken = [int(channel.basic_get(QUEUE)[2]) for _ in range(3)]
        assert taken == [0, 1, 2]
        delete(broker)
        eventually(lambda: letter_count(broker) == COUNT - 3)
        broker.kill()
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            consumer.close()
        broker.start()
        assert set(letters(broker)) == set(range(COUNT))


def test_killed_while_nobody_takes_the_letters(tmp_path: Path) -> None:
    with EmberBroker(tmp_path / "data") as broker:
        fill(broker, **{"x-dead-letter-strategy": "at-least-once"})
        with connected(broker) as connection:
            connection.channel().queue_unbind(LETTERS, EXCHANGE)
        delete(broker)
        broker.kill()
        broker.start()
        with connected(broker) as connection:
            connection.channel().queue_bind(LETTERS, EXCHANGE)
        assert set(letters(broker)) == set(range(COUNT))
