"""Leases by AMQP alone: made, settled, released, renewed and taken again by consuming."""

from __future__ import annotations

import json
from typing import Any

import pika
import pytest

from tests.leases.test_http_and_amqp import counts, declare, drained, publish, read
from tests.streams.api import ask
from tests.support.pika_client import Client, eventually
from tools.brokers import EmberBroker


def act(client: Client, queue: str, action: str, name: str = "batch", **more: Any) -> Any:
    """The lease, as the broker answers; a refusal closes the channel of this question only."""
    channel = client.connection.channel()
    arguments = {"x-lease": name, "x-lease-action": action}
    arguments |= {f"x-lease-{key}": value for key, value in more.items()}
    answers = [
        json.loads(body)
        for _, _, body in channel.consume(queue, auto_ack=True, arguments=arguments, inactivity_timeout=60)
    ]
    channel.close()
    (answer,) = answers
    return answer


def refusal(client: Client, queue: str, action: str, name: str = "batch", **more: Any) -> str:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        act(client, queue, action, name, **more)
    return f"{closed.value.reply_code} {closed.value.reply_text}"


def test_a_lease_from_its_begin_to_its_end(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader, 20)
    made = act(reader, queue, "take", messages=12)
    assert (made["name"], made["state"], made["count"], made["expires_ms"]) == ("batch", "open", 12, None)
    assert act(reader, queue, "take", messages=3) == made  # asking again is safe
    assert act(reader, queue, "take-again") == act(reader, queue, "show") == made
    assert ask(stored, "GET", f"/leases/%2F/{queue}") == [made]
    assert read(reader, queue) == [(number, number) for number in range(12)]
    assert act(reader, queue, "renew", timeout=60_000)["expires_ms"] > made["created_ms"]
    assert act(reader, queue, "settle")["state"] == "settled"
    assert act(reader, queue, "settle")["state"] == "settled"
    assert "406 PRECONDITION_FAILED - lease 'batch' on" in refusal(reader, queue, "release")
    eventually(lambda: counts(stored, queue) == (8, 0))
    assert act(reader, queue, "take", "other", bytes=4)["count"] == 2
    assert act(reader, queue, "release", "other")["name"] == "other"
    assert [number for number, _ in drained(reader, queue)] == list(range(12, 20))
    empty = act(reader, queue, "take", "none")
    assert (empty["state"], empty["count"]) == ("empty", 0)
    assert "404 NOT_FOUND - no lease 'none' on" in refusal(reader, queue, "show", "none")


@pytest.mark.parametrize("way", ["at once", "restart", "kill"])
def test_a_released_lease_is_taken_again_as_it_was(stored: EmberBroker, way: str) -> None:
    with Client(stored.port) as client:
        queue = declare(client, 40, x_max_priority=3)
        publish(client, queue, 40, 10, priority=2)
        act(client, queue, "take", "before", messages=3)
        act(client, queue, "take", messages=30)
        seen = read(client, queue)
        for name in ("before", "batch"):
            act(client, queue, "release", name)
        publish(client, queue, 50, 5, priority=3)  # these now come first
    if way == "restart":
        stored.restart()
    elif way == "kill":
        stored.kill()
        stored.start()
    with Client(stored.port) as client:
        assert "404" in refusal(client, queue, "settle")
        assert act(client, queue, "take-again")["count"] == 30
        assert counts(stored, queue) == (25, 30)
        assert read(client, queue) == seen
        act(client, queue, "settle")
        eventually(lambda: counts(stored, queue) == (25, 0))
        left = [number for number, _ in drained(client, queue)]
        assert left == [*range(50, 55), 40, 41, 42, *range(23, 40)]


def test_one_of_whose_messages_some_are_gone_is_not(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader, 10)
    act(reader, queue, "take", messages=5)
    act(reader, queue, "release")
    assert reader.get(queue).body == b"0"  # type: ignore[union-attr]
    for _ in range(2):
        assert "not all of its messages are in the queue any more" in refusal(reader, queue, "take-again")
    assert counts(stored, queue) == (9, 0)
    assert act(reader, queue, "take", messages=3)["count"] == 3  # a new one under this name
    assert [number for _, number in read(reader, queue)] == [1, 2, 3]
    act(reader, queue, "release")
    assert act(reader, queue, "take-again")["count"] == 3


def test_what_is_forgotten(reader: Client) -> None:
    queue = declare(reader, 10)
    for name in ("one", "two"):
        act(reader, queue, "take", name, messages=2)
        act(reader, queue, "settle", name)
    act(reader, queue, "take", "three", messages=2)
    # Once its acks are on disk; before that it is kept.
    eventually(lambda: act(reader, queue, "settle", "two", forget="one")["name"] and forgotten(reader, queue))
    assert act(reader, queue, "settle", "three", forget="three")["state"] == "settled"


def forgotten(client: Client, queue: str) -> bool:
    try:
        return act(client, queue, "show", "one") is None
    except pika.exceptions.ChannelClosedByBroker:
        return True


def test_thousands_are_taken_again_and_acked_in_pieces(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader)
    publish(reader, queue, 0, 40_000)
    act(reader, queue, "take", messages=35_000)
    act(reader, queue, "release")
    for _ in range(2):  # those behind the queue's window are on disk only
        assert act(reader, queue, "take-again")["count"] == 35_000
        assert counts(stored, queue) == (5000, 35_000)
        act(reader, queue, "release")
        assert counts(stored, queue) == (40_000, 0)
    act(reader, queue, "take", "front", messages=10)
    assert "not all of its messages" in refusal(reader, queue, "take-again")
    act(reader, queue, "release", "front")
    assert act(reader, queue, "take-again")["count"] == 35_000
    assert read(reader, queue, begin=34_998) == [(34_998, 34_998), (34_999, 34_999)]
    act(reader, queue, "settle")
    eventually(lambda: counts(stored, queue) == (5000, 0))
    assert act(reader, queue, "take", "rest")["count"] == 5000
    assert [number for _, number in read(reader, queue, "rest")] == list(range(35_000, 40_000))


@pytest.mark.parametrize(
    ("action", "more", "expected"),
    [
        ("grab", {}, "406 PRECONDITION_FAILED - invalid arg 'x-lease-action': 'grab' is none of show, take"),
        ("take", {"messages": 0}, "invalid arg 'x-lease-messages'"),
        ("take", {"bytes": "x"}, "invalid arg 'x-lease-bytes'"),
        ("renew", {"timeout": -1}, "invalid arg 'x-lease-timeout'"),
        ("take", {"name": ""}, "a name has 1 to 255 bytes"),
        ("take-again", {}, "404 NOT_FOUND - no lease 'batch'"),
    ],
)
def test_actions_that_cannot_be(reader: Client, action: str, more: dict[str, Any], expected: str) -> None:
    assert expected in refusal(reader, declare(reader, 1), action, **more)


def test_who_may_not_read_the_queue_may_not_lease_it(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader, 1)
    ask(stored, "PUT", "/users/lessor", {"password": "pw", "tags": ""})
    permission = {"configure": ".*", "write": ".*", "read": "other"}
    ask(stored, "PUT", "/permissions/%2F/lessor", permission)
    credentials = pika.PlainCredentials("lessor", "pw")
    parameters = pika.ConnectionParameters("127.0.0.1", stored.port, credentials=credentials)
    with pika.BlockingConnection(parameters) as connection:
        client = Client.__new__(Client)
        client.connection = connection
        assert "403 ACCESS_REFUSED" in refusal(client, queue, "take")
        ask(stored, "PUT", "/permissions/%2F/lessor", {**permission, "read": ".*"})
        assert act(client, queue, "take")["count"] == 1  # no tag is needed
