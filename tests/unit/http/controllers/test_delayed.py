"""Delayed messages by destination."""

from tests.support.http_api import Desk


def test_destinations_that_messages_wait_for(desk: Desk) -> None:
    desk.put("/api/queues/%2F/reminders", {"durable": True})
    desk.put(
        "/api/exchanges/%2F/later", {"type": "x-delayed-message", "arguments": {"x-delayed-type": "topic"}}
    )
    for exchange, key in (("amq.default", "reminders"), ("later", "tea"), ("later", "cake")):
        message = {
            "routing_key": key,
            "payload": "x",
            "payload_encoding": "string",
            "properties": {"headers": {"x-delay": 60_000}},
        }
        desk.ask("POST", f"/api/exchanges/%2F/{exchange}/publish", message)
    found = desk.get("/api/delayed")
    assert [(d["destination_type"], d["destination"], d["messages"], d["reason"]) for d in found] == [
        ("exchange", "later", 2, "published"),
        ("queue", "reminders", 1, "published"),
    ]
    assert desk.ask("DELETE", "/api/exchanges/%2F/later/delayed").status == 204
    assert [d["destination"] for d in desk.get("/api/delayed")] == ["reminders"]


def test_only_virtual_hosts_that_the_user_may_enter(desk: Desk) -> None:
    desk.put("/api/vhosts/other")
    desk.put("/api/queues/other/q", {})
    message = {
        "routing_key": "q",
        "payload": "x",
        "payload_encoding": "string",
        "properties": {"headers": {"x-delay": 60_000}},
    }
    desk.ask("POST", "/api/exchanges/other/amq.default/publish", message)
    assert len(desk.get("/api/delayed")) == 1
    assert desk.get("/api/delayed", login="management:secret") == []
