"""Who may do what."""

from __future__ import annotations

import pytest

from embermq.broker.security.user import DECISIONS_MAX, Permission, TopicPermission, User, is_loopback
from embermq.errors import AccessRefused


def test_patterns_match_anywhere_and_the_empty_one_nowhere() -> None:
    permission = Permission(configure="^mine-", write="log", read="")
    assert permission.allows("configure", "mine-1") and not permission.allows("configure", "not-mine-1")
    assert permission.allows("write", "a-log-of-things") and not permission.allows("write", "lo")
    assert not permission.allows("read", "") and not permission.allows("read", "anything")
    assert not permission.allows("configure", "mine"), "asked twice, answered the same"
    assert not permission.allows("configure", "mine")


def test_remembered_decisions_are_bounded() -> None:
    permission = Permission(configure="7$")
    for number in range(3 * DECISIONS_MAX):
        assert permission.allows("configure", str(number)) == str(number).endswith("7")
    assert len(permission.decisions) <= DECISIONS_MAX


def test_a_refusal_says_who_what_and_where() -> None:
    user = User("ann", permissions={"/": Permission("^ann-", ".*", "amq.default")})
    user.require("configure", "/", "queue", "ann-1")
    user.require("read", "/", "exchange", "")  # known as amq.default
    with pytest.raises(AccessRefused) as refusal:
        user.require("configure", "/", "queue", "bob-1")
    assert refusal.value.detail == "configure access to queue 'bob-1' in vhost '/' refused for user 'ann'"
    with pytest.raises(AccessRefused):
        user.require("write", "elsewhere", "queue", "ann-1")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::1%lo", True),
        ("192.0.2.1", False),
        ("::ffff:192.0.2.1", False),
        ("0.0.0.0", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_addresses_of_this_machine(address: str, expected: bool) -> None:
    assert is_loopback(address) == expected


def test_topics_are_free_unless_there_is_a_permission_for_the_exchange() -> None:
    user = User("ann", permissions={"/": Permission()})
    user.require_topic("write", "/", "events", "anything")
    assert not user.looks_at_topics("/")
    user.topic_permissions["/"] = {"events": TopicPermission("^a\\.", "")}
    assert user.looks_at_topics("/")
    user.require_topic("write", "/", "events", "a.b")
    user.require_topic("write", "/", "elsewhere", "b")
    user.require_topic("write", "other", "events", "b")
    with pytest.raises(AccessRefused) as refusal:
        user.require_topic("write", "/", "events", "b")
    assert refusal.value.detail == (
        "write access to topic 'b' in exchange 'events' in vhost '/' refused for user 'ann'"
    )
    with pytest.raises(AccessRefused, match="read access"):
        user.require_topic("read", "/", "events", "a.b")


def test_variables_in_topic_permissions_are_taken_literally() -> None:
    permission = TopicPermission("^{username}\\.{vhost}\\.{client_id}$", "^{username}$")
    who = {"username": "a.n", "vhost": "v", "client_id": "c+"}
    assert permission.allows("write", "a.n.v.c+", who)
    assert not permission.allows("write", "axn.v.c+", who)
    assert not permission.allows("write", "a.n.v.cc", who)
    assert not permission.allows("read", "anything", {"username": ".*"})
    assert permission.allows("read", ".*", {"username": ".*"})
    assert not TopicPermission("^{client_id}$", "").allows("write", "c", {"username": "a"})


def test_remembered_topic_decisions_are_bounded() -> None:
    permission = TopicPermission("7$", "")
    for number in range(3 * DECISIONS_MAX):
        who = {"username": "u", "client_id": str(number)}
        assert permission.allows("write", str(number), who) == str(number).endswith("7")
    assert len(permission.decisions) <= DECISIONS_MAX and len(permission.compiled) <= DECISIONS_MAX


def test_who_has_no_right_at_all_learns_nothing() -> None:
    user = User("ann", permissions={"/": Permission("", "^w", "^r")})
    user.require_any("/", "queue", "w1")
    user.require_any("/", "queue", "r1")
    with pytest.raises(AccessRefused, match=r"access to queue 'q' in vhost '/' refused for user 'ann'"):
        user.require_any("/", "queue", "q")
    with pytest.raises(AccessRefused):
        user.require_any("elsewhere", "queue", "w1")
