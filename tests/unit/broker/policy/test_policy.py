"""Which policy holds, and what it makes of what was declared."""

from __future__ import annotations

import pytest

from embermq.broker.definitions import DefinitionStore
from embermq.broker.policy.keys import KEYS, NUMBER_MAX, TABLE
from embermq.broker.policy.policy import OPERATOR_POLICY, POLICY, InForce, policy_from
from embermq.broker.vhost import VirtualHost
from embermq.errors import PreconditionFailed
from tests.support.domain import Loop, Taker, message, new_queue, new_vhost


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def vhost(loop: Loop) -> VirtualHost:
    return new_vhost(loop, DefinitionStore())


def set_policy(vhost: VirtualHost, kind: str, name: str, priority: int = 0, **keys: object) -> None:
    definition = {key.replace("_", "-"): value for key, value in keys.items()}
    body = {"pattern": ".*", "definition": definition, "priority": priority}
    vhost.policies.set(kind, policy_from(name, body, kind == OPERATOR_POLICY))


def in_force(policy: dict[str, object], operator: dict[str, object]) -> InForce:
    policies = [
        policy_from("p", {"pattern": "", "definition": definition}, False) if definition else None
        for definition in (policy, operator)
    ]
    return InForce(*policies)


@pytest.mark.parametrize(
    ("arguments", "policy", "operator", "effective"),
    [
        ({}, {"max-length": 5}, {"max-length": 3}, {"x-max-length": 3}),
        ({}, {"max-length": 3}, {"max-length": 5}, {"x-max-length": 3}),
        ({"x-max-length": 2}, {"max-length": 3}, {"max-length": 5}, {"x-max-length": 2}),
        ({"x-max-length": 9}, {"max-length": 3}, {}, {"x-max-length": 3}),
        ({"x-overflow": "drop-head"}, {"overflow": "reject-publish"}, {}, {"x-overflow": "drop-head"}),
        ({}, {"delivery-limit": -1}, {"delivery-limit": 5}, {"x-delivery-limit": 5}),
        ({"x-delivery-limit": 3}, {"delivery-limit": -1}, {}, {"x-delivery-limit": 3}),
        ({"x-delivery-limit": 0}, {"delivery-limit": 2}, {}, {"x-delivery-limit": 0}),
        ({"x-max-age": "7D"}, {"max-age": "36h"}, {}, {"x-max-age": "36h"}),
        ({"x-max-age": "1h"}, {"max-age": "7D"}, {}, {"x-max-age": "1h"}),
        ({"alternate-exchange": "a"}, {"alternate-exchange": "b"}, {}, {"alternate-exchange": "a"}),
        ({"x-y": 1}, {"expires": 5}, {"message-ttl": 7}, {"x-y": 1, "x-expires": 5, "x-message-ttl": 7}),
    ],
)
def test_what_holds(
    arguments: dict[str, object], policy: dict[str, object], operator: dict[str, object], effective: object
) -> None:
    before = dict(arguments)
    assert in_force(policy, operator).over(arguments).values == effective
    assert arguments == before


def test_among_equals_the_first_by_name(vhost: VirtualHost) -> None:
    for name in ("b", "a", "c"):
        set_policy(vhost, POLICY, name, max_length=5)
    queue = new_queue(vhost)
    vhost.policies.apply_to_queue(queue)
    assert vhost.policies.of(queue).policy is vhost.policies.kinds[POLICY]["a"]


def test_nothing_is_left_of_a_policy_that_is_deleted(vhost: VirtualHost) -> None:
    queue = new_queue(vhost)
    declared = queue.arguments
    set_policy(vhost, POLICY, "p", max_length=5, message_ttl=1000)
    assert queue.rules is not None and queue.effective == {"x-max-length": 5, "x-message-ttl": 1000}
    vhost.policies.delete(POLICY, "p")
    assert queue.rules is None  # the plain, quick kind again
    assert queue.effective == queue.arguments == declared
    assert not vhost.policies.in_force
    assert vhost.policies.of(queue).definition == {}


def test_messages_that_expire_keep_their_rules(vhost: VirtualHost) -> None:
    queue = new_queue(vhost)
    set_policy(vhost, POLICY, "p", message_ttl=60_000)
    queue.append(message(b"old"))
    vhost.policies.delete(POLICY, "p")
    queue.append(message(b"new"))
    old, new = queue.get(), queue.get()
    assert old is not None and new is not None
    assert old.expires_ms > 0 and new.expires_ms == 0


def test_a_consumer_and_its_messages_stay(loop: Loop, vhost: VirtualHost) -> None:
    queue = new_queue(vhost, arguments={"x-single-active-consumer": True, "x-max-priority": 9})
    taker = Taker(queue, credit=1)
    queue.add_consumer(taker)
    for priority in (0, 7, 9):
        queue.append(message(b"%d" % priority, priority=priority))
    set_policy(vhost, POLICY, "p", max_length=10)
    loop.run()
    assert queue.rules is not None and queue.rules.active is taker
    assert taker.bodies == [b"9"]
    assert [m.body for m in queue.messages()] == [b"7", b"0"]


def test_every_key_has_a_line_of_its_own() -> None:
    assert len(KEYS) == len(TABLE)
    assert not {"max-priority", "single-active-consumer", "queue-type"} & KEYS.keys()
    assert all("{}" in key.complaint for key in TABLE)


@pytest.mark.parametrize("name", ["message-ttl", "expires", "max-length", "max-length-bytes"])
def test_numbers_are_as_large_as_the_broker_can_count(vhost: VirtualHost, name: str) -> None:
    """One that was taken and could not be used kept the broker from starting again."""
    queue = new_queue(vhost)
    with pytest.raises(PreconditionFailed, match="is not a valid"):
        set_policy(vhost, POLICY, "p", **{name: NUMBER_MAX + 1})
    set_policy(vhost, POLICY, "p", **{name: NUMBER_MAX})
    assert queue.append(message(b"fits")) == 0
    assert queue.ready_count == 1
