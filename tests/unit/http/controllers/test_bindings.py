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
