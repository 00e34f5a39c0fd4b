"""Who is company for those who flood the broker, and who is one of these."""

from __future__ import annotations

from typing import Any, cast

import pytest

from embermq.amqp.connection.connection import Connection
from embermq.amqp.connection.read_fairness import Inflow
from embermq.amqp.connection.transport import Limits
from embermq.broker.broker import Broker
from embermq.broker.turn import Turn
from embermq.wire import methods

WHOLE = 512 * 1024


class World:
    """Connections without sockets, and a clock to be set."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.turn = Turn(lambda action: None, lambda: self.now_s)
        self.broker = Broker(self.turn)

    def inflow(self) -> Inflow:
        return Inflow(self.connection())

    def connection(self) -> Connection:
        shell = cast(Any, None)
        connection = Connection(self.broker, self.turn, shell, Limits(), 1, "127.0.0.1", "a connection")
        connection.current_channel = 1
        connection.current_method = methods.BasicPublish.ID
        return connection

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        self.turn.refresh()


@pytest.fixture
def world() -> World:
    return World()


def test_who_says_little_is_company_for_a_while(world: World) -> None:
    quiet, flood = world.inflow(), world.inflow()
    assert not flood.has_company()
    quiet.said_little(100)
    assert flood.has_company()
    world.pass_s(1.0)
    assert not flood.has_company()


@pytest.mark.parametrize(
    ("channel", "method"),
    [(0, 0), (1, methods.BasicAck.ID)],
    ids=["a heartbeat", "an ack"],
)
def test_who_waits_for_nothing_is_no_company(world: World, channel: int, method: int) -> None:
    connection = world.connection()
    connection.current_channel, connection.current_method = channel, method
    inflow = Inflow(connection)
    inflow.said_little(100)
    assert not inflow.has_company()


def test_little_behind_much_is_a_part_of_that(world: World) -> None:
    inflow = world.inflow()
    inflow.feed_much(bytearray(), 0, WHOLE)
    world.pass_s(0.9)
    inflow.said_little(100)
    assert not inflow.has_company()
    world.pass_s(0.2)
    inflow.said_little(100)
    assert inflow.has_company()


def test_much_in_small_pieces_is_much(world: World) -> None:
    inflow = world.inflow()
    for _ in range(40):
        inflow.said_little(10_000)
    world.pass_s(0.5)
    assert not inflow.has_company(), "it was, before it had sent so much"
    inflow.said_little(100)
    assert not inflow.has_company()


def test_who_floods_alone_is_read_from_in_large_pieces(world: World) -> None:
    inflow = world.inflow()
    inflow.feed_much(bytearray(), 0, WHOLE)
    assert inflow.read_bytes == WHOLE


def test_a_connection_is_one_flood_in_a_turn_however_often_it_is_read_from(world: World) -> None:
    one, other = world.inflow(), world.inflow()
    for _ in range(3):
        one.feed_much(bytearray(), 0, WHOLE)
    assert world.turn.company.floods == 1
    other.feed_much(bytearray(), 0, WHOLE)
    assert world.turn.company.floods == 2
