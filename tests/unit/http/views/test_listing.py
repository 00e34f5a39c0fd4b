"""Lists: pages, filters, order, columns; and patterns that would take for ever."""

from __future__ import annotations

import pytest

from embermq.http.server.request import Refusal
from embermq.http.views.name_filter import name_filter
from tests.support.http_api import Desk, in_path


@pytest.fixture
def stocked(desk: Desk) -> Desk:
    for number in range(25):
        desk.put(f"/api/queues/%2F/queue-{number:02}", {"durable": number % 2 == 0})
    desk.publish("queue-07", "x")
    return desk


def test_everything_without_pages(stocked: Desk) -> None:
    assert stocked.names("/api/queues") == [f"queue-{number:02}" for number in range(25)]


def test_pages_hold_everything_once(stocked: Desk) -> None:
    found: list[str] = []
    for page in (1, 2, 3):
        reply = stocked.get(f"/api/queues?page={page}&page_size=10")
        assert (reply["total_count"], reply["filtered_count"], reply["page_count"]) == (25, 25, 3)
        assert reply["item_count"] == len(reply["items"])
        found += [queue["name"] for queue in reply["items"]]
    assert found == stocked.names("/api/queues")


@pytest.mark.parametrize(
    "query",
    ["page=4&page_size=10", "page=0", "page=x", "page=-1", "page=1&page_size=501", "page=1&page_size="],
)
def test_pages_that_cannot_be(stocked: Desk, query: str) -> None:
    assert stocked.ask("GET", f"/api/queues?{query}").status == 400


def test_an_empty_list_has_one_page(desk: Desk) -> None:
    reply = desk.get("/api/queues?page=1")
    assert (reply["items"], reply["page_count"], reply["total_count"]) == ([], 1, 0)


def test_names_are_filtered(stocked: Desk) -> None:
    assert stocked.names("/api/queues?page=1&name=QUEUE-1") == [f"queue-1{digit}" for digit in range(10)]
    pattern = in_path("^queue-.[57]$")
    reply = stocked.get(f"/api/queues?page=1&use_regex=true&name={pattern}")
    assert [queue["name"] for queue in reply["items"]] == ["queue-05", "queue-07", "queue-15", "queue-17"]
    assert (reply["filtered_count"], reply["total_count"]) == (4, 25)


def test_order(stocked: Desk) -> None:
    assert stocked.names("/api/queues?sort=name&sort_reverse=true")[0] == "queue-24"
    assert stocked.names("/api/queues?sort=messages&sort_reverse=true")[0] == "queue-07"
    assert stocked.names("/api/queues?sort=message_stats.publish&sort_reverse=true&page=1&page_size=1") == [
        "queue-07"
    ]
    assert len(stocked.names("/api/queues?sort=no.such.column")) == 25


def test_columns(stocked: Desk) -> None:
    reply = stocked.get("/api/queues?columns=name,message_stats.publish,nothing,name.x&page=1&page_size=8")
    assert reply["items"][7] == {"name": "queue-07", "message_stats": {"publish": 1}}
    assert stocked.get("/api/queues/%2F/queue-07?columns=messages") == {"messages": 1}


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=(a+)+b)a", "(?>(a+)+b)", "x" * 101, "(", "[", "*"])
def test_patterns_that_are_none_or_could_take_long_are_refused(pattern: str) -> None:
    """What is let in is quick: see tests/unit/broker/security/test_safe_regex.py."""
    with pytest.raises(Refusal):
        name_filter(pattern, True)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("^orders", "orders.eu", True),
        ("^orders", "my orders", False),
        (".*eu$", "orders.eu", True),
        ("^.*eu", "orders.eu", True),
        (r"\d+", "order-7", True),
        ("(red|blue)-[0-9]", "blue-1", True),
        ("ORDERS", "orders", True),
        (r"x\.*", "y", False),
        ("a.*b", "xaxxb", True),
        ("(eu)?x", "x", True),
        ("^(?!amq)", "orders", True),
        ("^(?!amq)", "amq.gen-1", False),
        ("(ab){2,50}", "abab", True),
        ("^a.*|b.*", "cb", True),
    ],
)
def test_ordinary_patterns_work(pattern: str, name: str, expected: bool) -> None:
    assert name_filter(pattern, True)(name) is expected
