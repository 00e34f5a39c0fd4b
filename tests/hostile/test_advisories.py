"""What went wrong in RabbitMQ in the last years, tried on us: its advisories, where they apply.

Others are where they belong: permissions of passive declarations in tests/access/test_permission_matrix,
tokens with odd claims in tests/unit/broker/test_tokens, guest behind a proxy in tests/access/test_proxy,
secrets in tests/access/test_operation, bounds of caches in tests/unit/broker/test_access.
"""

from __future__ import annotations

import struct
import time

import pika
import pytest

from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER, content_header, method_frame
from embermq.wire.properties import Properties
from tests.access.tenant import ask, connect, make_user, put
from tests.hostile.peers import Peer, unique
from tools.brokers import EmberBroker


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def nested(depth: int) -> bytes:
    """A field table in a field table in a field table ..."""
    table = b""
    for _ in range(depth):
        table = b"\x01aF" + struct.pack(">I", len(table)) + table
    return struct.pack(">I", len(table)) + table


@pytest.mark.parametrize("extra", [1, 100_000])
def test_a_body_larger_than_announced(peer: Peer, extra: int) -> None:
    """The header promises ten bytes; more come. Nothing is delivered, and the connection ends."""
    queue = unique()
    peer.declare(queue)
    header = content_header(10, Properties().encode())
    peer.send_bytes(
        method_frame(1, methods.BasicPublish(routing_key=queue)) + frame(2, 1, header) + frame(3, 1, bytes(5))
    )
    peer.send_bytes(frame(3, 1, bytes(5 + extra)))
    close = peer.expect(methods.ConnectionClose)
    assert isinstance(close, methods.ConnectionClose) and close.reply_code in (501, 505)


def test_a_large_body_without_the_announced_end_holds_only_what_came(victim: EmberBroker) -> None:
    with Peer(victim) as peer:
        peer.open()
        before = victim.rss_bytes()
        header = content_header(100 * 1024 * 1024, Properties().encode())
        peer.send_bytes(method_frame(1, methods.BasicPublish(routing_key="x")) + frame(2, 1, header))
        peer.send(methods.BasicQos(), channel=1)
        close = peer.expect(methods.ConnectionClose)
        assert isinstance(close, methods.ConnectionClose) and close.reply_code == 505
        assert victim.rss_bytes() - before < 50 * 1024 * 1024


@pytest.mark.parametrize("size", [8193, 131072, 2**31, 2**32 - 1])
def test_frames_before_tune_are_small(victim: EmberBroker, size: int) -> None:
    """Who has not logged in cannot make us gather more than a few kilobytes."""
    with Peer(victim) as peer:
        peer.send_bytes(PROTOCOL_HEADER)
        peer.expect(methods.ConnectionStart)
        peer.send_bytes(struct.pack(">BHI", 1, 0, size))
        peer.send_if_heard(bytes(4096))
        peer.wait_for_end()


@pytest.mark.parametrize("depth", [100, 1000])
def test_nested_tables_before_the_login(victim: EmberBroker, depth: int) -> None:
    with Peer(victim) as peer:
        peer.send_bytes(PROTOCOL_HEADER)
        peer.expect(methods.ConnectionStart)
        payload = (
            struct.pack(">HH", 10, 11) + nested(depth) + b"\x05PLAIN" + struct.pack(">I", 0) + b"\x05en_US"
        )
        peer.send_bytes(frame(1, 0, payload))
        peer.wait_for_end()


def test_consecutive_wildcards(victim: EmberBroker) -> None:
    """`#.#.#...` must not multiply the ways through a long routing key."""
    with connect(victim, "guest") as connection:
        channel = connection.channel()
        channel.queue_declare("wild", exclusive=True)
        for count in range(1, 40):
            channel.queue_bind("wild", "amq.topic", ".".join(["#"] * count + ["*", "#", "end"]))
        channel.confirm_delivery()
        began = victim.cpu_seconds()
        for number in range(20):
            key = ".".join(["a"] * 120 + [str(number)])
            channel.basic_publish("amq.topic", key, b"")
        assert victim.cpu_seconds() - began < 10, "twenty messages took more than any sound matcher needs"
        channel.basic_publish("amq.topic", ".".join(["a"] * 100 + ["end"]), b"found", mandatory=True)


def test_replies_cannot_be_stolen_or_forged(victim: EmberBroker) -> None:
    make_user(victim, "thief", configure=".*", write=".*", read=".*")
    with connect(victim, "guest") as owner, connect(victim, "thief") as thief:
        channel = owner.channel()
        got: list[bytes] = []
        channel.basic_consume("amq.rabbitmq.reply-to", lambda *m: got.append(m[3]), auto_ack=True)
        channel.queue_declare("questions", auto_delete=False)
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
        channel.basic_publish("", "questions", b"?", properties)
        asked = None
        while asked is None:
            asked = thief.channel().basic_get("questions", auto_ack=True)[1]
        address = asked.reply_to
        assert address.startswith("amq.rabbitmq.reply-to.") and len(address) > 40, "nobody guesses that"
        for act in (
            lambda c: c.basic_get(address),
            lambda c: c.basic_consume(address, print),
            lambda c: c.queue_purge(address),
            lambda c: c.queue_delete(address),
            lambda c: c.queue_bind(address, "amq.topic", "#"),
        ):
            with pytest.raises(pika.exceptions.ChannelClosedByBroker):
                act(thief.channel())
        # A client that writes a reply-to of its own makes nobody's replies go there.
        forged = pika.BasicProperties(reply_to=address)
        thief.channel().basic_publish("", "questions", b"forged", forged)
        thief.channel().basic_publish("", address, b"answer")
        deadline = time.monotonic() + 20
        while not got and time.monotonic() < deadline:
            owner.process_data_events(0.05)
        assert got == [b"answer"]
        channel.queue_delete("questions")


def test_names_without_end_do_not_fill_the_memory(victim: EmberBroker) -> None:
    """Every routing key may be used once; what is remembered of it is bounded."""
    with Peer(victim) as peer:
        peer.open()
        empty = frame(2, 1, content_header(0, Properties().encode()))

        def publish(numbers: range) -> bytes:
            return b"".join(
                method_frame(1, methods.BasicPublish(exchange="amq.topic", routing_key=f"{n:0200d}")) + empty
                for n in numbers
            )

        peer.send_bytes(publish(range(5_000)))
        peer.send(methods.BasicQos(), channel=1)
        peer.expect(methods.BasicQosOk)
        before = victim.rss_bytes()
        for start in range(5_000, 60_000, 5_000):
            peer.send_bytes(publish(range(start, start + 5_000)))
        peer.send(methods.BasicQos(), channel=1)
        peer.expect(methods.BasicQosOk)
        assert victim.rss_bytes() - before < 10 * 1024 * 1024


def test_the_api_asks_for_the_rights_that_amqp_asks_for(victim: EmberBroker) -> None:
    """Deleting a queue by HTTP once needed no permission in RabbitMQ (CVE-2024-51988)."""
    put(victim, "queues", "/", "precious", durable=True)
    put(victim, "exchanges", "/", "precious", type="direct")
    make_user(victim, "reader", tags="management", configure="", write="", read="^$")
    login = "reader:reader"
    bindings = ("bindings", "/", "e", "precious", "q", "precious")
    message = {"routing_key": "x", "payload": "x", "payload_encoding": "string", "properties": {}}
    taken = {"ackmode": "ack_requeue_true", "count": 1, "encoding": "auto"}
    for method, path, body in (
        ("DELETE", ("queues", "/", "precious"), None),
        ("DELETE", ("queues", "/", "precious", "contents"), None),
        ("PUT", ("queues", "/", "mine"), {}),
        ("POST", ("queues", "/", "precious", "get"), taken),
        ("DELETE", ("exchanges", "/", "precious"), None),
        ("PUT", ("exchanges", "/", "mine"), {"type": "direct"}),
        ("POST", bindings, {"routing_key": "k"}),
        ("POST", ("exchanges", "/", "precious", "publish"), message),
        ("PUT", ("users", "mine"), {"password": "x", "tags": "administrator"}),
        ("PUT", ("permissions", "/", "reader"), {"configure": ".*", "write": ".*", "read": ".*"}),
        ("PUT", ("topic-permissions", "/", "reader"), {"exchange": "e", "write": "", "read": ""}),
        ("PUT", ("vhost-limits", "/", "max-queues"), {"value": 0}),
        ("PUT", ("user-limits", "reader", "max-channels"), {"value": 0}),
        ("GET", ("definitions",), None),
    ):
        reply = ask(victim, method, *path, body=body, login=login)
        assert reply.status in (400, 401) and "refused" in str(reply.json).lower() or reply.status == 401
    assert ask(victim, "GET", "queues", "/", "precious").status == 200


def test_credentials_for_pages_that_do_not_exist_are_not_logged(victim: EmberBroker) -> None:
    """RabbitMQ logged the authorization header of such requests (CVE-2025-50200)."""
    for path in (("no", "such", "page"), ("queues", "/", "no such queue"), ("vhosts", "\x00")):
        assert ask(victim, "GET", *path, login="guest:guest").status in (400, 404)
        assert ask(victim, "GET", *path, login="guest:swordfish").status in (400, 401, 404)
    log = victim.log_path.read_text()
    assert "swordfish" not in log and "Z3Vlc3Q6" not in log and "authorization" not in log.lower()
