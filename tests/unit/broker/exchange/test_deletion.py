"""Exchanges and queues with many bindings are deleted: gone at once for everybody, unbound in pieces."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

import pytest

from embermq.broker.events import Event
from embermq.broker.exchange.deletion import PIECE_COUNT
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import VirtualHost
from tests.support.domain import Loop, message, new_queue, new_vhost
from tests.support.stored_domain import StoredBroker

COUNT = 5 * PIECE_COUNT + 7


class World:
    """A turn has time for one piece."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.loop.turn.incremental_work.share_s = 0.0
        self.vhost = new_vhost(self.loop)
        self.told: list[str] = []
        self.vhost.events.listen(self.hear)

    def hear(self, event: Event) -> None:
        self.told.append(f"{event.actor} {event.key}")

    @property
    def is_under_way(self) -> bool:
        return bool(self.vhost.binding_removal.things)


@pytest.fixture
def world() -> World:
    return World()


def new_exchange(
    vhost: VirtualHost, name: str, *, type: str = "direct", auto_delete: bool = False
) -> Exchange:
    return vhost.declare_exchange(
        name, type, durable=True, auto_delete=auto_delete, internal=False, arguments={}
    )


def bind_often(vhost: VirtualHost, source: Exchange, destination: Queue | Exchange) -> None:
    for number in range(COUNT):
        vhost.bind(source, destination, f"key-{number}", {})


def reached(exchange: Exchange, key: str) -> list[str]:
    return [queue.name for queue in exchange.resolve(key, None)[0]]


LAST = f"key-{COUNT - 1}"


class TestQueue:
    def test_is_gone_at_once_and_its_bindings_follow(self, world: World) -> None:
        vhost = world.vhost
        exchange, queue = new_exchange(vhost, "x"), new_queue(vhost)
        bind_often(vhost, exchange, queue)
        route = exchange.route(b"", LAST)
        vhost.delete_queue(queue)
        assert world.is_under_way and len(exchange.bindings) == COUNT - PIECE_COUNT
        assert "q" not in vhost.queues
        assert route.version != exchange.version, "whoever knew a way asks again"
        assert reached(exchange, LAST) == [], "although that binding is still here"
        world.loop.run()
        assert not world.is_under_way and not exchange.bindings and not vhost.queue_bindings

    def test_the_alternate_exchange_gets_what_it_would_have_got(self, world: World) -> None:
        vhost = world.vhost
        new_queue(vhost, "spare")
        vhost.bind(new_exchange(vhost, "other", type="fanout"), vhost.queue("spare"), "", {})
        exchange = vhost.declare_exchange(
            "x",
            "direct",
            durable=False,
            auto_delete=False,
            internal=False,
            arguments={"alternate-exchange": "other"},
        )
        queue = new_queue(vhost)
        bind_often(vhost, exchange, queue)
        vhost.delete_queue(queue)
        assert world.is_under_way and reached(exchange, LAST) == ["spare"]

    def test_one_of_the_same_name_has_none_of_the_bindings(self, world: World) -> None:
        vhost = world.vhost
        exchange = new_exchange(vhost, "x")
        old = new_queue(vhost)
        bind_often(vhost, exchange, old)
        vhost.delete_queue(old)
        new = new_queue(vhost)
        assert not world.is_under_way and not exchange.bindings
        vhost.bind(exchange, new, LAST, {})
        world.loop.run()
        assert reached(exchange, LAST) == ["q"] and reached(exchange, "key-0") == []

    def test_letters_of_a_deleted_queue_do_not_come_back_to_it(self, world: World) -> None:
        vhost = world.vhost
        exchange = new_exchange(vhost, "x")
        queue = new_queue(vhost, arguments={"x-dead-letter-exchange": "x"})
        bind_often(vhost, exchange, queue)
        for number in (0, COUNT - 1):
            queue.append(message(b"letter", key=f"key-{number}"))
        vhost.delete_queue(queue)
        world.loop.run()
        assert (queue.published_count, queue.ready_count) == (2, 0)

    def test_an_auto_delete_exchange_goes_with_the_last_of_them(self, world: World) -> None:
        vhost = world.vhost
        exchange, queue = new_exchange(vhost, "x", auto_delete=True), new_queue(vhost)
        bind_often(vhost, exchange, queue)
        vhost.delete_queue(queue)
        assert "x" in vhost.exchanges
        world.loop.run()
        assert "x" not in vhost.exchanges

    def test_events_are_told_in_order_and_of_whoever_asked(self, world: World) -> None:
        vhost = world.vhost
        exchange, queue = new_exchange(vhost, "x"), new_queue(vhost)
        bind_often(vhost, exchange, queue)
        world.told.clear()
        with vhost.events.acting("ann"):
            vhost.delete_queue(queue)
        assert world.is_under_way and vhost.events.actor != "ann"
        world.loop.run()
        assert world.told == ["ann binding.deleted"] * COUNT + ["ann queue.deleted"]


class TestExchange:
    def test_is_gone_at_once_and_its_bindings_follow(self, world: World) -> None:
        vhost = world.vhost
        exchange, queue = new_exchange(vhost, "x"), new_queue(vhost)
        bind_often(vhost, exchange, queue)
        vhost.delete_exchange(exchange)
        assert world.is_under_way and "x" not in vhost.exchanges
        assert len(vhost.queue_bindings[queue]) == COUNT - PIECE_COUNT
        world.loop.run()
        assert not world.is_under_way and not vhost.queue_bindings[queue]

    def test_nothing_is_routed_through_it_any_more(self, world: World) -> None:
        vhost = world.vhost
        source, exchange, queue = new_exchange(vhost, "source"), new_exchange(vhost, "x"), new_queue(vhost)
        bind_often(vhost, source, exchange)
        vhost.bind(exchange, queue, LAST, {})
        assert reached(source, LAST) == ["q"]
        vhost.delete_exchange(exchange)
        assert world.is_under_way and source.bindings and reached(source, LAST) == []
        world.loop.run()
        assert not source.bindings and not exchange.sources

    def test_a_long_chain_goes_as_one(self, world: World) -> None:
        vhost = world.vhost
        names = [f"x{number}" for number in range(500)]
        chain = [new_exchange(vhost, name, auto_delete=True) for name in names]
        for source, destination in pairwise(chain):
            vhost.bind(source, destination, "", {})
        vhost.delete_exchange(chain[-1])
        assert world.is_under_way
        again = new_exchange(vhost, names[-2], auto_delete=True)
        assert not world.is_under_way and not again.bindings
        assert [name for name in names if name in vhost.exchanges] == [names[-2]]

    def test_bound_to_itself(self, world: World) -> None:
        exchange = new_exchange(world.vhost, "x")
        world.vhost.bind(exchange, exchange, "k", {})
        world.told.clear()
        world.vhost.delete_exchange(exchange)
        assert [told.split()[1] for told in world.told] == ["binding.deleted", "exchange.deleted"]
        world.vhost.delete_exchange(exchange)
        assert len(world.told) == 2, "a second time nothing happens"


def test_bindings_that_a_crash_left_are_removed_for_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored = StoredBroker(tmp_path)
    exchange, queue = new_exchange(stored.vhost, "x"), new_queue(stored.vhost, durable=True)
    bind_often(stored.vhost, exchange, queue)
    stored.loop.turn.incremental_work.share_s = 0.0
    stored.vhost.delete_queue(queue)
    assert stored.vhost.binding_removal.things
    stored.data.close()
    with caplog.at_level(logging.WARNING):
        stored = StoredBroker(tmp_path)
    assert caplog.text.count("a binding without its ends is removed") == COUNT - PIECE_COUNT
    new_queue(stored.vhost, durable=True)
    with stored.restarted() as stored:
        assert "q" in stored.vhost.queues and not stored.vhost.exchanges["x"].bindings
