"""Queues, exchanges, bindings and messages by HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import suppress

import pytest

from embermq.broker.events import Event
from embermq.http.server import cooperative as steps
from tests.support.http_api import Desk, in_path, incoming

GET = {"ackmode": "ack_requeue_true", "count": 10, "encoding": "auto"}
NAMES = ["plain", "with space", "a/b", "%2F", "täöü-☃", "<script>alert(1)</script>", "a+b", "q?x=1#y", "~"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_asked_for(desk: Desk, name: str) -> None:
    desk.put(f"/api/queues/%2F/{in_path(name)}")
    assert desk.get(f"/api/queues/%2F/{in_path(name)}")["name"] == name
    desk.put(f"/api/exchanges/%2F/{in_path(name)}", {"type": "topic"})
    binding = f"/api/bindings/%2F/e/{in_path(name)}/q/{in_path(name)}"
    made = desk.ask("POST", binding, {"routing_key": name, "arguments": {"n": 1}})
    assert made.status == 201
    [shown] = desk.get(binding)
    one = f"{binding}/{in_path(shown['properties_key'])}"
    assert desk.get(one) == shown
    assert (shown["routing_key"], shown["source"], shown["destination"]) == (name, name, name)
    assert made.headers["location"].endswith(in_path(shown["properties_key"]).replace("%7E", "~"))
    assert desk.ask("DELETE", one).status == 204
    assert desk.get(binding) == []
    assert desk.ask("DELETE", f"/api/queues/%2F/{in_path(name)}").status == 204


def test_a_queue_is_declared_as_amqp_would(desk: Desk) -> None:
    body = {"durable": True, "arguments": {"x-message-ttl": 1000}}
    desk.put("/api/queues/%2F/q", body, status=201)
    desk.put("/api/queues/%2F/q", body, status=204)
    different = desk.ask("PUT", "/api/queues/%2F/q", {"durable": True})
    assert different.status == 400 and "inequivalent arg 'x-message-ttl'" in different.reason
    queue = desk.broker.vhosts["/"].queues["q"]
    assert queue.durable and queue.arguments == {"x-message-ttl": 1000}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/queues/%2F/amq.mine", {}, 401),
        ("/api/queues/%2F/", {}, 405),
        ("/api/queues/nowhere/q", {}, 404),
        ("/api/queues/%2F/q", {"durable": "perhaps"}, 400),
        ("/api/queues/%2F/q", {"durable": None}, 400),
        ("/api/queues/%2F/q", {"arguments": "none"}, 400),
        ("/api/queues/%2F/q", {"arguments": {"x": None}}, 400),
        ("/api/queues/%2F/q", {"arguments": {"x": [{"y": None}]}}, 400),
        ("/api/queues/%2F/q", {"arguments": {"x": 2**63}}, 400),
        ("/api/queues/%2F/q", {"arguments": {"x": "\ud800"}}, 400),
        ("/api/queues/%2F/q", {"arguments": {"x" * 256: 1}}, 400),
        ("/api/queues/%2F/" + "q" * 256, {}, 400),
        ("/api/exchanges/%2F/e", {"type": "bogus"}, 400),
        ("/api/exchanges/%2F/e", {"type": 1}, 400),
        ("/api/exchanges/%2F/amq.direct", {"type": "topic"}, 400),
        ("/api/exchanges/%2F/amq.default", {"type": "direct"}, 401),
    ],
)
def test_declarations_that_cannot_be(desk: Desk, path: str, body: object, status: int) -> None:
    assert desk.ask("PUT", path, body).status == status
    assert desk.names("/api/queues") == []


@pytest.mark.parametrize("raw", [b"{", b"[]", b"1", b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_object(desk: Desk, raw: bytes) -> None:
    reply = desk.ask("PUT", "/api/queues/%2F/q", raw=raw)
    assert (reply.status, reply.reason) == (400, "not_json")


def test_bodies_that_say_nothing_or_too_much(desk: Desk) -> None:
    assert desk.ask("PUT", "/api/queues/%2F/of-nothing", raw=b"null").status == 201
    doubly = desk.ask("PUT", "/api/queues/%2F/q", raw=b'"x"')
    assert doubly.status == 400 and "doubly-JSON-encoded" in str(doubly.reason)


def test_deleting_only_if(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    desk.publish("q", "x")
    refused = desk.ask("DELETE", "/api/queues/%2F/q?if-empty=true")
    assert refused.status == 400 and refused.reason == "queue 'q' in vhost '/' not empty"
    assert desk.ask("DELETE", "/api/queues/%2F/q/contents").status == 204
    assert desk.ask("DELETE", "/api/queues/%2F/q?if-empty=true").status == 204
    desk.put("/api/exchanges/%2F/e", {"type": "fanout"})
    desk.put("/api/queues/%2F/q")
    desk.ask("POST", "/api/bindings/%2F/e/e/q/q", {})
    assert desk.ask("DELETE", "/api/exchanges/%2F/e?if-unused=true").status == 400
    assert desk.ask("DELETE", "/api/exchanges/%2F/e").status == 204
    assert desk.ask("DELETE", "/api/exchanges/%2F/amq.topic").status == 401


def test_messages_keep_their_place_and_their_properties(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    desk.publish("q", "first", headers={"n": [1, 2.5, {"a": True}]}, priority=3, content_type="text/plain")
    desk.publish("q", "second")
    for redelivered in (False, True):
        first, second = desk.ask("POST", "/api/queues/%2F/q/get", GET).json
        assert (first["payload"], second["payload"]) == ("first", "second")
        assert first["redelivered"] is redelivered
        assert first["properties"] == {
            "headers": {"n": [1, 2.5, {"a": True}]},
            "priority": 3,
            "content_type": "text/plain",
        }
    queue = desk.get("/api/queues/%2F/q")
    assert (queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]) == (2, 2, 0)
    assert queue["message_stats"]["publish"] == 2


def test_messages_taken_are_gone(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    for number in range(3):
        desk.publish("q", str(number))
    for ackmode, expected in (("ack_requeue_false", ["0"]), ("reject_requeue_false", ["1"])):
        taken = desk.ask("POST", "/api/queues/%2F/q/get", {**GET, "count": 1, "ackmode": ackmode}).json
        assert [message["payload"] for message in taken] == expected
    assert desk.get("/api/queues/%2F/q")["messages"] == 1


def test_bytes_that_are_no_text(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    encoded = base64.b64encode(b"\x00\xff").decode()
    message = {"routing_key": "q", "payload": encoded, "payload_encoding": "base64", "properties": {}}
    assert desk.ask("POST", "/api/exchanges/%2F/amq.default/publish", message).json == {"routed": True}
    [shown] = desk.ask("POST", "/api/queues/%2F/q/get", GET).json
    assert (shown["payload"], shown["payload_encoding"], shown["payload_bytes"]) == (encoded, "base64", 2)
    [cut] = desk.ask("POST", "/api/queues/%2F/q/get", {**GET, "encoding": "base64", "truncate": 1}).json
    assert (cut["payload"], cut["payload_bytes"]) == (base64.b64encode(b"\x00").decode(), 2)


@pytest.mark.parametrize(
    "change",
    [
        {"payload_encoding": "morse"},
        {"payload": 1},
        {"payload": "\ud800"},
        {"routing_key": "k" * 256},
        {"properties": {"priority": 256}},
        {"properties": {"delivery_mode": 3}},
        {"properties": {"timestamp": -1}},
        {"properties": {"expiration": "soon"}},
        {"properties": {"user_id": "somebody"}},
        {"properties": {"headers": []}},
        {"properties": {"content_type": "x" * 256}},
        {"properties": "none"},
    ],
)
def test_messages_that_cannot_be(desk: Desk, change: dict[str, object]) -> None:
    message = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}, **change}
    desk.put("/api/queues/%2F/q")
    assert desk.ask("POST", "/api/exchanges/%2F/amq.default/publish", message).status == 400
    assert desk.get("/api/queues/%2F/q")["messages"] == 0


@pytest.mark.parametrize("change", [{"ackmode": "?"}, {"count": -1}, {"count": "many"}, {"encoding": "x"}])
def test_ways_of_getting_that_cannot_be(desk: Desk, change: dict[str, object]) -> None:
    desk.put("/api/queues/%2F/q")
    assert desk.ask("POST", "/api/queues/%2F/q/get", {**GET, **change}).status == 400


def test_publishing_follows_the_bindings(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    desk.ask("POST", "/api/bindings/%2F/e/amq.headers/q/q", {"arguments": {"x-match": "all", "kind": "big"}})
    for kind, routed in (("big", True), ("small", False)):
        message = {
            "routing_key": "",
            "payload": kind,
            "payload_encoding": "string",
            "properties": {"headers": {"kind": kind}},
        }
        reply = desk.ask("POST", "/api/exchanges/%2F/amq.headers/publish", message)
        assert reply.json == {"routed": routed}


def test_copies_go_to_further_keys(desk: Desk) -> None:
    for name in ("to", "cc", "bcc"):
        desk.put(f"/api/queues/%2F/{name}")
    desk.publish("to", "x", headers={"CC": ["cc"], "BCC": ["bcc", "to"], "kept": 1})
    for name in ("to", "cc", "bcc"):
        [message] = desk.ask("POST", f"/api/queues/%2F/{name}/get", GET).json
        assert message["properties"]["headers"] == {"CC": ["cc"], "kept": 1}


def test_a_full_queue_that_refuses_is_told(desk: Desk) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    desk.put("/api/queues/%2F/q", {"arguments": arguments})
    desk.publish("q", "in")
    message = {"routing_key": "q", "payload": "out", "payload_encoding": "string", "properties": {}}
    reply = desk.ask("POST", "/api/exchanges/%2F/amq.default/publish", message)
    assert (reply.status, reply.reason) == (400, "rejected Unable to publish message. Check queue limits.")


def test_messages_with_an_expiration(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    desk.publish("q", "gone at once", expiration="0")
    desk.publish("q", "stays", expiration="600000")
    [message] = desk.ask("POST", "/api/queues/%2F/q/get", GET).json
    assert (message["payload"], message["properties"]) == ("stays", {"expiration": "600000"})


def test_rejected_messages_become_dead_letters(desk: Desk) -> None:
    desk.put("/api/queues/%2F/dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    desk.put("/api/queues/%2F/q", {"arguments": arguments})
    desk.publish("q", "x")
    desk.ask("POST", "/api/queues/%2F/q/get", {**GET, "ackmode": "reject_requeue_false"})
    [letter] = desk.ask("POST", "/api/queues/%2F/dead/get", GET).json
    assert letter["properties"]["headers"]["x-death"][0]["reason"] == "rejected"


def test_bindings_seen_from_both_ends(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    desk.ask("POST", "/api/bindings/%2F/e/amq.topic/e/amq.fanout", {"routing_key": "#"})
    desk.ask("POST", "/api/bindings/%2F/e/amq.fanout/q/q", {})
    [outgoing] = desk.get("/api/exchanges/%2F/amq.topic/bindings/source")
    [incoming] = desk.get("/api/exchanges/%2F/amq.fanout/bindings/destination")
    assert outgoing == incoming and outgoing["destination_type"] == "exchange"
    default, bound = desk.get("/api/queues/%2F/q/bindings")
    assert (default["source"], default["routing_key"], bound["source"]) == ("", "q", "amq.fanout")
    assert len(desk.get("/api/bindings")) == len(desk.get("/api/bindings/%2F")) == 3
    refused = desk.ask("POST", "/api/bindings/%2F/e/amq.default/q/q", {"routing_key": "x"})
    assert refused.status == 401


def test_others_are_served_while_a_virtual_host_goes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEP_S", 0.0)
    monkeypatch.setattr(steps, "REST_S", 0.0)
    desk.put("/api/vhosts/large")
    vhost = desk.broker.vhosts["large"]
    for number in range(20):
        vhost.add_queue(f"q{number}", id="", durable=False, auto_delete=False, arguments={})
    seen: list[int] = []

    async def others() -> None:
        while "large" in desk.broker.vhosts:
            seen.append(len(vhost.queues))
            await asyncio.sleep(0)

    async def delete() -> int:
        headers = {"host": "localhost", "authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
        return (await desk.api.answer(incoming("DELETE", "/api/vhosts/large", headers))).status

    async def all_at_once() -> list[object]:
        return list(await asyncio.gather(delete(), delete(), others()))

    assert desk.run(all_at_once()) == [204, 204, None]
    assert len(set(seen)) > 5, seen


def test_a_routing_key_that_is_null_is_empty(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    path = "/api/bindings/%2F/e/amq.direct/q/q"
    assert desk.ask("POST", path, {"routing_key": None}).status == 201
    assert [binding["routing_key"] for binding in desk.get(path)] == [""]
    message = {"routing_key": None, "properties": {}, "payload": "x", "payload_encoding": "string"}
    assert desk.ask("POST", "/api/exchanges/%2F/amq.direct/publish", message).json == {"routed": True}
    assert desk.ask("POST", path, {"routing_key": 5}).status == 400


def test_what_a_definitions_file_makes_is_the_doing_of_who_brought_it(desk: Desk) -> None:
    told: list[Event] = []
    desk.broker.events.listen(told.append)
    document = {
        "users": [{"name": "ann", "tags": "", "password_hash": ""}],
        "vhosts": [{"name": "shop"}],
        "queues": [{"vhost": "shop", "name": f"q{n}", "durable": True} for n in range(20)],
    }
    assert desk.ask("POST", "/api/definitions", document, login="administrator:secret").status == 204
    made = [event for event in told if event.key in ("user.created", "vhost.created", "queue.created")]
    assert len(made) == 22
    assert {event.actor for event in made} == {"administrator"}


@pytest.mark.parametrize("ackmode", ["ack_requeue_true", "ack_requeue_false", "reject_requeue_false"])
def test_messages_of_a_client_that_leaves_go_back(desk: Desk, ackmode: str) -> None:
    """Many are taken in steps, in the middle of which a client may go."""
    desk.put("/api/queues/%2F/q")
    for number in range(500):
        desk.publish("q", str(number))
    queue = desk.broker.vhosts["/"].queues["q"]
    body = json.dumps({"ackmode": ackmode, "count": 500, "encoding": "auto"}).encode()
    headers = {"host": "x", "authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}

    async def leave() -> None:
        asking = asyncio.ensure_future(
            desk.api.answer(incoming("POST", "/api/queues/%2F/q/get", headers, body))
        )
        while not 0 < queue.unacked_count < 500:
            assert not asking.done(), "all in one step"
            await asyncio.sleep(0)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

    desk.run(leave())
    assert (queue.ready_count, queue.unacked_count) == (500, 0)
