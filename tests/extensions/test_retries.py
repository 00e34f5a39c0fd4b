"""x-retry-delay, x-retry-backoff, x-retry-max-delay; delivery counts over restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from embermq.broker.queue.features import Retry
from tests.extensions.test_delayed_messages import ask, delayed
from tests.support.pika_client import Client, Got, eventually, in_time, unique
from tools.brokers import EmberBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmberBroker]:
    data: Path = tmp_path_factory.mktemp("retries")
    with EmberBroker(data) as broker:
        yield broker


def give_back(client: Client, queue: str) -> Got:
    got = client.await_message(queue, ack=False)
    client.channel.basic_nack(got.method.delivery_tag, requeue=True)
    return got


def test_each_try_waits_longer_until_the_limit_ends_it(client: Client) -> None:
    letters = client.declare()
    queue = client.declare(
        x_retry_delay=150,
        x_retry_backoff=2,
        x_retry_max_delay=400,
        x_delivery_limit=3,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=letters,
    )
    client.publish(queue, b"poison")
    waits, counts, last = [], [], time.monotonic()
    for _ in range(4):
        got = client.await_message(queue, ack=False)
        waits.append(time.monotonic() - last)
        last = time.monotonic()
        client.channel.basic_nack(got.method.delivery_tag, requeue=True)
        counts.append((got.headers.get("x-delivery-count"), got.headers.get("x-acquired-count")))
        assert got.method.redelivered == (len(counts) > 1)
    assert counts == [(None, None), (1, 1), (2, 2), (3, 3)]
    assert [wait >= least for wait, least in zip(waits[1:], (0.149, 0.299, 0.399), strict=True)] == [True] * 3
    letter = client.await_message(letters)
    assert letter.headers["x-death"][0]["reason"] == "delivery_limit"
    assert client.count(queue) == 0


def test_others_overtake(client: Client) -> None:
    queue = ""

    def take_the_second_meanwhile(delay_ms: int) -> None:
        nonlocal queue
        queue = client.declare(x_retry_delay=delay_ms)
        client.publish(queue, b"first")
        client.publish(queue, b"second")
        assert give_back(client, queue).body == b"first"
        assert client.await_message(queue).body == b"second"

    in_time(take_the_second_meanwhile)
    assert client.await_message(queue).body == b"first"


@pytest.mark.parametrize("how", ["reject", "close", "recover"])
def test_all_ways_to_give_back(client: Client, how: str) -> None:
    queue = client.declare(x_retry_delay=200)
    client.publish(queue)
    channel = client.connection.channel()
    method, _, _ = eventually(lambda: (got := channel.basic_get(queue))[0] and got)
    began = time.monotonic()
    if how == "reject":
        channel.basic_reject(method.delivery_tag, requeue=True)
    elif how == "recover":
        channel.basic_recover(requeue=True)
    else:
        channel.close()
    assert client.await_message(queue).headers["x-delivery-count"] == 1
    assert time.monotonic() - began > 0.199


def test_without_requeue_it_is_over(client: Client, broker: EmberBroker) -> None:
    queue = client.declare(x_retry_delay=60_000)
    client.publish(queue)
    client.channel.basic_reject(client.await_message(queue, ack=False).method.delivery_tag, requeue=False)
    client.channel.queue_declare(queue, passive=True)
    assert delayed(broker, f"queues/%2f/{queue}") == 0


def test_priority_and_time_to_live_stay_what_they_were(client: Client) -> None:
    letters = client.declare()
    queue = client.declare(
        x_retry_delay=100, x_max_priority=5, x_dead_letter_exchange="", x_dead_letter_routing_key=letters
    )
    client.publish(queue, b"urgent", priority=5)
    client.publish(queue, b"short", priority=4, expiration="600000")
    assert give_back(client, queue).body == b"urgent"
    assert give_back(client, queue).body == b"short"
    client.publish(queue, b"plain")
    eventually(lambda: client.count(queue) == 3)
    assert client.drain(queue)[:1] == [b"urgent"]
    client.publish(queue, b"short", priority=4, expiration="250")

    def died() -> Got | None:
        """It is given back as often as it comes, so that a life renewed by that would never end."""
        if (got := client.get(queue, ack=False)) is not None:
            client.channel.basic_nack(got.method.delivery_tag, requeue=True)
        return client.get(letters)

    assert eventually(died).headers["x-death"][0]["reason"] == "expired"


def test_a_queue_declared_anew_is_another(client: Client) -> None:
    queue = client.declare(x_retry_delay=300)
    client.publish(queue, b"old")
    give_back(client, queue)
    client.channel.queue_delete(queue)
    client.declare(queue, x_retry_delay=300)
    client.publish(queue, b"new")
    give_back(client, queue)
    assert client.await_message(queue).body == b"new"
    assert client.get(queue) is None


def test_a_policy_does_it_too(client: Client, broker: EmberBroker) -> None:
    queue = client.declare()

    def nothing_comes_at_once(delay_ms: int) -> None:
        client.channel.queue_purge(queue)
        policy = {"pattern": f"^{queue}$", "definition": {"retry-delay": delay_ms, "retry-backoff": 1.5}}
        ask(broker, f"/api/policies/%2f/{queue}", "PUT", policy)
        client.publish(queue)
        give_back(client, queue)
        assert client.get(queue) is None

    in_time(nothing_comes_at_once)
    ask(broker, f"/api/policies/%2f/{queue}", "DELETE")
    assert client.await_message(queue, ack=False).headers["x-delivery-count"] == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-retry-delay", 0),
        ("x-retry-delay", "soon"),
        ("x-retry-backoff", Decimal("0.5")),
        ("x-retry-backoff", "2"),
        ("x-retry-max-delay", -1),
    ],
)
def test_what_makes_no_sense_is_refused(client: Client, name: str, value: Any) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        client.channel.queue_declare(unique(), arguments={name: value})
    assert refusal.value.reply_code == 406
    assert f"invalid arg '{name}'" in refusal.value.reply_text


def test_the_times_between_tries() -> None:
    retry = Retry(100, 2.5, 1000)
    assert [retry.wait_ms(returns) for returns in (1, 2, 3, 4, 10_000)] == [100, 250, 625, 1000, 1000]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_waiting_tries_and_counts_survive(broker: EmberBroker, how: str) -> None:
    client = Client(broker.port)
    waiting = client.declare(durable=True, x_retry_delay=1500)
    counted = client.declare(durable=True, x_delivery_limit=10)
    client.channel.confirm_delivery()
    for queue in (waiting, counted):
        client.publish(queue, delivery_mode=2)
    for _ in range(3):
        give_back(client, counted)
    give_back(client, waiting)
    client.channel.queue_declare(waiting, passive=True)
    client.publish(counted, delivery_mode=2)  # confirmed: what is above it is on disk
    getattr(broker, how)()
    client.leave()
    broker.start()
    client = Client(broker.port)
    got = client.await_message(counted, ack=False)
    assert (got.headers["x-delivery-count"], got.method.redelivered) == (3, True)
    got = client.await_message(waiting, ack=False)
    assert (got.headers["x-delivery-count"], got.method.redelivered) == (1, True)
    client.channel.basic_nack(got.method.delivery_tag, requeue=True)
    got = client.await_message(waiting, ack=False)
    assert got.headers["x-delivery-count"] == 2
    client.leave()
