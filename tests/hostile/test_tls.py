"""Consumers over TLS that do not read: what is sent to them is encrypted a piece at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from embermq.wire import methods
from embermq.wire.frame import content_frames, content_header, method_frame
from tests.access.secured import Secured
from tests.hostile.conftest import wait_until
from tests.hostile.peers import FRAME_MAX, NO_PROPERTIES, Peer, healthy_round_trip, publish, unique
from tests.hostile.test_floods import MIB, ready
from tests.support.raw_client import RawClient
from tools.brokers import EmberBroker

DEAF = 20
BODY_BYTES = 8 * MIB


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def victim(secured: Secured) -> Iterator[EmberBroker]:
    with secured.broker as broker:
        yield broker


class SecuredPeer(Peer):
    def __init__(self, secured: Secured, receive_buffer_bytes: int = 0) -> None:
        RawClient.__init__(self, secured.amqps, receive_buffer_bytes=receive_buffer_bytes)
        self.socket = secured.context().wrap_socket(self.socket, server_hostname="localhost")


def test_a_body_is_held_once_however_many_consumers_do_not_read_it(
    victim: EmberBroker, secured: Secured
) -> None:
    name = unique()
    with ExitStack() as stack:
        owner = stack.enter_context(Peer(victim))
        owner.open()
        owner.send(methods.ExchangeDeclare(exchange=name, type="fanout", auto_delete=True))
        owner.expect(methods.ExchangeDeclareOk)
        for number in range(DEAF):
            peer = stack.enter_context(SecuredPeer(secured, receive_buffer_bytes=4096))
            queue = f"{name}.{number}"
            peer.open()
            peer.send(
                methods.QueueDeclare(queue=queue, auto_delete=True),
                methods.QueueBind(queue=queue, exchange=name),
                methods.BasicConsume(queue=queue),
            )
            peer.expect(methods.BasicConsumeOk)
        before = victim.rss_bytes()
        header = content_header(BODY_BYTES, NO_PROPERTIES)
        content = content_frames(1, header, bytes(BODY_BYTES), FRAME_MAX)
        owner.send_bytes(method_frame(1, methods.BasicPublish(exchange=name)) + content)
        wait_until(lambda: all(ready(owner, f"{name}.{number}") == 0 for number in range(DEAF)))
        healthy_round_trip(victim)
        grown = victim.rss_bytes() - before
        # A few of it on its way through the broker, and what the transports of all may hold.
        assert grown < 4 * BODY_BYTES + DEAF * 3 * MIB, f"grown by {grown // MIB} MiB: each has a copy"


def test_bodies_that_had_to_wait_come_whole_and_in_order(victim: EmberBroker, secured: Secured) -> None:
    queue, sizes = unique(), [3 * MIB, 10, 5 * MIB + 1, 200_000, 0, 2 * MIB]
    bodies = [hashlib.shake_128(bytes([number])).digest(size) for number, size in enumerate(sizes)]
    with Peer(victim) as owner, SecuredPeer(secured, receive_buffer_bytes=4096) as slow:
        owner.open()
        owner.declare(queue, auto_delete=True)
        slow.open()
        slow.send(methods.BasicConsume(queue=queue))
        slow.expect(methods.BasicConsumeOk)
        for body in bodies:
            owner.send_bytes(publish(queue, body))
        wait_until(lambda: ready(owner, queue) < len(bodies))
        healthy_round_trip(victim)  # it reads nothing meanwhile
        for body in bodies:
            slow.expect(methods.BasicDeliver)
            assert received_body(slow) == body
        slow.send(methods.BasicAck(delivery_tag=0, multiple=True))
        slow.declare(queue, auto_delete=True)


def test_the_last_words_come_behind_what_had_to_wait(victim: EmberBroker, secured: Secured) -> None:
    queue, body = unique(), bytes(6 * MIB)
    with Peer(victim) as owner, SecuredPeer(secured, receive_buffer_bytes=4096) as slow:
        owner.open()
        owner.declare(queue, auto_delete=True)
        slow.open()
        slow.send(methods.BasicConsume(queue=queue, no_ack=True))
        slow.expect(methods.BasicConsumeOk)
        owner.send_bytes(publish(queue, body))
        wait_until(lambda: ready(owner, queue) == 0)
        slow.send(methods.ConnectionClose(reply_code=200, reply_text="", class_id=0, method_id=0), channel=0)
        slow.expect(methods.BasicDeliver)
        assert received_body(slow) == body
        slow.expect(methods.ConnectionCloseOk)


def received_body(peer: Peer) -> bytes:
    header = peer.read_frame()
    assert header is not None and header[0] == 2
    size = int.from_bytes(header[2][4:12], "big")
    body = bytearray()
    while len(body) < size:
        piece = peer.read_frame()
        assert piece is not None and piece[0] == 3
        body += piece[2]
    return bytes(body)
