"""May this user do that? The test of permissions by HTTP."""

import pytest

from tests.support.http_api import Desk

ALICE = "/api/permissions/%2F/alice"


@pytest.fixture
def alice(desk: Desk) -> Desk:
    desk.put("/api/users/alice", {"password": "x", "tags": ""})
    desk.put(ALICE, {"configure": "", "write": "^(orders|amq\\.)", "read": ".*"})
    topic = {"exchange": "amq.topic", "write": "^{username}\\.", "read": ".*"}
    desk.put("/api/topic-permissions/%2F/alice", topic)
    return desk


@pytest.mark.parametrize(
    ("query", "allowed", "reason"),
    [
        ("right=write&name=orders", True, "matches 'orders'"),
        ("right=write&name=bills", False, "does not match 'bills'"),
        ("right=configure&name=orders", False, "is empty"),
        ("right=read&name=", True, "matches 'amq.default'"),
        ("right=write&name=amq.topic&routing_key=alice.new", True, "matches the routing key 'alice.new'"),
        ("right=write&name=amq.topic&routing_key=bob.new", False, "does not match the routing key 'bob.new'"),
    ],
)
def test_the_pattern_that_decides(alice: Desk, query: str, allowed: bool, reason: str) -> None:
    answer = alice.get(f"{ALICE}/test?{query}")
    assert answer["allowed"] is allowed
    assert reason in answer["reason"]


def test_no_permissions_no_user_no_right(alice: Desk) -> None:
    alice.put("/api/vhosts/other")
    assert "no permissions" in alice.get("/api/permissions/other/alice/test?right=read&name=x")["reason"]
    assert alice.ask("GET", "/api/permissions/%2F/bob/test?right=read&name=x").status == 404
    assert alice.ask("GET", "/api/permissions/nowhere/alice/test?right=read&name=x").status == 404
    assert alice.ask("GET", f"{ALICE}/test?right=eat&name=x").status == 400
    assert alice.ask("GET", f"{ALICE}/test?right=read&name=x", login="management:secret").status == 401
