"""Declaring and deleting, and everything that goes with what is deleted."""

from __future__ import annotations

import pytest

from embermq.broker.definitions import Body, DefinitionStore
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.vhost import VirtualHost, generated_name
from embermq.errors import (
    AccessRefused,
    AMQPError,
    CommandInvalid,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from tests.support.domain import Loop, Taker, message, new_queue, new_vhost


class Noted(DefinitionStore):
    """Definitions in memory: what a restart would find."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Body] = {}

    def put(self, kind: str, vhost: str, name: str, body: Body) -> None:
        self.kept[kind, name] = body

    def delete(self, kind: str, vhost: str, name: str) -> None:
        del self.kept[kind, name]

    def kinds(self) -> list[str]:
        return sorted(kind for kind, _ in self.kept)


@pytest.fixture
def definitions() -> Noted:
    return Noted()


@pytest.fixture
def vhost(definitions: Noted) -> VirtualHost:
    return new_vhost(Loop(), definitions)


def declare(vhost: VirtualHost, name: str, type: str = "fanout", **more: object) -> Exchange:
    settings: dict[str, object] = {"durable": False, "auto_delete": False, "internal": False, "arguments": {}}
    return vhost.declare_exchange(name, type, **(settings | more))  # type: ignore[arg-type]


def refusal(kind: type[AMQPError], action: object, *arguments: object, **named: object) -> str:
    assert callable(action)
    with pytest.raises(kind) as caught:
        action(*arguments, **named)
    return caught.value.detail


# -- exchanges


def test_a_fresh_vhost_has_what_the_specification_demands(vhost: VirtualHost) -> None:
    assert {exchange.name: exchange.type for exchange in vhost.exchanges.values()} == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
    }
    assert all(exchange.durable for exchange in vhost.exchanges.values())


def test_declaring_again_gives_the_same_exchange_or_says_what_differs(vhost: VirtualHost) -> None:
    first = declare(vhost, "x")
    assert declare(vhost, "x") is first
    differences: list[tuple[dict[str, object], str]] = [
        ({"type": "direct"}, "inequivalent arg 'type' for {}: received 'direct' but current is 'fanout'"),
        ({"durable": True}, "inequivalent arg 'durable' for {}: received 'true' but current is 'false'"),
        (
            {"auto_delete": True},
            "inequivalent arg 'auto_delete' for {}: received 'true' but current is 'false'",
        ),
        ({"internal": True}, "inequivalent arg 'internal' for {}: received 'true' but current is 'false'"),
        (
            {"arguments": {"alternate-exchange": "y"}},
            (
                "inequivalent arg 'alternate-exchange' for {}: received the value 'y' of type 'longstr' "
                "but current is none"
            ),
        ),
    ]
    for difference, sentence in differences:
        said = refusal(PreconditionFailed, declare, vhost, "x", **({"type": "fanout"} | difference))
        assert said == sentence.format("exchange 'x' in vhost '/'")


def test_names_and_types_that_are_not_to_be_had(vhost: VirtualHost) -> None:
    assert "reserved prefix" in refusal(AccessRefused, declare, vhost, "amq.mine")
    assert declare(vhost, "amq.direct", "direct", durable=True) is vhost.exchanges["amq.direct"]
    assert refusal(CommandInvalid, declare, vhost, "x", "no-such") == "unknown exchange type 'no-such'"
    assert refusal(CommandInvalid, declare, vhost, "x", "") == "invalid exchange type ''"
    assert refusal(NotFound, vhost.exchange, "x") == "no exchange 'x' in vhost '/'"
    assert "invalid type 'signedint'" in refusal(
        PreconditionFailed, declare, vhost, "x", arguments={"alternate-exchange": 1}
    )
    assert "x" not in vhost.exchanges


def test_deleting_exchanges(vhost: VirtualHost) -> None:
    exchange = declare(vhost, "x")
    vhost.bind(exchange, new_queue(vhost), "", {})
    assert refusal(PreconditionFailed, vhost.delete_exchange_named, "x", True).endswith("in use")
    vhost.delete_exchange_named("x", False)
    assert "x" not in vhost.exchanges
    vhost.delete_exchange_named("x", False)
    assert "not allowed" in refusal(AccessRefused, vhost.delete_exchange_named, "amq.topic", False)


def test_auto_delete_exchanges_go_with_their_last_binding(vhost: VirtualHost) -> None:
    exchange, queue = declare(vhost, "x", auto_delete=True), new_queue(vhost)
    assert "x" in vhost.exchanges, "not before it had a binding"
    vhost.bind(exchange, queue, "1", {})
    vhost.bind(exchange, queue, "2", {})
    vhost.unbind(exchange, queue, "1", {})
    assert "x" in vhost.exchanges
    vhost.unbind(exchange, queue, "2", {})
    assert "x" not in vhost.exchanges


def test_a_chain_of_auto_delete_exchanges_falls_with_its_last_queue(
    vhost: VirtualHost, definitions: Noted
) -> None:
    """Thousands deep, so a recursion would not do."""
    queue = new_queue(vhost, durable=True)
    before = declare(vhost, "x0", auto_delete=True, durable=True)
    for number in range(1, 1500):
        exchange = declare(vhost, f"x{number}", auto_delete=True, durable=True)
        vhost.bind(before, exchange, "", {})
        before = exchange
    vhost.bind(before, queue, "", {})
    stays = declare(vhost, "stays")
    vhost.bind(stays, vhost.exchanges["x700"], "", {})
    vhost.delete_queue(queue)
    while vhost.turn.incremental_work.drain():
        pass
    assert [name for name in vhost.exchanges if name.startswith("x")] == []
    assert stays.bindings == {} and "stays" in vhost.exchanges
    assert definitions.kept == {}


def test_auto_delete_exchanges_in_a_cycle_go_together(vhost: VirtualHost) -> None:
    a, b = (declare(vhost, name, auto_delete=True) for name in "ab")
    vhost.bind(a, b, "", {})
    vhost.bind(b, a, "", {})
    vhost.bind(a, a, "", {})
    vhost.delete_exchange(b)
    assert "b" not in vhost.exchanges
    vhost.unbind(a, a, "", {})
    assert "a" not in vhost.exchanges


# -- queues


def test_declaring_a_queue_again(vhost: VirtualHost) -> None:
    queue = new_queue(vhost)
    assert new_queue(vhost) is queue
    what = "queue 'q' in vhost '/'"
    assert refusal(PreconditionFailed, new_queue, vhost, durable=True) == (
        f"inequivalent arg 'durable' for {what}: received 'true' but current is 'false'"
    )
    assert f"inequivalent arg 'auto_delete' for {what}" in refusal(
        PreconditionFailed, new_queue, vhost, auto_delete=True
    )
    assert refusal(PreconditionFailed, new_queue, vhost, arguments={"x-max-length": 5}) == (
        f"inequivalent arg 'x-max-length' for {what}: received the value '5' of type 'signedint' "
        "but current is none"
    )
    assert new_queue(vhost, arguments={"x-unknown": 5}) is queue, "unknown arguments may differ"
    assert "locked" in refusal(ResourceLocked, new_queue, vhost, exclusive=True, owner=object())


def test_exclusive_queues_are_for_their_owner(vhost: VirtualHost) -> None:
    owner, other = object(), object()
    queue = new_queue(vhost, exclusive=True, owner=owner)
    assert vhost.queue_for("q", owner) is queue
    assert new_queue(vhost, exclusive=True, owner=owner) is queue
    assert "cannot obtain exclusive access" in refusal(ResourceLocked, vhost.queue_for, "q", other)
    assert "locked" in refusal(ResourceLocked, new_queue, vhost, owner=owner)


def test_names_of_queues(vhost: VirtualHost) -> None:
    names = {new_queue(vhost, "").name for _ in range(20)}
    assert len(names) == 20 and all(name.startswith("amq.gen-") for name in names)
    assert "reserved prefix" in refusal(AccessRefused, new_queue, vhost, "amq.mine")
    assert refusal(NotFound, vhost.queue, "q") == "no queue 'q' in vhost '/'"
    assert len(generated_name("")) == 22


def test_a_deleted_queue_takes_everything_with_it(vhost: VirtualHost) -> None:
    queue = new_queue(vhost)
    vhost.bind(vhost.exchanges["amq.fanout"], queue, "", {})
    queue.append(message())
    queue.append(message())
    taker = Taker(queue, credit=0)
    queue.add_consumer(taker)
    assert vhost.delete_queue(queue) == 2
    assert vhost.delete_queue(queue) == 0
    assert taker.orphaned and queue.deleted and queue.consumers == []
    assert vhost.queues == {} and vhost.queue_bindings == {}
    assert vhost.exchanges["amq.fanout"].bindings == {}


def test_auto_delete_queues_go_with_their_last_consumer(vhost: VirtualHost) -> None:
    queue = new_queue(vhost, auto_delete=True)
    takers = [Taker(queue), Taker(queue)]
    for taker in takers:
        queue.add_consumer(taker)
    queue.remove_consumer(takers[0])
    assert not queue.deleted
    queue.remove_consumer(takers[1])
    assert queue.deleted and not takers[1].orphaned, "who left by itself need not be told"


# -- what is remembered


def test_only_what_is_durable_is_remembered(vhost: VirtualHost, definitions: Noted) -> None:
    exchange = declare(vhost, "x", durable=True)
    queue = new_queue(vhost, durable=True)
    new_queue(vhost, "transient")
    mine = new_queue(vhost, "mine", durable=True, exclusive=True, owner=object())
    declare(vhost, "y")
    vhost.bind(exchange, queue, "", {})
    vhost.bind(exchange, mine, "", {})
    vhost.bind(vhost.exchanges["y"], queue, "", {})
    assert definitions.kinds() == ["binding", "exchange", "queue"]
    vhost.delete_queue(queue)
    assert definitions.kinds() == ["exchange"]
    vhost.delete_queue(mine)
    vhost.delete_exchange(exchange)
    assert definitions.kept == {}
