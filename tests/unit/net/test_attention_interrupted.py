"""What is done in the midst to a publisher whom the broker stays with: to its queue, its rights, its socket.

Each of these ends the staying, and the next message meets the world as it is by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from embermq.wire import methods
from tests.extensions.client import eventually
from tests.extensions.management import api
from tests.unit.amqp.conversation import frames_of, publish
from tests.unit.net.test_attention import PERSISTENT, QUEUE, Peer, Publisher, Watched, watched_broker

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched_broker(tmp_path_factory.mktemp("interrupted") / "data") as watched:
        yield watched


@pytest.fixture
def other(watched: Watched) -> Iterator[Peer]:
    other = Peer(watched)
    with other.socket:
        yield other
        other.call(methods.QueueDelete(queue=QUEUE), methods.QueueDeleteOk)


@pytest.fixture
def publisher(watched: Watched, other: Peer) -> Iterator[Publisher]:
    publisher = Publisher(watched)
    with publisher.socket:
        publisher.publish_until_stayed_with()
        yield publisher


def ask(watched: Watched, method: str, *path: str, body: object = None) -> Any:
    return api(watched.address, method, *path, body=body)  # type: ignore[arg-type]


@contextmanager
def policy(watched: Watched, **definition: object) -> Iterator[None]:
    keys = {key.replace("_", "-"): value for key, value in definition.items()}
    body = {"pattern": QUEUE, "definition": keys, "apply-to": "queues"}
    ask(watched, "PUT", "policies", "/", "in the midst", body=body)
    try:
        yield
    finally:
        ask(watched, "DELETE", "policies", "/", "in the midst")


def answer_to_one_more(publisher: Publisher, mandatory: bool = False) -> methods.Method | None:
    publisher.sent.append(b"one more")
    publisher.send(publish(QUEUE, b"one more", properties=PERSISTENT, mandatory=mandatory))
    return publisher.next()


def expect_close(publisher: Publisher, text: str) -> None:
    """It is told, and gone."""
    close = publisher.expect(methods.ConnectionClose)
    assert isinstance(close, methods.ConnectionClose)
    assert (close.reply_code, close.reply_text) == (320, text)
    publisher.send(frames_of([methods.ConnectionCloseOk()]))
    assert publisher.next() is None


# -- its queue


def test_a_limit_that_refuses(watched: Watched, publisher: Publisher) -> None:
    kept = list(publisher.sent)
    with policy(watched, max_length=1, overflow="reject-publish"):
        for _ in range(40):
            assert isinstance(answer_to_one_more(publisher), methods.BasicNack)
        assert watched.do(watched.bodies) == kept
    behind = len(publisher.sent)
    publisher.publish_until_stayed_with()
    assert watched.do(watched.bodies) == kept + publisher.sent[behind:]


def test_a_limit_that_drops_the_oldest(watched: Watched, publisher: Publisher) -> None:
    with policy(watched, max_length=3):
        for _ in range(40):
            publisher.publish()
        assert watched.do(watched.bodies) == publisher.sent[-3:]


def test_messages_are_too_old_at_once(watched: Watched, publisher: Publisher, other: Peer) -> None:
    other.call(methods.QueuePurge(queue=QUEUE), methods.QueuePurgeOk)
    with policy(watched, message_ttl=0):
        for _ in range(40):
            publisher.publish()
        eventually(lambda: watched.do(watched.bodies) == [])
    behind = len(publisher.sent)
    publisher.publish_until_stayed_with()
    assert watched.do(watched.bodies) == publisher.sent[behind:]


def test_another_purges(watched: Watched, publisher: Publisher, other: Peer) -> None:
    found = 0
    for _ in range(5):
        purged = other.call(methods.QueuePurge(queue=QUEUE), methods.QueuePurgeOk)
        assert isinstance(purged, methods.QueuePurgeOk)
        found += purged.message_count
        assert found == len(publisher.sent)
        publisher.publish_until_stayed_with()
    assert watched.do(watched.bodies) == publisher.sent[found:]


def test_another_deletes_it(watched: Watched, publisher: Publisher, other: Peer) -> None:
    deleted = other.call(methods.QueueDelete(queue=QUEUE), methods.QueueDeleteOk)
    assert isinstance(deleted, methods.QueueDeleteOk)
    assert deleted.message_count == len(publisher.sent)
    assert isinstance(answer_to_one_more(publisher), methods.BasicAck), "as to all that goes nowhere"
    assert isinstance(answer_to_one_more(publisher, mandatory=True), methods.BasicReturn)
    publisher.expect_confirm()
    other.call(methods.QueueDeclare(queue=QUEUE, durable=True), methods.QueueDeclareOk)
    behind = len(publisher.sent)
    publisher.publish_until_stayed_with()
    assert watched.do(watched.bodies) == publisher.sent[behind:]


def test_it_deletes_it_itself(watched: Watched, publisher: Publisher) -> None:
    one, another = (publish(QUEUE, body, properties=PERSISTENT) for body in (b"one", b"another"))
    publisher.sent += [b"one", b"another"]
    publisher.send(one + frames_of([methods.QueueDelete(queue=QUEUE)], 1) + another)
    said = []
    confirmed = 0
    while confirmed < len(publisher.sent) or len(said) < 1:
        method = publisher.next()
        if isinstance(method, methods.BasicAck):
            confirmed = method.delivery_tag
        else:
            said.append(method)
    (deleted,) = said
    assert isinstance(deleted, methods.QueueDeleteOk)
    assert deleted.message_count == len(publisher.sent) - 1
    publisher.call(methods.QueueDeclare(queue=QUEUE, durable=True), methods.QueueDeclareOk)
    behind = len(publisher.sent)
    publisher.publish_until_stayed_with()
    assert watched.do(watched.bodies) == publisher.sent[behind:]


# -- its rights


def test_its_permission_is_revoked(watched: Watched, publisher: Publisher) -> None:
    kept = list(publisher.sent)
    try:
        ask(watched, "PUT", "permissions", "/", "guest", body=EVERYTHING | {"write": "^$"})
        close = answer_to_one_more(publisher)
    finally:
        ask(watched, "PUT", "permissions", "/", "guest", body=EVERYTHING)
    assert isinstance(close, methods.ChannelClose)
    assert close.reply_code == 403
    assert watched.do(watched.bodies) == kept


def test_its_vhost_is_deleted(watched: Watched) -> None:
    ask(watched, "PUT", "vhosts", "for a while", body={})
    ask(watched, "PUT", "permissions", "for a while", "guest", body=EVERYTHING)
    publisher = Publisher(watched, virtual_host="for a while")
    with publisher.socket:
        publisher.publish_until_stayed_with()
        ask(watched, "DELETE", "vhosts", "for a while")
        expect_close(publisher, "CONNECTION_FORCED - vhost 'for a while' is deleted")


# -- its socket


def test_it_is_closed_by_way_of_http(watched: Watched, publisher: Publisher) -> None:
    here = publisher.socket.getsockname()[1]
    (name,) = [found["name"] for found in ask(watched, "GET", "connections") if found["peer_port"] == here]
    ask(watched, "DELETE", "connections", name)
    expect_close(publisher, "CONNECTION_FORCED - Closed via management plugin")
    assert watched.do(watched.bodies) == publisher.sent


def test_it_falls_silent(watched: Watched, publisher: Publisher) -> None:
    """In the middle of a message, with its socket open."""
    here = publisher.socket.getsockname()[1]

    def let_time_pass() -> None:
        for protocol in list(watched.app.server.protocols):
            if protocol.transport.get_extra_info("peername")[1] == here:
                protocol.heartbeat_s = 1000
                now = watched.app.loop.time()
                protocol.tick(now)  # which notes that it was heard just now
                protocol.tick(now + 2001)

    publisher.send(publish(QUEUE, b"never whole", properties=PERSISTENT)[:-3])
    watched.do(let_time_pass)
    with suppress(ConnectionResetError):
        assert publisher.next() is None
    assert watched.do(watched.bodies) == publisher.sent
