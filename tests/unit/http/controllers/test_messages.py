"""Messages looked at and searched where they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http_api import Desk, in_path

MESSAGES = "/api/queues/%2F/q/messages"


@pytest.fixture
def stocked(desk: Desk) -> Desk:
    desk.put("/api/queues/%2F/q", {"durable": True})
    for number in range(25):
        desk.publish("q", f"message {number}", headers={"number": number, "even": number % 2 == 0})
    return desk


def payloads(page: Any) -> list[str]:
    return [message["payload"] for message in page["messages"]]


def test_pages_hold_everything_once_and_take_nothing(stocked: Desk) -> None:
    found: list[str] = []
    at = ""
    for expected in (10, 10, 5):
        page = stocked.get(f"{MESSAGES}?count=10&from={at}")
        assert len(page["messages"]) == expected
        found += payloads(page)
        at = page["next"]
    assert at is None
    assert found == [f"message {number}" for number in range(25)]
    queue = stocked.get("/api/queues/%2F/q")
    assert (queue["messages_ready"], queue["message_stats"]["deliver_get"]) == (25, 0)
    assert not any(message["redelivered"] for message in stocked.get(MESSAGES)["messages"])


def test_a_page_begins_at_a_message(stocked: Desk) -> None:
    seventh = stocked.get(MESSAGES)["messages"][7]
    assert payloads(stocked.get(f"{MESSAGES}?from={seventh['position']}&count=1")) == ["message 7"]


def test_higher_priorities_come_first(stocked: Desk) -> None:
    stocked.publish("q", "urgent", priority=9)
    first = stocked.get(f"{MESSAGES}?count=2")
    assert payloads(first) == ["urgent", "message 0"]
    assert payloads(stocked.get(f"{MESSAGES}?count=1&from={first['next']}")) == ["message 1"]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("header=number=7", [7]),  # in a URL everything is text
        ("header=number", list(range(25))),
        ("header=nothing", []),
        ("body=message 1", [1, *range(10, 20)]),
        ("routing_key=q", list(range(25))),
        ("routing_key=%23", list(range(25))),
        ("routing_key=*.*", []),
        ("exchange=", list(range(25))),
        ("exchange=amq.topic", []),
        ("body=24&header=even", [24]),
        ("selector=number BETWEEN 3 AND 5 AND amqp.routing_key = 'q'", [3, 4, 5]),
        ("selector=number > 20&body=message 2", [21, 22, 23, 24]),
        ("selector=nothing = 1", []),
    ],
)
def test_search(stocked: Desk, query: str, numbers: list[int]) -> None:
    page = stocked.get(f"{MESSAGES}?{query.replace(' ', '%20')}")
    assert payloads(page) == [f"message {number}" for number in numbers]
    assert page["next"] is None


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ("number ! 1", "invalid selector: unexpected '!' (at character 8, near '! 1')"),
        ("number = ", "invalid selector: it ends where a value was expected (at its end)"),
    ],
)
def test_a_wrong_selector_is_refused_with_the_place_of_the_mistake(
    stocked: Desk, selector: str, reason: str
) -> None:
    reply = stocked.ask("GET", f"{MESSAGES}?selector={in_path(selector)}")
    assert (reply.status, reply.json["reason"]) == (400, reason)
    body: dict[str, Any] = {"filter": {"selector": selector}}
    reply = stocked.ask("POST", f"{MESSAGES}/delete", body)
    assert (reply.status, reply.json["reason"]) == (400, reason)
    body["filter"] = {"selector": 5}
    assert stocked.ask("POST", f"{MESSAGES}/delete", body).status == 400


def test_a_search_goes_on_where_it_stopped(stocked: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embermq.http.controllers.messages.SCAN_COUNT_MAX", 10)
    monkeypatch.setattr("embermq.http.controllers.messages.SLICE_COUNT", 10)
    found: list[str] = []
    scanned = 0
    at: str | None = ""
    requests = 0
    while at is not None:
        page = stocked.get(f"{MESSAGES}?body=message%202&from={at}")
        found += payloads(page)
        scanned += page["scanned"]
        at = page["next"]
        requests += 1
    assert found == ["message 2", *(f"message {number}" for number in range(20, 25))]
    assert (scanned, requests) == (25, 3)


def test_bodies_are_cut_when_asked(stocked: Desk) -> None:
    (message,) = stocked.get(f"{MESSAGES}?count=1&truncate=4")["messages"]
    assert (message["payload"], message["payload_bytes"]) == ("mess", 9)


@pytest.mark.parametrize(
    "query",
    ["count=0", "count=x", "from=x", "from=nowhere-1", "state=lost", "truncate=-1", "state=unacked&from=x"],
)
def test_questions_that_cannot_be(stocked: Desk, query: str) -> None:
    assert stocked.ask("GET", f"{MESSAGES}?{query}").status == 400


def test_one_needs_the_right_to_read(stocked: Desk) -> None:
    rights = {"configure": ".*", "write": ".*", "read": "^mine"}
    stocked.put("/api/permissions/%2F/management", rights, status=204)
    assert stocked.ask("GET", MESSAGES, login="management:secret").status == 401


def test_names_stay_names(desk: Desk) -> None:
    name = "<script>alert(1)</script>"
    desk.put(f"/api/queues/%2F/{in_path(name)}")
    desk.publish(name, name)
    reply = desk.ask("GET", f"/api/queues/%2F/{in_path(name)}/messages")
    assert reply.content_type == "application/json"
    assert reply.json["messages"][0]["routing_key"] == name
