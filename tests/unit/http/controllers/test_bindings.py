"""Bindings by HTTP: where a message would go, and why."""

from __future__ import annotations

from typing import Any

from tests.support.http_api import Desk

EXPLAIN = "/api/exchanges/%2F/amq.headers/explain"


def told(desk: Desk, asked: object) -> Any:
    reply = desk.ask("POST", EXPLAIN, asked)
    assert reply.status == 200, reply.body
    return reply.json


def bind(desk: Desk, source: str, destination: str, kind: str = "q", **arguments: object) -> None:
    body = {"routing_key": "", "arguments": arguments}
    assert desk.ask("POST", f"/api/bindings/%2F/e/{source}/{kind}/{destination}", body).status == 201


def test_a_route_is_explained_and_nothing_published(desk: Desk) -> None:
    for name in ("q", "p"):
        desk.put(f"/api/queues/%2F/{name}", {"durable": True})
    bind(desk, "amq.headers", "q", country="AT")
    bind(desk, "amq.headers", "p", country="CH")
    asked = {"routing_key": "k", "properties": {"priority": 3}, "headers": {"country": "AT"}}
    found = told(desk, asked)
    assert found["queues"] == ["q"]
    assert found["unroutable_reason"] is None
    assert [(b["destination"], b["matched"], b["reason"]) for b in found["bindings"]] == [
        ("q", True, "all of the headers that the binding asks for are as asked"),
        ("p", False, "the header 'country' is 'AT', not 'CH'"),
    ]
    assert found["bindings"][0] == {
        "source": "amq.headers",
        "destination": "q",
        "destination_type": "queue",
        "routing_key": "",
        "arguments": {"country": "AT"},
        "matched": True,
        "reason": "all of the headers that the binding asks for are as asked",
    }
    assert desk.get("/api/queues/%2F/q")["messages"] == 0


def test_headers_may_stand_among_the_properties_or_not_be_there(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q", {"durable": True})
    bind(desk, "amq.headers", "q", country="AT")
    assert told(desk, {"properties": {"headers": {"country": "AT"}}})["queues"] == ["q"]
    found = told(desk, {})
    assert found["queues"] == []
    assert found["unroutable_reason"] == "at exchange 'amq.headers' the message matches none of its bindings"


def test_of_one_queue_only_the_ways_to_it(desk: Desk) -> None:
    for name in ("q", "p"):
        desk.put(f"/api/queues/%2F/{name}", {"durable": True})
    bind(desk, "amq.headers", "amq.fanout", "e")
    bind(desk, "amq.headers", "amq.topic", "e")
    bind(desk, "amq.fanout", "q")
    bind(desk, "amq.fanout", "p")
    found = told(desk, {"queue": "q"})
    assert [b["destination"] for b in found["bindings"]] == ["amq.fanout", "q"]
    assert found["queues"] == ["q", "p"]
    assert desk.ask("POST", EXPLAIN, {"queue": "nothing"}).status == 404


def test_what_is_no_message_is_refused(desk: Desk) -> None:
    assert desk.ask("POST", EXPLAIN, {"properties": {"priority": "high"}}).status == 400
    assert desk.ask("POST", EXPLAIN, {"headers": {"CC": "no list"}}).status == 400
    assert desk.ask("POST", "/api/exchanges/%2F/nothing/explain", {}).status == 404


def test_rules_of_chained_bindings_are_exported_whole_and_not_for_rabbitmq(desk: Desk) -> None:
    for name in ("q", "p"):
        desk.put(f"/api/queues/%2F/{name}", {"durable": True})
        bind(desk, "amq.fanout", name)
    bind(desk, "amq.headers", "q", **{"x-via": "amq.fanout", "country": "AT"})
    document = desk.get("/api/definitions")
    assert [(b["source"], b["destination"]) for b in document["bindings"]] == [
        ("amq.headers", "q"),
        ("amq.fanout", "q"),
        ("amq.fanout", "p"),
    ]
    fit = desk.get("/api/definitions?for=rabbitmq")
    assert [(b["source"], b["destination"]) for b in fit["bindings"]] == [("amq.fanout", "p")]
    assert [b["destination"] for b in fit["left_out"]] == ["q", "q"]
    with Desk() as other:
        assert other.ask("POST", "/api/definitions", document).status == 204
        asked = {"headers": {"country": "CH"}}
        found = other.ask("POST", "/api/exchanges/%2F/amq.fanout/explain", asked).json
        assert found["queues"] == ["p"]
        assert [(b["source"], b["destination"], b["matched"]) for b in found["bindings"]] == [
            ("amq.headers", "q", False),
            ("amq.fanout", "q", False),
            ("amq.fanout", "p", True),
        ]
        reason = "a fanout exchange sends to all its bindings, but no binding via 'amq.fanout' holds"
        assert found["bindings"][1]["reason"] == reason


def test_every_exchange_of_a_chain_must_be_readable(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q", {"durable": True})
    path = "/api/bindings/%2F/e/amq.headers/q/q"
    for name, status in (("nothing", 404), ("", 401), ("amq.default", 401), (5, 400)):
        assert desk.ask("POST", path, {"arguments": {"x-via": name}}).status == status, name
