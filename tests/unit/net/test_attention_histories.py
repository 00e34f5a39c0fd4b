"""Random lives of a client whom the broker stays with: it changes its ways in the midst of that.

It waits for its confirms and stops doing so, uses several channels, gets and consumes, cuts its messages
anywhere, makes mistakes, does not read, and hangs up; others come in between. All of it must be heard,
answered and kept as if nobody had stayed with anybody. One socket has one order: whatever was sent to a queue
stands there in that order, up to some place behind all that was confirmed.

`--cycles N` says how many lives there are (a sixth of it), `--crash-seed S` repeats one.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator

import pytest

from embermq.wire import methods
from embermq.wire.frame import HEARTBEAT_FRAME, method_frame
from tests.extensions.client import eventually
from tests.unit.amqp.conversation import publish
from tests.unit.net.test_attention import PERSISTENT, Peer, Watched, watched_broker

ACTIONS = 40
CHANNELS = (1, 2, 3)
TX = 4  # the channel of transactions


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched_broker(tmp_path_factory.mktemp("histories") / "data") as watched:
        watched.do(long_patience, watched)
        yield watched


def long_patience(watched: Watched) -> None:
    watched.attention.wait_ms_max = 50  # half of what is said here is none of what is waited for


class History:
    def __init__(self, watched: Watched, seed: int) -> None:
        self.watched = watched
        self.chance = random.Random(seed)
        self.queue = f"history.{seed}"
        self.transient = f"transient.{seed}"
        self.sent: list[bytes] = []  # to the durable queue, in order
        self.safe = 0  # so many of them are confirmed
        self.taken = 0  # so many have left it again
        self.tags = dict.fromkeys(CHANNELS, 0)
        self.confirmed = dict.fromkeys(CHANNELS, 0)
        self.places: dict[tuple[int, int], int] = {}  # channel, tag -> how many were sent up to it
        self.returns = dict.fromkeys(CHANNELS, 0)  # expected
        self.returned = dict.fromkeys(CHANNELS, 0)
        self.peer = Peer(watched)
        self.other = Peer(watched)
        for channel in (2, 3, TX):
            self.peer.send(method_frame(channel, methods.ChannelOpen()))
            self.wait(methods.ChannelOpenOk)
        for channel in CHANNELS:
            self.call(methods.ConfirmSelect(), methods.ConfirmSelectOk, channel)
        self.call(methods.TxSelect(), methods.TxSelectOk, TX)
        self.call(methods.QueueDeclare(queue=self.queue, durable=True), methods.QueueDeclareOk)
        self.call(methods.QueueDeclare(queue=self.transient), methods.QueueDeclareOk)

    # -- what comes

    def frame(self) -> tuple[int, int, bytes] | None:
        peer = self.peer
        while True:
            stop = 8 + int.from_bytes(peer.buffer[3:7], "big")
            if len(peer.buffer) >= max(8, stop):
                kind, channel = struct.unpack_from(">BH", peer.buffer)
                payload = peer.buffer[7 : stop - 1]
                assert peer.buffer[stop - 1] == 0xCE
                peer.buffer = peer.buffer[stop:]
                return kind, channel, payload
            data = peer.socket.recv(65536)
            if not data:
                return None
            peer.buffer += data

    def next(self) -> methods.Method | None:
        """The next method, after what it means has been noted."""
        while True:
            frame = self.frame()
            if frame is None:
                return None
            kind, channel, payload = frame
            if kind == 8:
                continue
            assert kind == 1, frame
            method = methods.decode_method(payload, 0, len(payload))
            if isinstance(method, methods.BasicAck):
                self.on_confirm(channel, method)
            elif isinstance(method, methods.BasicReturn):
                self.content()
                self.returned[channel] += 1
            elif isinstance(method, methods.BasicGetOk | methods.BasicDeliver):
                assert self.content() == self.sent[self.taken]
                self.taken += 1
            return method

    def content(self) -> bytes:
        frame = self.frame()
        assert frame is not None and frame[0] == 2
        left = int.from_bytes(frame[2][4:12], "big")
        body = b""
        while len(body) < left:
            frame = self.frame()
            assert frame is not None and frame[0] == 3
            body += frame[2]
        return body

    def on_confirm(self, channel: int, ack: methods.BasicAck) -> None:
        first = self.confirmed[channel] + 1
        assert ack.delivery_tag >= first, "confirmed twice"
        assert ack.multiple or ack.delivery_tag == first
        assert ack.delivery_tag <= self.tags[channel], "confirmed before it was sent"
        self.confirmed[channel] = ack.delivery_tag
        for tag in range(first, ack.delivery_tag + 1):
            self.safe = max(self.safe, self.places.pop((channel, tag), 0))

    def wait(self, kind: type[methods.Method]) -> methods.Method:
        while True:
            method = self.next()
            assert method is not None, f"the broker hung up instead of {kind.__name__}"
            if isinstance(method, kind):
                return method
            assert not isinstance(method, methods.ChannelClose | methods.ConnectionClose), method

    def call(self, method: methods.Method, reply: type[methods.Method], channel: int = 1) -> methods.Method:
        self.peer.send(method_frame(channel, method))
        return self.wait(reply)

    def wait_confirms(self, *channels: int) -> None:
        while any(self.confirmed[channel] < self.tags[channel] for channel in channels or CHANNELS):
            assert self.next() is not None, "the broker hung up"
        for channel in channels or CHANNELS:
            assert self.returned[channel] == self.returns[channel], "a return comes before its confirm"

    # -- what it does

    def message(self, channel: int | None = None, size: int | None = None) -> bytes:
        """The frames of one; it counts as sent."""
        chance = self.chance
        channel = chance.choice(CHANNELS) if channel is None else channel
        self.tags[channel] += 1
        target = chance.random()
        if target < 0.75 or size is not None:
            body = b"%d " % len(self.sent)
            body += bytes(chance.choice([0, 10, 600, 3000]) if size is None else size)
            self.sent.append(body)
            self.places[channel, self.tags[channel]] = len(self.sent)
            return publish(self.queue, body, channel=channel, properties=PERSISTENT)
        if target < 0.85:
            return publish(self.transient, b"not kept", channel=channel)
        mandatory = target < 0.95
        self.returns[channel] += mandatory
        return publish("nowhere", b"lost", channel=channel, mandatory=mandatory, properties=PERSISTENT)

    def one_by_one(self) -> None:
        channel = self.chance.choice(CHANNELS)
        for _ in range(self.chance.randint(1, 30)):
            self.peer.send(self.message(channel))
            self.wait_confirms(channel)

    def many(self) -> None:
        self.peer.send(b"".join(self.message() for _ in range(self.chance.randint(2, 30))))
        if self.chance.random() < 0.7:
            self.wait_confirms()

    def in_pieces(self) -> None:
        data = self.message()
        while data:
            cut = self.chance.choice([1, 7, 8, len(data) // 2, len(data) - 1, len(data)])
            cut = max(1, cut)
            self.peer.send(data[:cut])
            data = data[cut:]
            if self.chance.random() < 0.1:
                self.watched.do(len, "round the loop")
        self.wait_confirms()

    def one_and_a_half(self) -> None:
        data = self.message() + self.message()
        cut = len(data) - self.chance.randint(1, 40)
        self.peer.send(data[:cut])
        self.peer.send(data[cut:])
        self.wait_confirms()

    def large(self) -> None:
        self.peer.send(self.message(size=self.chance.choice([65_000, 66_000, 131_064, 262_144, 700_000])))
        self.wait_confirms()

    def something_else(self) -> None:
        channel = self.chance.choice(CHANNELS)
        self.peer.send(HEARTBEAT_FRAME)
        before = self.message(channel) if self.chance.random() < 0.5 else b""
        after = self.message(channel) if self.chance.random() < 0.5 else b""
        method, reply = self.chance.choice(
            [
                (methods.BasicQos(prefetch_count=10), methods.BasicQosOk),
                (methods.ChannelFlow(active=True), methods.ChannelFlowOk),
                (methods.QueueDeclare(queue=self.queue, durable=True), methods.QueueDeclareOk),
                (methods.QueueBind(self.queue, "amq.fanout", ""), methods.QueueBindOk),
                (methods.QueueUnbind(self.queue, "amq.fanout", ""), methods.QueueUnbindOk),
            ]
        )
        self.peer.send(before + method_frame(channel, method) + after)
        self.wait(reply)
        self.wait_confirms()

    def get(self) -> None:
        expected = self.taken < len(self.sent)
        self.wait_confirms()
        got = self.call(methods.BasicGet(queue=self.queue, no_ack=True), methods.Method)
        if expected:
            assert isinstance(got, methods.BasicGetOk)
        else:
            assert isinstance(got, methods.BasicGetEmpty)

    def consume(self) -> None:
        self.wait_confirms()
        self.call(
            methods.BasicConsume(queue=self.queue, consumer_tag="c", no_ack=True), methods.BasicConsumeOk
        )
        for _ in range(self.chance.randint(1, 10)):
            self.peer.send(self.message())
            self.wait_confirms()
        self.call(methods.BasicCancel(consumer_tag="c"), methods.BasicCancelOk)
        assert self.taken <= len(self.sent)

    def transaction(self) -> None:
        self.wait_confirms()
        for _ in range(self.chance.randint(1, 5)):
            body = b"%d in a transaction" % len(self.sent)
            self.sent.append(body)
            self.peer.send(publish(self.queue, body, channel=TX, properties=PERSISTENT))
        self.call(methods.TxCommit(), methods.TxCommitOk, TX)
        self.safe = len(self.sent)

    def others(self) -> None:
        name = f"other.{self.chance.randint(1, 3)}"
        self.peer.send(self.message())
        self.other.call(methods.QueueDeclare(queue=name, durable=True), methods.QueueDeclareOk)
        self.other.send(publish(name, b"of others", properties=PERSISTENT))
        self.other.call(methods.QueueDelete(queue=name), methods.QueueDeleteOk)
        self.wait_confirms()

    def purge(self) -> None:
        self.wait_confirms()
        self.other.call(methods.QueuePurge(queue=self.queue), methods.QueuePurgeOk)
        self.taken = self.safe = len(self.sent)

    def alarm(self) -> None:
        server = self.watched.app.server
        self.wait_confirms()

        def raise_alarm() -> None:
            self.watched.app.turn.alarmed = True
            server.alarm_reason = lambda: "a test"

        def clear() -> None:
            self.watched.app.turn.alarmed = False
            server.alarm_reason = lambda: ""
            server.alarms_changed()

        if self.chance.random() < 0.5:
            self.peer.send(self.message())
        self.watched.do(raise_alarm)
        self.peer.send(self.message())
        for _ in range(self.chance.randint(0, 3)):
            self.watched.do(len, "round the loop")
        self.watched.do(clear)
        self.wait_confirms()

    def does_not_read(self) -> None:
        """Until its buffers and ours are full."""
        self.wait_confirms()
        count = self.chance.randint(1, 3)
        for _ in range(count):
            self.peer.send(self.message(size=900_000))
        self.wait_confirms()
        expected = min(len(self.sent) - self.taken, 12)
        asked = method_frame(1, methods.BasicGet(queue=self.queue, no_ack=True)) * expected
        self.peer.send(asked)
        channel = self.chance.choice(CHANNELS)
        for _ in range(self.chance.randint(1, 5)):
            self.peer.send(self.message(channel))
        taken = self.taken + expected
        while self.taken < taken:
            assert self.next() is not None
        self.wait_confirms()

    def live(self) -> None:
        doing = [
            *[self.one_by_one] * 6,
            *[self.many] * 2,
            *[self.in_pieces] * 2,
            self.one_and_a_half,
            self.large,
            self.something_else,
            self.get,
            self.consume,
            self.transaction,
            self.others,
            self.purge,
            self.alarm,
            self.does_not_read,
        ]
        for _ in range(ACTIONS):
            action = self.chance.choice(doing)
            action()
        self.end()

    # -- its end

    def end(self) -> None:
        self.one_by_one()
        chance = self.chance
        how = chance.choice(
            ["close", "close behind", "reset", "reset in the midst", "half", "mistake", "channel"]
        )
        if how == "close":
            self.peer.send(method_frame(0, methods.ConnectionClose(200, "bye", 0, 0)))
            self.wait(methods.ConnectionCloseOk)
            assert self.next() is None
        elif how == "close behind":
            self.peer.send(self.message() + method_frame(0, methods.ConnectionClose(200, "bye", 0, 0)))
            self.wait(methods.ConnectionCloseOk)
            assert self.next() is None
        elif how == "reset":
            self.peer.send(self.message())
            self.reset()
        elif how == "reset in the midst":
            data = self.message()
            self.peer.send(data[: chance.randint(1, len(data) - 1)])
            self.reset()
        elif how == "half":
            data = self.message()
            self.peer.send(data[: chance.randint(1, len(data) - 1)])
            self.peer.socket.shutdown(socket.SHUT_WR)
            while self.next() is not None:
                pass
        elif how == "mistake":
            self.peer.send(self.message() + b"\x01\x00\x01\x00\x00\x00\x04xxxxy")
            while (method := self.next()) is not None:
                if isinstance(method, methods.ConnectionClose):
                    assert method.reply_code == 501
                    break
        else:
            channel = chance.choice(CHANNELS)
            self.peer.send(publish("x", b"lost", channel=channel, exchange="not there"))
            while not isinstance(self.next(), methods.ChannelClose):
                pass
        self.peer.socket.close()
        self.other.socket.close()
        self.compare()

    def reset(self) -> None:
        self.peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.peer.socket.close()

    def compare(self) -> None:
        def bodies() -> list[bytes]:
            queue = self.watched.app.broker.vhosts["/"].queues[self.queue]
            return [bytes(message.body) for message in queue.messages()]

        def gone() -> bool:
            return not self.watched.app.server.protocols

        eventually(lambda: self.watched.do(gone))
        found = self.watched.do(bodies)
        assert isinstance(found, list)
        assert found == self.sent[self.taken : self.taken + len(found)]
        assert self.taken + len(found) >= self.safe
        assert self.taken + len(found) >= len(self.sent) - 31


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--crash-seed")
        seeds = range(metafunc.config.getoption("--cycles") // 6) if seed is None else [seed]
        metafunc.parametrize("seed", seeds)


def test_all_it_says_is_heard(watched: Watched, seed: int) -> None:
    before = watched.answered_by_the_loop
    History(watched, seed).live()
    assert watched.answered_by_the_loop > before, "it was stayed with, sometimes"
