"""What an import of definitions would change, without a change."""

from __future__ import annotations

from typing import Any

from tests.support.http_api import Desk


def preview(desk: Desk, document: object, path: str = "/api/definitions") -> Any:
    reply = desk.ask("POST", f"{path}?dry_run=true", document)
    assert reply.status == 200, reply.body
    return reply.json


def told(answer: Any) -> set[tuple[str, str, str]]:
    return {(change["kind"], change["name"], change["change"]) for change in answer["changes"]}


def test_what_is_there_already_changes_nothing(desk: Desk) -> None:
    desk.put("/api/queues/%2F/orders", {"durable": True, "arguments": {"x-max-length": 5}})
    desk.ask("POST", "/api/bindings/%2F/e/amq.topic/q/orders", {"routing_key": "a.#", "arguments": {"x": 1}})
    desk.put("/api/policies/%2F/short", {"pattern": "^o", "definition": {"max-length": 7}})
    desk.put("/api/operator-policies/%2F/bound", {"pattern": "", "definition": {"max-length": 9}})
    desk.put("/api/templates/jobs", {"arguments": {"x-max-length": 3}})
    answer = preview(desk, desk.get("/api/definitions"))
    assert answer["changes"] == []
    assert set(answer["counts"]) == {"same"}


def test_what_is_new_what_changes_and_what_stays(desk: Desk) -> None:
    desk.put("/api/queues/%2F/orders", {"durable": True})
    desk.put("/api/policies/%2F/short", {"pattern": "^o", "definition": {"max-length": 7}})
    before = desk.get("/api/definitions")
    document = {
        "users": [{"name": "management", "password": "x", "tags": "monitoring"}],
        "vhosts": [{"name": "shop"}],
        "permissions": [{"user": "none", "vhost": "/", "configure": "", "write": "", "read": ""}],
        "queues": [
            {"name": "orders", "vhost": "/", "durable": False, "auto_delete": False, "arguments": {}},
            {"name": "new", "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {}},
            {"name": "lost", "vhost": "nowhere", "durable": True, "auto_delete": False, "arguments": {}},
        ],
        "policies": [
            {"name": "short", "vhost": "/", "pattern": "^o", "definition": {"max-length": 8}},
        ],
        "bindings": [
            {
                "source": "amq.topic",
                "vhost": "/",
                "destination": "orders",
                "destination_type": "queue",
                "routing_key": "a.#",
                "arguments": {},
            },
        ],
    }
    answer = preview(desk, document)
    assert told(answer) == {
        ("users", "management", "changed"),
        ("vhosts", "shop", "added"),
        ("permissions", "none", "changed"),
        ("queues", "orders", "kept"),
        ("queues", "new", "added"),
        ("queues", "lost", "refused"),
        ("policies", "short", "changed"),
        ("bindings", "amq.topic -> queue orders (a.%23)", "added"),
    }
    by_kind = {(change["kind"], change["name"]): change["differences"] for change in answer["changes"]}
    assert by_kind["policies", "short"] == {"definition": [{"max-length": 7}, {"max-length": 8}]}
    assert by_kind["queues", "orders"] == {"durable": [True, False]}
    user = by_kind["users", "management"]
    assert user["tags"] == [["management"], ["monitoring"]]
    assert user["password"] == ["...", "another one"], "no password and no hash is shown"
    assert desk.get("/api/definitions") == before


def test_of_one_virtual_host(desk: Desk) -> None:
    document = {"queues": [{"name": "new", "durable": True, "auto_delete": False, "arguments": {}}]}
    assert told(preview(desk, document, "/api/definitions/%2F")) == {("queues", "new", "added")}
    assert desk.ask("POST", "/api/definitions/%2F?dry_run=true", {"queues": [1]}).status == 400
