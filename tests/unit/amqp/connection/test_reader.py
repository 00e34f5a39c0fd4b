"""Which connections are bulk, which are interactive, and what a bulk connection gets beside the others."""

from __future__ import annotations

from typing import Any, cast

import pytest

from embermq.amqp.connection.connection import Connection
from embermq.amqp.connection.reader import Reader
from embermq.amqp.connection.state import OPEN, Pause
from embermq.amqp.connection.transport import Limits
from embermq.broker.broker import Broker
from embermq.broker.turn import Turn
from embermq.wire import methods

WHOLE = 512 * 1024


class Socket:
    """A transport that reads nothing by itself."""

    def __init__(self) -> None:
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def later(self, after_s: float, action: object) -> None:
        pass


class World:
    """Connections without sockets, and a clock to be set."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.turn = Turn(lambda action: None, lambda: self.now_s)
        self.broker = Broker(self.turn)
        self.buffer = bytearray(WHOLE)

    def reader(self, channel: int = 1, method: int = methods.BasicPublish.ID) -> Reader:
        return Reader(self.connection(channel, method), self.buffer)

    def connection(self, channel: int = 1, method: int = methods.BasicPublish.ID) -> Connection:
        transport = cast(Any, Socket())
        connection = Connection(self.broker, self.turn, transport, Limits(), 1, "127.0.0.1", "a connection")
        connection.state = OPEN
        connection.frame_size_max = 2 * WHOLE  # one frame, of which a part has come
        self.buffer[:11] = bytes([1, *channel.to_bytes(2, "big"), *WHOLE.to_bytes(4, "big")]) + bytes(4)
        connection.current_channel = channel
        connection.current_method = method
        return connection

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        self.turn.refresh()

    def has_interactive(self) -> bool:
        return self.turn.fairness.has_interactive(self.turn.now_ms)


@pytest.fixture
def world() -> World:
    return World()


def read(reader: Reader, size: int) -> None:
    reader.buffer_updated(size)
    reader.unfinished = b""


def test_a_small_read_is_interactive_for_a_while(world: World) -> None:
    reader = world.reader()
    assert not world.has_interactive()
    read(reader, 100)
    assert world.has_interactive()
    world.pass_s(1.0)
    assert not world.has_interactive()


@pytest.mark.parametrize(
    ("channel", "method"), [(0, 0), (1, methods.BasicAck.ID)], ids=["a heartbeat", "an ack"]
)
def test_what_is_not_answered_is_not_interactive(world: World, channel: int, method: int) -> None:
    world.reader(channel, method).buffer_updated(3)  # less than a frame's head: these stay
    assert not world.has_interactive()


@pytest.mark.parametrize(("size", "count"), [(WHOLE, 5), (10_000, 300)], ids=["large reads", "small reads"])
def test_a_connection_that_sent_much_is_bulk_until_the_second_after_the_next(
    world: World, size: int, count: int
) -> None:
    reader = world.reader()
    for _ in range(count):
        read(reader, size)
    world.pass_s(1.1)
    assert not world.has_interactive(), "it may have been, before it had sent so much"
    read(reader, 100)
    assert not world.has_interactive()
    world.pass_s(1.1)
    read(reader, 100)
    assert world.has_interactive()


def test_bulk_alone_is_read_in_large_shares(world: World) -> None:
    reader = world.reader()
    assert reader.share == 16 * 1024
    read(reader, WHOLE)
    assert reader.share == WHOLE


def test_a_connection_counts_once_in_a_turn_however_often_it_is_read_from(world: World) -> None:
    one, other = world.reader(), world.reader()
    for _ in range(3):
        read(one, WHOLE)
    assert world.turn.fairness.bulk_count == 1
    read(other, WHOLE)
    assert world.turn.fairness.bulk_count == 2


def test_after_a_large_read_a_connection_pauses_until_the_turn_has_ended(world: World) -> None:
    connection = world.connection()
    reader = Reader(connection, world.buffer)
    read(reader, 100)
    assert not connection.pauses and connection.transport.reading
    read(reader, WHOLE // 4)
    assert connection.pauses == Pause.TURN and not connection.transport.reading
    connection.end_rest()
    assert not connection.pauses and connection.transport.reading


def test_a_connection_is_read_from_when_no_reason_to_pause_is_left(world: World) -> None:
    connection = world.connection()
    connection.pause(Pause.THROTTLE)
    connection.pause(Pause.OUTPUT)
    connection.resume(Pause.THROTTLE)
    assert connection.pauses == Pause.OUTPUT and not connection.transport.reading
    connection.resume(Pause.OUTPUT)
    assert not connection.pauses and connection.transport.reading
