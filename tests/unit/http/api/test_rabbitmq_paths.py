"""Paths of RabbitMQ beside the great ones: old names, forms of browsers, what version 4 has added."""

from __future__ import annotations

import pytest

from tests.support.http_api import Desk

FORM = {"content-type": "multipart/form-data; boundary=XX"}
DOCUMENT = b'{"queues": [{"name": "from-form", "vhost": "/", "durable": true, "arguments": {}}]}'


def form(field: str, content: bytes) -> bytes:
    part = f'Content-Disposition: form-data; name="{field}"; filename="d.json"'.encode()
    note = b'--XX\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n'
    return (
        note
        + b"--XX\r\n"
        + part
        + b"\r\nContent-Type: application/json\r\n\r\n"
        + content
        + b"\r\n--XX--\r\n"
    )


@pytest.mark.parametrize("path", ["/api/definitions", "/api/definitions/%2F", "/api/all-configuration"])
def test_definitions_come_in_a_form(desk: Desk, path: str) -> None:
    assert desk.ask("POST", path, raw=form("file", DOCUMENT), headers=FORM).status == 204
    assert desk.names("/api/queues") == ["from-form"]


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (form("other", DOCUMENT), FORM, "the form has no field named file with the definitions"),
        (form("profile", DOCUMENT), FORM, "the form has no field named file with the definitions"),
        (b"nonsense", FORM, "the form has no field named file with the definitions"),
        (
            DOCUMENT,
            {"content-type": "multipart/form-data"},
            "the form has no field named file with the definitions",
        ),
        (form("file", b"nonsense"), FORM, "failed_to_parse_json"),
    ],
)
def test_a_form_without_definitions_is_refused(
    desk: Desk, body: bytes, headers: dict[str, str], reason: str
) -> None:
    reply = desk.ask("POST", "/api/definitions", raw=body, headers=headers)
    assert (reply.status, reply.reason) == (400, reason) and desk.names("/api/queues") == []


def test_topic_permissions_of_one_exchange(desk: Desk) -> None:
    path = "/api/topic-permissions/%2F/guest"
    for exchange in ("amq.topic", "other"):
        desk.put(path, {"exchange": exchange, "write": "a", "read": "b"})
    assert [view["exchange"] for view in desk.get(f"{path}/other")] == ["other"]
    assert desk.ask("DELETE", f"{path}/nobody").status == desk.ask("GET", f"{path}/nobody").status == 404
    assert desk.ask("DELETE", f"{path}/amq.topic").status == 204
    assert [view["exchange"] for view in desk.get(path)] == ["other"]


def test_memory_in_bytes_and_in_percent(desk: Desk) -> None:
    node = desk.get("/api/overview")["node"]
    memory = desk.get(f"/api/nodes/{node}/memory")["memory"]
    percent = desk.get(f"/api/nodes/{node}/memory/relative")["memory"]
    assert percent["total"] == 100 and percent["other_proc"] > 90 and percent["plugins"] == 0
    assert percent.keys() <= memory.keys()
    assert desk.get(f"/api/nodes/{node}?memory=true")["memory"].keys() == memory.keys()
    assert "memory" not in desk.get(f"/api/nodes/{node}")
    assert desk.ask("GET", "/api/nodes/nobody/memory/relative").status == 404


def test_a_quorum_queue_has_members(desk: Desk) -> None:
    node = desk.get("/api/overview")["node"]
    desk.put("/api/queues/%2F/of-quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    view = desk.get("/api/queues/%2F/of-quorum")
    assert (view["leader"], view["members"], view["online"]) == (node, [node], [node])


def test_the_node_answers_to_the_name_that_rabbitmq_would_have(desk: Desk) -> None:
    """Nagios' check_rabbitmq_server asks for no other."""
    node = desk.get("/api/overview")["node"]
    view = desk.get(f"/api/nodes/rabbit@{node.partition('@')[2]}")
    assert view["name"] == node and view["proc_used"] > 0
    assert desk.ask("GET", "/api/nodes/rabbit@elsewhere").status == 404


def test_is_the_password_right(desk: Desk) -> None:
    for form_sent, status in (
        (b"username=guest&password=guest", 200),
        (b"username=guest&password=wrong", 401),
        (b"username=none&password=secret", 401),
        (b"", 401),
        (b"&".join(b"a=b" for _ in range(200)), 400),
    ):
        assert desk.ask("POST", "/api/login", raw=form_sent, login="").status == status, form_sent
    assert desk.ask("POST", "/api/login", raw=b"username=guest&password=guest", login="").json == "ok"


def test_a_hash_of_a_password(desk: Desk) -> None:
    hashed = desk.get("/api/auth/hash_password/two%20words")["ok"]
    desk.put("/api/users/ann", {"password_hash": hashed, "tags": "management"})
    assert desk.get("/api/whoami", login="ann:two words")["name"] == "ann"
    assert desk.ask("GET", "/api/auth/hash_password/x", login="monitoring:secret").status == 401


@pytest.mark.parametrize(
    "path",
    [
        "/api/shovels/vhost/%2F",
        "/api/federation-links/state/down/",
        "/api/federation-links/%2F/state/down",
        "/api/stream/publishers/%2F/events",
    ],
)
def test_what_there_is_nothing_of(desk: Desk, path: str) -> None:
    assert desk.get(path) == []


@pytest.mark.parametrize(
    "check",
    [
        "reached-target-cluster-size",
        "quorum-queues-without-elected-leaders/all-vhosts/pattern/%5Eq",
        "quorum-queues-without-elected-leaders/vhost/%2F/pattern/%5Eq",
    ],
)
def test_what_is_always_well_with_one_node(desk: Desk, check: str) -> None:
    assert desk.get(f"/api/health/checks/{check}")["status"] == "ok"


def test_names_may_be_words_of_paths(desk: Desk) -> None:
    for vhost in ("detailed", "username", "state"):
        desk.put(f"/api/vhosts/{vhost}")
        desk.put(f"/api/queues/{vhost}/detailed")
        assert desk.get(f"/api/queues/{vhost}/detailed")["vhost"] == vhost
        assert desk.get(f"/api/federation-links/{vhost}") == []
        assert desk.names(f"/api/exchanges/{vhost}?name=amq.topic") == ["amq.topic"]
    assert desk.ask("GET", "/api/queues/detailed/nobody").status == 404
    assert desk.ask("GET", "/api/nothing").status == 404


@pytest.mark.parametrize(
    "body", [{"tracing": "x"}, {"protected_from_deletion": 1}, {"tags": 1}, {"default_queue_type": "x"}]
)
def test_a_virtual_host_that_is_refused_is_not_there(desk: Desk, body: dict[str, object]) -> None:
    assert desk.ask("PUT", "/api/vhosts/side", body).status == 400
    assert desk.names("/api/vhosts") == ["/"]


@pytest.mark.parametrize("kind", ["queues", "exchanges"])
def test_of_several_mistakes_the_first_is_told(desk: Desk, kind: str) -> None:
    path, body = f"/api/{kind}/%2F/x", {"arguments": 1, "durable": "d", "auto_delete": "a"}
    assert desk.ask("PUT", path, body).reason == ["not_boolean", "a"]
    assert desk.ask("PUT", path, body | {"auto_delete": True}).reason == ["not_boolean", "d"]
    assert desk.ask("PUT", path, {"arguments": 1}).reason == "arguments must be an object"
