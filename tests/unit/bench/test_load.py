"""The load generator counts exactly: against a real broker, and against partners that break the rules.

No timing is asserted anywhere: these tests say that the instrument reads right, not how fast anything is.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.build import load_module
from bench.ceiling import relayed_ns
from bench.frames import deliver, frame, method, publication, short
from bench.rig import Rig
from tools.brokers import Broker

LoadError = load_module("load").LoadError


def content(number: int, *, sender: int = 0, body_bytes: int = 16) -> bytes:
    """What a broker sends after basic.deliver."""
    body = (sender << 48 | number).to_bytes(8, "big") + bytes(body_bytes - 8)
    header = frame(2, 1, b"\x00\x3c\x00\x00" + body_bytes.to_bytes(8, "big") + b"\x00\x00")
    return header + frame(3, 1, body)


def delivery(number: int, tag: int) -> bytes:
    head = bytearray(deliver(0, "", "bench"))
    head[18:26] = tag.to_bytes(8, "big")
    return bytes(head) + content(number)


@pytest.fixture
def wire() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Our end and the end of a broker played by the test."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def consuming(ours: socket.socket, **roles: Any) -> Any:
    load = load_module("load").Load(**roles)
    load.consume_on(load.add_link(ours.fileno()), 0)
    return load


def test_every_message_through_a_broker_is_counted(broker: Broker) -> None:
    with Rig(broker) as rig:
        rig.declare(["bench-test"])
        rig.consumer({0: "bench-test"})
        rig.publisher([("", "bench-test")], body_bytes=16, limit=5000)
        metrics = rig.measure().metrics
        assert rig.admin.depth("bench-test") == 0
    assert (metrics["published"], metrics["delivered"]) == (5000, 5000)
    assert metrics["delivered_bytes"] == 5000 * 16


def test_acks_and_confirms_are_complete(broker: Broker) -> None:
    with Rig(broker) as rig:
        rig.declare(["bench-test"])
        rig.consumer({0: "bench-test"}, ack_every=50, prefetch=1000)
        rig.publisher([("", "bench-test")], body_bytes=1024, limit=3333, window=500)
        metrics = rig.measure().metrics
    assert (metrics["delivered"], metrics["confirmed"], metrics["acked"]) == (3333, 3333, 3333)


def test_bodies_of_several_frames_count_once(broker: Broker) -> None:
    """Published in one frame of 100 kB; a broker may cut it as it likes on the way out."""
    with Rig(broker) as rig:
        rig.declare(["bench-test"])
        rig.consumer({0: "bench-test"})
        rig.publisher([("", "bench-test")], body_bytes=100_000, limit=20)
        metrics = rig.measure().metrics
    assert (metrics["delivered"], metrics["delivered_bytes"]) == (20, 2_000_000)


def test_a_fan_of_ten_is_ten_deliveries_each_in_order(broker: Broker) -> None:
    names = [f"bench-test-{i}" for i in range(10)]
    with Rig(broker, slots=10, outstanding_max=1000) as rig:
        rig.declare_exchange("bench-test-fan", "fanout")
        rig.declare(names)
        rig.admin.bind("bench-test-fan", [(name, "") for name in names])
        rig.consumer(dict(enumerate(names)))
        rig.publisher([("bench-test-fan", "x")], body_bytes=16, fan=10, limit=700)
        metrics = rig.measure().metrics
    assert (metrics["published"], metrics["delivered"]) == (700, 7000)


def test_several_publishers_into_one_queue(broker: Broker) -> None:
    with Rig(broker, senders=3) as rig:
        rig.declare(["bench-test"])
        rig.consumer({0: "bench-test"}, ack_every=10, prefetch=100)
        for _ in range(3):
            rig.publisher([("", "bench-test")], body_bytes=16, limit=100, window=1)
        metrics = rig.measure().metrics
    assert (metrics["delivered"], metrics["confirmed"]) == (300, 300)


def test_open_loop_publishes_all_that_was_due_and_times_each(broker: Broker) -> None:
    with Rig(broker, latencies=1000) as rig:
        rig.declare(["bench-test"])
        rig.consumer({0: "bench-test"})
        rig.publisher([("", "bench-test")], body_bytes=16, limit=400, rate=2000, window=1000)
        rig.measure()
        deliveries, confirms = rig.load.latencies_ns(), rig.load.confirm_latencies_ns()
        lags = rig.load.lags_ns()
    assert len(deliveries) == len(confirms) == len(lags) == 400
    assert all(lag < latency for lag, latency in zip(lags, deliveries, strict=True)), "it is a part of it"
    # A time taken before the clock began would show as the age of the machine.
    assert all(0 < latency < 60e9 for latency in deliveries + confirms)


def test_a_refusal_is_reported_with_the_brokers_own_words(broker: Broker) -> None:
    with Rig(broker) as rig:
        rig.publisher([("no-such-exchange", "key")], body_bytes=16, limit=10, fan=0, window=1)
        with pytest.raises(LoadError, match="404 NOT_FOUND"):
            rig.measure()


@pytest.mark.parametrize(
    ("numbers", "complaint"),
    [((0, 2), "out of order"), ((0, 1, 1), "out of order"), ((1, 0), "out of order")],
    ids=["lost", "doubled", "reordered"],
)
def test_what_a_broker_must_not_do_is_noticed(
    wire: tuple[socket.socket, socket.socket], numbers: tuple[int, ...], complaint: str
) -> None:
    ours, theirs = wire
    theirs.sendall(b"".join(delivery(number, tag) for tag, number in enumerate(numbers, 1)))
    with pytest.raises(LoadError, match=complaint):
        consuming(ours).run(waiting=len(numbers))


def test_one_message_too_many_is_noticed(wire: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = wire
    theirs.sendall(delivery(0, 1) + delivery(1, 2))
    with pytest.raises(LoadError, match="more messages than published"):
        consuming(ours).run(waiting=1)


def test_a_missing_message_ends_the_run(wire: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = wire
    theirs.sendall(delivery(0, 1))
    with pytest.raises(LoadError, match=r"no progress .*delivered 1 of 2"):
        consuming(ours).run(waiting=2, stall_seconds=0.2)


def test_frames_may_arrive_in_any_pieces(wire: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = wire
    stream = b"".join(delivery(number, number + 1) for number in range(20))

    def dribble() -> None:
        for start in range(0, len(stream), 7):
            theirs.send(stream[start : start + 7])

    sender = threading.Thread(target=dribble)
    sender.start()
    result = consuming(ours).run(waiting=20)
    sender.join()
    assert result["delivered"] == 20


def ack(tag: int, *, multiple: bool) -> bytes:
    return method(60, 80, tag.to_bytes(8, "big") + bytes([multiple]))


@pytest.mark.parametrize(
    "confirms",
    [
        [ack(10, multiple=True)],
        [ack(tag, multiple=False) for tag in (3, 1, 2, 10, 9, 8, 4, 5, 6, 7)],
        [ack(2, multiple=False), ack(5, multiple=False), ack(6, multiple=True), ack(10, multiple=True)],
    ],
    ids=["at once", "singly and shuffled", "mixed"],
)
def test_confirms_are_counted_once_in_any_mixture(
    wire: tuple[socket.socket, socket.socket], confirms: list[bytes]
) -> None:
    ours, theirs = wire
    block, body_at = publication("", "bench", 16, persistent=False)
    load = load_module("load").Load()
    load.publish_on(load.add_link(ours.fileno()), [block], [body_at], [0], limit=10, window=10)

    def play_broker() -> None:
        left = 10 * len(block)
        while left:
            left -= len(theirs.recv(left))
        theirs.sendall(b"".join(confirms))

    partner = threading.Thread(target=play_broker)
    partner.start()
    result = load.run()
    partner.join()
    assert (result["published"], result["confirmed"]) == (10, 10)


def broken_frame_end() -> bytes:
    return delivery(0, 1)[:-1] + b"\x00"


def connection_close() -> bytes:
    return method(10, 50, b"\x01\x40" + short("CONNECTION_FORCED - bye") + bytes(4), channel=0)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [(broken_frame_end, "malformed frame"), (connection_close, "320 CONNECTION_FORCED - bye")],
)
def test_the_end_of_a_conversation_is_explained(
    wire: tuple[socket.socket, socket.socket], make: Callable[[], bytes], complaint: str
) -> None:
    ours, theirs = wire
    theirs.sendall(make())
    with pytest.raises(LoadError, match=complaint):
        consuming(ours).run(waiting=5)


def test_a_lost_connection_is_noticed(wire: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = wire
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(LoadError, match="connection lost"):
        consuming(ours).run(waiting=1)


def test_the_echo_gives_back_every_message() -> None:
    kernel = load_module("echo")
    publisher, publisher_far = socket.socketpair()
    consumer, consumer_far = socket.socketpair()
    block, body_at = publication("", "bench", 64, persistent=False)
    echoed: list[int] = []

    def play_broker() -> None:
        head = deliver(0, "", "bench")
        echoed.append(kernel.echo(publisher_far.fileno(), consumer_far.fileno(), head))

    partner = threading.Thread(target=play_broker)
    partner.start()
    with publisher, consumer, publisher_far, consumer_far:
        load = load_module("load").Load()
        load.publish_on(load.add_link(publisher.fileno()), [block], [body_at], [1], limit=20_000)
        load.consume_on(load.add_link(consumer.fileno()), 0)
        result = load.run()
        publisher.shutdown(socket.SHUT_RDWR)
        partner.join()
    assert result["delivered"] == 20_000
    assert echoed == [20_000]


@pytest.mark.parametrize("rate", [0, 2000], ids=["one in flight", "open loop"])
def test_the_floor_is_measured_with_the_same_instrument(rate: int) -> None:
    latencies = relayed_ns(0.1, rate)
    assert latencies and all(0 < latency < 60e9 for latency in latencies)
