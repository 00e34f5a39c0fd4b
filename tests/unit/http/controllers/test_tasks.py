"""Work that goes on by itself: move, copy, delete, return; seen and cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.http_api import Desk


@pytest.fixture
def stocked(desk: Desk) -> Desk:
    for name in ("source", "target"):
        desk.put(f"/api/queues/%2F/{name}", {"durable": True})
    for number in range(10):
        desk.publish("source", f"{number}", headers={"even": number % 2 == 0})
    return desk


def begin(desk: Desk, what: str, queue: str = "source", **body: object) -> Any:
    reply = desk.ask("POST", f"/api/queues/%2F/{queue}/messages/{what}", body)
    assert reply.status == 202, reply.body
    assert reply.headers["location"] == f"/api/tasks/{reply.json['id']}"
    return reply.json


def finished(desk: Desk, task: Any) -> Any:
    async def wait() -> None:
        while desk.broker.tasks.running:
            await asyncio.sleep(0.001)

    desk.run(wait())
    return desk.get(f"/api/tasks/{task['id']}")


def payloads(desk: Desk, queue: str) -> list[str]:
    page = desk.get(f"/api/queues/%2F/{queue}/messages")
    return [message["payload"] for message in page["messages"]]


def test_move_everything(stocked: Desk) -> None:
    task = finished(stocked, begin(stocked, "move", destination="target"))
    assert (task["state"], task["done"], task["scanned"], task["total"]) == ("done", 10, 10, 10)
    assert payloads(stocked, "source") == []
    assert payloads(stocked, "target") == [str(number) for number in range(10)]
    lengths = {queue["name"]: queue["messages"] for queue in stocked.get("/api/queues")}
    assert lengths == {"source": 0, "target": 10}


def test_move_some(stocked: Desk) -> None:
    wanted = {"headers": {"even": True}}
    task = finished(stocked, begin(stocked, "move", destination="target", filter=wanted, limit=3))
    assert (task["done"], task["scanned"]) == (3, 5)
    assert payloads(stocked, "target") == ["0", "2", "4"]
    assert payloads(stocked, "source") == ["1", "3", "5", "6", "7", "8", "9"]


def test_copy_leaves_the_source_as_it_is(stocked: Desk) -> None:
    finished(stocked, begin(stocked, "copy", destination="target", limit=4))
    assert payloads(stocked, "target") == ["0", "1", "2", "3"]
    assert len(payloads(stocked, "source")) == 10


def test_delete_what_fits(stocked: Desk) -> None:
    finished(stocked, begin(stocked, "delete", filter={"headers": {"even": False}}))
    assert payloads(stocked, "source") == ["0", "2", "4", "6", "8"]
    assert stocked.get("/api/queues/%2F/source")["messages"] == 5


def test_a_copy_ends_though_others_put_more_in(stocked: Desk) -> None:
    stocked.put("/api/queues/%2F/third")
    there = begin(stocked, "copy", destination="target")
    back = begin(stocked, "copy", queue="target", destination="source")
    assert finished(stocked, there)["state"] == finished(stocked, back)["state"] == "done"
    assert len(payloads(stocked, "target")) == 10


def test_a_full_destination_refuses_and_nothing_is_lost(stocked: Desk) -> None:
    stocked.put("/api/queues/%2F/small", {"arguments": {"x-max-length": 3, "x-overflow": "reject-publish"}})
    task = finished(stocked, begin(stocked, "move", destination="small"))
    assert (task["state"], task["done"]) == ("failed", 3)
    assert "full" in task["reason"]
    assert payloads(stocked, "small") == ["0", "1", "2"]
    assert payloads(stocked, "source") == [str(number) for number in range(3, 10)]


def test_dead_letters_return_to_where_they_died(desk: Desk) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graveyard"}
    for name in ("one", "two"):
        desk.put(f"/api/queues/%2F/{name}", {"arguments": arguments})
        desk.ask("POST", f"/api/bindings/%2F/e/amq.topic/q/{name}", {"routing_key": f"{name}.#"})
    desk.put("/api/queues/%2F/graveyard")
    for key in ("one.a", "two.b"):
        message = {"routing_key": key, "payload": key, "payload_encoding": "string", "properties": {}}
        desk.ask("POST", "/api/exchanges/%2F/amq.topic/publish", message)
    reject = {"ackmode": "reject_requeue_false", "count": 10, "encoding": "auto"}
    for name in ("one", "two"):
        desk.ask("POST", f"/api/queues/%2F/{name}/get", reject)
    desk.publish("graveyard", "was never alive")
    assert len(payloads(desk, "graveyard")) == 3
    task = finished(desk, begin(desk, "return", queue="graveyard"))
    assert (task["done"], task["skipped"]) == (2, 1)
    assert payloads(desk, "graveyard") == ["was never alive"]
    (letter,) = desk.get("/api/queues/%2F/two/messages")["messages"]
    assert (letter["payload"], letter["exchange"], letter["routing_key"]) == ("two.b", "amq.topic", "two.b")
    assert letter["properties"]["headers"]["x-death"][0]["queue"] == "two"


def test_tasks_are_seen_and_cancelled(stocked: Desk) -> None:
    stocked.broker.alarms.set("memory", True)  # tasks wait like publishers
    task = begin(stocked, "copy", destination="target")
    assert stocked.get(f"/api/tasks/{task['id']}")["state"] == "running"
    assert [known["id"] for known in stocked.get("/api/tasks")] == [task["id"]]
    assert stocked.ask("DELETE", f"/api/tasks/{task['id']}").status == 204
    ended = finished(stocked, task)
    assert (ended["state"], ended["done"]) == ("cancelled", 0)
    assert stocked.ask("DELETE", f"/api/tasks/{task['id']}").status == 204
    for unknown in ("99", "x", "-1", "9" * 50):
        assert stocked.ask("GET", f"/api/tasks/{unknown}").status == 404


def test_a_deleted_queue_ends_the_task(stocked: Desk) -> None:
    stocked.broker.alarms.set("memory", True)  # it waits, so that the queue goes first
    task = begin(stocked, "move", destination="target")
    stocked.ask("DELETE", "/api/queues/%2F/target")
    stocked.broker.alarms.set("memory", False)
    assert finished(stocked, task)["state"] == "failed"
    assert len(payloads(stocked, "source")) == 10


def test_a_fault_of_ours_ends_the_task(stocked: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("embermq.broker.transfer.ready_from", fails)
    task = finished(stocked, begin(stocked, "move", destination="target"))
    assert task["state"] == "failed" and "log" in task["reason"]


def test_rights(stocked: Desk) -> None:
    rights = {"configure": ".*", "write": "^mine", "read": "^source"}
    stocked.put("/api/permissions/%2F/management", rights, status=204)
    for path, body in (
        ("source/messages/move", {"destination": "target"}),
        ("source/messages/copy", {"destination": "target"}),
        ("target/messages/delete", {}),
    ):
        reply = stocked.ask("POST", f"/api/queues/%2F/{path}", body, login="management:secret")
        assert reply.status == 401, path
    assert stocked.get("/api/tasks") == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"destination": "source"},
        {"destination": "target", "limit": 0},
        {"destination": "target", "filter": {"colour": "red"}},
        {"destination": "target", "filter": {"headers": "x"}},
        {"destination": "target", "filter": {"body": 5}},
        {"destination": 5},
    ],
)
def test_orders_that_cannot_be(stocked: Desk, body: dict[str, object]) -> None:
    status = stocked.ask("POST", "/api/queues/%2F/source/messages/move", body).status
    assert status == 400
    assert len(payloads(stocked, "source")) == 10


def test_only_so_many_at_a_time(stocked: Desk) -> None:
    stocked.broker.alarms.set("memory", True)
    for _ in range(16):
        begin(stocked, "copy", destination="target", limit=1)
    reply = stocked.ask("POST", "/api/queues/%2F/source/messages/copy", {"destination": "target"})
    assert reply.status == 400 and "16 tasks" in reply.reason
