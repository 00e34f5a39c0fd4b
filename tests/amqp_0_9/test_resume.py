"""channel.resume: a channel goes on after a lost connection, and nothing is executed twice."""

from __future__ import annotations

import json
import random
import time
import urllib.request
from collections.abc import Callable

import pytest

from embermq.testing import EmbeddedBroker
from tests.support.client_0_9 import Called, Client09, payload
from tests.support.raw_frames import unique


def resumed(connect: Callable[..., Client09], lost: Client09, identity: bytes) -> Client09:
    """Another connection that continues channel 1 of a lost one."""
    other = connect()
    other.request_ids, other.response_ids = lost.request_ids, lost.response_ids
    other.marks, other.got = lost.marks, lost.got
    resume(other, identity)
    return other


def resume(client: Client09, identity: bytes) -> None:
    client.frame(9, 1, bytes(16) + payload("channel.resume", channel_id=identity))
    assert client.expect(1, "channel.ok").response_id == 0


@pytest.fixture
def identity(client: Client09) -> bytes:
    """Of the client's channel 1, opened again to see it."""
    client.call(1, "channel.close", reply_code=200)
    return client.open(1)


def test_a_request_whose_answer_was_lost_is_not_executed_twice(
    client: Client09, identity: bytes, connect: Callable[..., Client09]
) -> None:
    queue = unique("resume")
    client.ask(1, "queue.declare", "queue.declare-ok", queue=queue, durable=True)
    sent = client.request(1, "message.transfer", routing_key=queue, body=(0, b"once"))
    client.next(1)  # it was executed, but suppose that this had not arrived
    client.marks[1], client.got[1] = 1, {1}
    client.drop()
    other = resumed(connect, client, identity)
    other.request(1, "message.transfer", request_id=sent, routing_key=queue, body=(0, b"once"))
    assert other.expect(1, "message.ok").request_id == sent
    assert other.ask(1, "queue.delete", "queue.delete-ok", queue=queue).fields["message-count"] == 1


def test_unanswered_messages_come_again_under_the_same_numbers(
    client: Client09, identity: bytes, connect: Callable[..., Client09]
) -> None:
    queue = unique("resume")
    client.ask(1, "queue.declare", "queue.declare-ok", queue=queue, durable=True)
    client.ask(1, "message.consume", queue=queue, destination="tag")
    for body in (b"1", b"2"):
        client.request(1, "message.transfer", routing_key=queue, body=(0, body))
    transfers: list[Called] = []
    answers = 0
    while len(transfers) < 2 or answers < 2:
        found = client.next(1)
        if found.name == "message.transfer":
            transfers.append(found)
        else:
            answers += found.batch_offset + 1
    client.respond(1, transfers[0].request_id, "message.ok")
    client.call(1, "basic.qos")
    client.drop()
    other = resumed(connect, client, identity)
    again = other.expect(1, "message.transfer")
    assert again.request_id == transfers[1].request_id
    assert (again.fields["body"], again.fields["redelivered"]) == ((0, b"2"), True)
    other.respond(1, again.request_id, "message.ok")
    other.request(1, "message.transfer", routing_key=queue, body=(0, b"3"))
    both = [other.next(1).name for _ in range(2)]
    assert sorted(both) == ["message.ok", "message.transfer"]
    other.ask(1, "queue.delete", "queue.delete-ok", queue=queue)


def put(url: str, body: object) -> None:
    login = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), login, method="PUT")
    urllib.request.urlopen(request, timeout=20).close()


def test_another_user_cannot_resume_it(
    client: Client09, identity: bytes, connect: Callable[..., Client09], broker: EmbeddedBroker
) -> None:
    for path, body in (
        ("users/other", {"password": "other", "tags": ""}),
        ("permissions/%2F/other", {"configure": ".*", "write": ".*", "read": ".*"}),
    ):
        put(f"{broker.http_url}/api/{path}", body)
    client.ask(1, "channel.ping", "channel.ok")
    client.drop()
    for login, key in (({"user": "other", "password": "other"}, identity), ({}, b"guessed")):
        thief = connect(**login)
        thief.request(1, "channel.resume", channel_id=key)
        assert "no such channel" in thief.expect_closed(0, 404)
    resumed(connect, client, identity)


def test_a_channel_that_was_closed_is_not_resumed(
    client: Client09, identity: bytes, connect: Callable[..., Client09]
) -> None:
    client.ask(1, "channel.ping", "channel.ok")
    client.call(1, "channel.close", reply_code=200)
    client.drop()
    other = connect()
    other.request(1, "channel.resume", channel_id=identity)
    other.expect_closed(0, 404)


def test_a_client_that_is_back_before_its_loss_is_noticed_gets_its_channel(
    client: Client09, identity: bytes, connect: Callable[..., Client09]
) -> None:
    client.ask(1, "channel.ping", "channel.ok")
    other = resumed(connect, client, identity)
    other.ask(1, "channel.ping", "channel.ok")
    client.request(1, "channel.ping")  # the old connection has lost it
    client.expect_closed(0, 504)


def test_a_channel_that_is_not_resumed_gives_its_messages_back(
    client: Client09, identity: bytes, connect: Callable[..., Client09], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embermq.broker.interrupted.KEPT_MS", 300)
    queue = unique("resume")
    client.ask(1, "queue.declare", "queue.declare-ok", queue=queue, durable=True)
    client.ask(1, "message.transfer", routing_key=queue, body=(0, b"back"))
    client.ask(1, "message.consume", queue=queue, destination="tag")
    client.expect(1, "message.transfer")
    client.drop()
    other = connect()
    other.open(1)
    deadline = time.monotonic() + 20
    other.request(1, "message.get", queue=queue)
    while other.expect(1, "message.empty", "message.transfer").name == "message.empty":
        other.request(1, "message.get", queue=queue)
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("seed", range(3))
def test_random_losses_execute_each_request_once(connect: Callable[..., Client09], seed: int) -> None:
    """Transfers with numbers in their bodies, over connections that break at random moments."""
    chance = random.Random(seed)
    queue = unique("resume")
    client = connect()
    identity = client.open(1)
    client.ask(1, "queue.declare", "queue.declare-ok", queue=queue, durable=True)
    outstanding: dict[int, bytes] = {}
    for number in range(300):
        body = b"%d" % number
        outstanding[client.request(1, "message.transfer", routing_key=queue, body=(0, body))] = body
        if chance.random() < 0.3:
            settle(client, outstanding)
        if chance.random() < 0.05:
            client.drop()
            client = reconnected(connect, client, identity, outstanding, queue)
    while outstanding:
        settle(client, outstanding)
    client.ask(1, "message.qos", prefetch_count=1000)
    client.ask(1, "message.consume", queue=queue, destination="all")
    assert [client.expect(1, "message.transfer").fields["body"][1] for _ in range(300)] == [
        b"%d" % number for number in range(300)
    ]
    client.call(1, "queue.delete", queue=queue)


def reconnected(
    connect: Callable[..., Client09],
    lost: Client09,
    identity: bytes,
    outstanding: dict[int, bytes],
    queue: str,
) -> Client09:
    """Resume, and send again what has no answer; the broker may not have got all of it."""
    other = resumed(connect, lost, identity)
    for request_id, body in sorted(outstanding.items()):
        other.request(1, "message.transfer", request_id=request_id, routing_key=queue, body=(0, body))
    return other


def settle(client: Client09, outstanding: dict[int, bytes]) -> None:
    found: Called = client.expect(1, "message.ok")
    for request_id in range(found.request_id, found.request_id + found.batch_offset + 1):
        outstanding.pop(request_id, None)
