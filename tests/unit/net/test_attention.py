"""A publisher that waits for every confirm is stayed with, and nobody notices but by its speed."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embermq.amqp.connection import Connection
from embermq.app import App
from embermq.config import Config
from embermq.net.attention import Attention, loop_descriptor
from embermq.net.calls import receive, receive_soon, send_now, wait_for, watch
from embermq.testing.host import ThreadHost
from embermq.wire import methods
from embermq.wire.frame import HEARTBEAT_FRAME, PROTOCOL_HEADER
from embermq.wire.properties import Properties
from tests.unit.amqp.conversation import frames_of, publish, split_frames, start_ok

QUEUE = "lone"
PATIENCE_S = 60.0
PERSISTENT = Properties(delivery_mode=2)
MINE, OTHERS = 1, 2


class Watched:
    """A broker whose disk is always quick enough, and whose attention is counted."""

    def __init__(self, host: ThreadHost) -> None:
        self.host = host
        self.address = host.start()
        self.app: App = host.inside.app
        self.answered_by_the_loop = 0
        self.do(self.prepare)

    def do(self, action: object, *arguments: object) -> object:
        """On the broker's own loop."""

        async def call() -> object:
            return action(*arguments)  # type: ignore[operator]

        assert self.host.loop is not None
        return asyncio.run_coroutine_threadsafe(call(), self.host.loop).result()

    def prepare(self) -> None:
        assert self.app.data is not None
        self.app.data.committer.sync_here(self.app.turn, PATIENCE_S)
        self.attention = Attention(self.app.loop)
        self.attention.stay_s = 2.0  # a thousand times longer than usual, so that a slow machine has time
        self.attention.wait_ms_max = 500
        self.app.turn.attend = self.attend

    def attend(self, connection: Connection) -> None:
        self.answered_by_the_loop += 1
        self.attention.attend(connection)

    def bodies(self) -> list[bytes]:
        queue = self.app.broker.vhosts["/"].queues[QUEUE]
        return [bytes(message.body) for message in queue.messages()]


class Peer:
    def __init__(self, watched: Watched, virtual_host: str = "/") -> None:
        self.socket = socket.create_connection((watched.address.host, watched.address.amqp_port), PATIENCE_S)
        self.buffer = b""
        tune = methods.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0)
        opening: list[methods.Method] = [start_ok(), tune, methods.ConnectionOpen(virtual_host)]
        self.send(PROTOCOL_HEADER + frames_of(opening) + frames_of([methods.ChannelOpen()], 1))
        self.expect(methods.ChannelOpenOk)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def call(self, method: methods.Method, reply: type[methods.Method]) -> methods.Method:
        self.send(frames_of([method], 1))
        return self.expect(reply)

    def next(self) -> methods.Method | None:
        while True:
            stop = 8 + int.from_bytes(self.buffer[3:7], "big")
            if len(self.buffer) >= max(8, stop):
                ((kind, _, payload),) = split_frames(self.buffer[:stop])
                self.buffer = self.buffer[stop:]
                if kind == 1:
                    return methods.decode_method(payload, 0, len(payload))
                continue
            data = self.socket.recv(65536)
            if not data:
                return None
            self.buffer += data

    def expect(self, kind: type[methods.Method]) -> methods.Method:
        while True:
            method = self.next()
            assert method is not None, f"the broker hung up instead of {kind.__name__}"
            if isinstance(method, kind):
                return method


class Publisher(Peer):
    def __init__(self, watched: Watched, virtual_host: str = "/") -> None:
        super().__init__(watched, virtual_host)
        self.watched = watched
        self.call(methods.QueueDeclare(queue=QUEUE, durable=True), methods.QueueDeclareOk)
        self.call(methods.ConfirmSelect(), methods.ConfirmSelectOk)
        self.sent: list[bytes] = []

    def publish(self, body: bytes | None = None) -> None:
        """And wait."""
        body = b"%d" % len(self.sent) if body is None else body
        self.sent.append(body)
        self.send(publish(QUEUE, body, properties=PERSISTENT))
        self.expect_confirm()

    def expect_confirm(self) -> None:
        ack = self.expect(methods.BasicAck)
        assert isinstance(ack, methods.BasicAck)
        assert ack.delivery_tag == len(self.sent)

    def publish_until_stayed_with(self) -> None:
        """Until a message did not come by way of the loop."""
        for _ in range(2000):
            before = self.watched.answered_by_the_loop
            self.publish()
            if 0 < before == self.watched.answered_by_the_loop and not self.watched.attention.rounds_left:
                return
        raise AssertionError("nobody was stayed with")


@contextmanager
def watched_broker(data: Path) -> Iterator[Watched]:
    host = ThreadHost(Config(amqp_port=0, http_port=0, data_dir=data), in_memory=False)
    try:
        yield Watched(host)
    finally:
        host.stop()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with watched_broker(tmp_path / "data") as watched:
        yield watched


@pytest.fixture
def publisher(watched: Watched) -> Iterator[Publisher]:
    publisher = Publisher(watched)
    publisher.publish_until_stayed_with()
    with publisher.socket:
        yield publisher


def test_all_is_confirmed_and_kept_in_order(watched: Watched, publisher: Publisher) -> None:
    for _ in range(300):
        publisher.publish()
    assert watched.answered_by_the_loop < len(publisher.sent)
    assert watched.do(watched.bodies) == publisher.sent


def test_others_are_heard_at_once(watched: Watched, publisher: Publisher) -> None:
    """Although the broker waits for the next message of the publisher."""
    other = Peer(watched)
    other.call(methods.QueueDeclare(queue="another"), methods.QueueDeclareOk)
    publisher.publish()
    other.call(methods.QueueDeclare(queue="another"), methods.QueueDeclareOk)
    other.socket.close()
    publisher.publish_until_stayed_with()
    assert watched.do(watched.bodies) == publisher.sent


def test_a_message_in_pieces(watched: Watched, publisher: Publisher) -> None:
    frames = publish(QUEUE, b"in pieces", properties=PERSISTENT)
    for cut in (1, 8, len(frames) // 2, len(frames) - 1):
        publisher.send(frames[:cut])
        assert watched.do(len, "the broker has gone round its loop") > 0  # type: ignore[operator]
        publisher.sent.append(b"in pieces")
        publisher.send(frames[cut:])
        publisher.expect_confirm()
        publisher.publish_until_stayed_with()
    assert watched.do(watched.bodies) == publisher.sent


def test_a_message_larger_than_what_is_read_at_once(watched: Watched, publisher: Publisher) -> None:
    for size in (60_000, 70_000, 131_064, 300_000):
        publisher.publish(bytes(size))
        publisher.publish()
    assert watched.do(watched.bodies) == publisher.sent


def test_several_at_once_are_confirmed_in_one(watched: Watched, publisher: Publisher) -> None:
    bodies = [b"first", b"second", b"third"]
    publisher.sent += bodies
    publisher.send(b"".join(publish(QUEUE, body, properties=PERSISTENT) for body in bodies))
    ack = publisher.expect(methods.BasicAck)
    while isinstance(ack, methods.BasicAck) and ack.delivery_tag < len(publisher.sent):
        ack = publisher.expect(methods.BasicAck)
    assert watched.do(watched.bodies) == publisher.sent


def test_what_else_it_says_is_answered(watched: Watched, publisher: Publisher) -> None:
    publisher.send(HEARTBEAT_FRAME)
    publisher.publish()
    publisher.send(HEARTBEAT_FRAME)
    publisher.call(methods.BasicQos(prefetch_count=10), methods.BasicQosOk)
    publisher.publish_until_stayed_with()
    publisher.send(publish("nowhere", b"lost", properties=PERSISTENT))
    publisher.sent.append(b"lost")
    publisher.expect_confirm()
    publisher.send(frames_of([methods.ConnectionClose(200, "bye", 0, 0)]))
    publisher.expect(methods.ConnectionCloseOk)
    assert publisher.next() is None


def test_a_mistake_closes_the_channel(watched: Watched, publisher: Publisher) -> None:
    publisher.send(publish("x", b"lost", exchange="not there"))
    close = publisher.expect(methods.ChannelClose)
    assert isinstance(close, methods.ChannelClose)
    assert close.reply_code == 404


def test_a_fault_of_ours_ends_it_and_nothing_else(watched: Watched, publisher: Publisher) -> None:
    faults: list[str] = []

    class Broken:
        def is_pressed(self) -> bool:
            raise RuntimeError("a fault of ours")

    def prepare() -> None:
        watched.app.loop.set_exception_handler(lambda loop, context: faults.append(str(context["exception"])))

    watched.do(prepare)
    watched.attention.stay_s = 2.0  # again: somebody came
    publisher.publish_until_stayed_with()
    (protocol,) = watched.app.server.protocols
    # From here, not by way of the loop: it stays where it is.
    protocol.connection.pressed_queue = Broken()  # type: ignore[assignment]
    publisher.publish()
    assert watched.do(list, faults) == ["a fault of ours"]
    publisher.publish_until_stayed_with()
    assert watched.do(watched.bodies) == publisher.sent


def test_it_may_hang_up(watched: Watched, publisher: Publisher) -> None:
    publisher.socket.close()
    again = Publisher(watched)
    again.publish()
    again.publish_until_stayed_with()
    again.socket.close()


def test_the_broker_can_be_stopped_while_it_waits(watched: Watched, publisher: Publisher) -> None:
    watched.host.stop()
    publisher.expect(methods.ConnectionClose)


def test_a_loop_that_does_not_tell_what_it_waits_on() -> None:
    assert loop_descriptor(object()) == -1  # type: ignore[arg-type]


# -- the calls


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        yield near, far


Ends = tuple[socket.socket, socket.socket]


def test_waiting(ends: Ends) -> None:
    near, far = ends
    loop_near, loop_far = socket.socketpair()
    with loop_near, loop_far:
        assert wait_for(near.fileno(), loop_near.fileno(), 0) == 0
        loop_far.send(b"x")
        assert wait_for(near.fileno(), loop_near.fileno(), 1000) == OTHERS
        assert wait_for(-1, loop_near.fileno(), 1000) == OTHERS
        far.send(b"x")
        assert wait_for(near.fileno(), loop_near.fileno(), 1000) == MINE | OTHERS
        loop_near.recv(1)
        assert wait_for(near.fileno(), loop_near.fileno(), 1000) == MINE
        far.close()
        assert wait_for(near.fileno(), loop_near.fileno(), 1000) == MINE
        near.recv(1)
        assert wait_for(near.fileno(), loop_near.fileno(), 1000) == MINE, "its end is to be read, too"


def test_a_loop_that_looks_away_for_a_moment(ends: Ends) -> None:
    near, far = ends
    with select.epoll() as loop:
        assert not watch(loop.fileno(), near.fileno(), False), "it does not know the socket"
        loop.register(near, select.EPOLLIN)
        far.send(b"x")
        assert watch(loop.fileno(), near.fileno(), False)
        assert loop.poll(0) == []
        assert watch(loop.fileno(), near.fileno(), True)
        assert loop.poll(0) == [(near.fileno(), select.EPOLLIN)]
    assert not watch(far.fileno(), near.fileno(), False), "not a loop at all"


def test_receiving(ends: Ends) -> None:
    near, far = ends
    buffer = bytearray(10)
    assert receive(near.fileno(), buffer, 10) == -1
    far.send(b"abcdef")
    assert receive(near.fileno(), buffer, 4) == 4
    assert receive(near.fileno(), buffer, 4) == 2
    assert buffer == b"efcd" + bytes(6)
    far.close()
    assert receive(near.fileno(), buffer, 4) == 0
    with pytest.raises(IndexError):
        receive(near.fileno(), buffer, 11)
    assert near.fileno() >= 0


def test_receiving_what_comes_soon(ends: Ends) -> None:
    near, far = ends
    buffer = bytearray(10)
    assert receive_soon(near.fileno(), buffer, 10, 0.0) == -1
    assert receive_soon(near.fileno(), buffer, 10, 0.001) == -1
    far.send(b"abc")
    assert receive_soon(near.fileno(), buffer, 10, 60.0) == 3
    assert buffer == b"abc" + bytes(7)
    far.close()
    assert receive_soon(near.fileno(), buffer, 10, 60.0) == 0
    with pytest.raises(IndexError):
        receive_soon(near.fileno(), buffer, 11, 0.001)


def test_sending_as_much_as_goes(ends: Ends) -> None:
    near, far = ends
    assert send_now(near.fileno(), b"hello") == 5
    assert far.recv(10) == b"hello"
    total = 0
    while sent := send_now(near.fileno(), bytes(100_000)):
        total += sent
    assert total > 0
    far.close()
    assert send_now(near.fileno(), b"hello") == 0
    assert near.fileno() >= 0
