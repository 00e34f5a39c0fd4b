"""Server-sent events over real connections: numbers, changes, permissions, and when they end."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from embermq.http.stats import live
from tests.support.http_api import Desk
from tests.support.management import Management
from tools.brokers import EmberBroker


@pytest.fixture
def ember() -> Iterator[EmberBroker]:
    with EmberBroker() as running:
        yield running


class Events:
    """The events that come over one connection."""

    def __init__(self, broker: EmberBroker, login: str = "guest:guest", **headers: str) -> None:
        self.connection = http.client.HTTPConnection(broker.host, broker.http_port, timeout=60)
        if login:
            headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        self.connection.request("GET", "/api/stream", headers=headers)
        self.answer = self.connection.getresponse()

    def next(self) -> tuple[str, Any] | None:
        """None at the end."""
        name = ""
        while line := self.answer.readline():
            key, _, value = line.decode().strip().partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                return name, json.loads(value)
        return None

    def until(self, wanted: str) -> Any:
        while True:
            event = self.next()
            assert event is not None, f"ended without {wanted}"
            if event[0] == wanted:
                return event[1]

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


@contextlib.contextmanager
def events(broker: EmberBroker, login: str = "guest:guest", **headers: str) -> Iterator[Events]:
    found = Events(broker, login, **headers)
    try:
        yield found
    finally:
        found.close()


def test_numbers_rates_and_changes(ember: EmberBroker) -> None:
    parameters = pika.ConnectionParameters(ember.host, ember.port)
    with events(ember) as found, pika.BlockingConnection(parameters) as connection:
        assert found.answer.headers["content-type"] == "text/event-stream"
        channel = connection.channel()
        found.until("overview")
        channel.queue_declare("q")
        while "queues" not in found.until("change")["lists"]:
            pass
        for _ in range(50):
            channel.basic_publish("", "q", b"x")
        while (told := found.until("overview"))["queue_totals"]["messages_ready"] < 50:
            pass
        assert told["message_stats"]["publish"] == 50
        assert told["message_stats"]["publish_details"]["rate"] > 0
        assert told["object_totals"]["queues"] == 1 and told["alarms"] == []
        assert found.until("node")["mem_used"] > 0


def test_a_user_sees_its_virtual_hosts_only(ember: EmberBroker) -> None:
    management = Management(ember)
    for path, body in (
        ("vhosts/theirs", {}),
        ("users/alice", {"password": "alice", "tags": "management"}),
        ("permissions/theirs/alice", {"configure": "", "write": "", "read": ""}),
    ):
        assert management.ask("PUT", path, body)[0] == 201
    with events(ember, "alice:alice") as found:
        found.until("overview")
        management.ask("PUT", "queues/%2F/unseen", {})
        management.ask("PUT", "users/bob", {"password": "bob", "tags": ""})
        assert found.next()[0] == "overview"  # type: ignore[index]
        management.ask("PUT", "queues/theirs/seen", {})
        seen = []
        while not seen or seen[-1][0] != "change":
            seen.append(found.next() or ("ended", {}))
        assert seen[-1][1]["lists"] == ["queues"] and "node" not in dict(seen)
        assert found.until("overview")["object_totals"]["queues"] == 1


def test_it_ends_with_the_session_and_with_the_password(ember: EmberBroker) -> None:
    management = Management(ember)
    management.ask("PUT", "users/alice", {"password": "alice", "tags": "management"})
    connection = http.client.HTTPConnection(ember.host, ember.http_port, timeout=60)
    connection.request("POST", "/api/session", json.dumps({"username": "alice", "password": "alice"}))
    answer = connection.getresponse()
    answer.read()
    cookie = answer.headers["set-cookie"].partition(";")[0]
    with events(ember, "alice:alice") as by_password, events(ember, "", Cookie=cookie) as by_cookie:
        by_password.until("overview")
        by_cookie.until("overview")
        connection.request("DELETE", "/api/session", headers={"Cookie": cookie})
        connection.getresponse().read()
        while by_cookie.next() is not None:
            pass
        assert by_password.next() is not None
        management.ask("PUT", "users/alice", {"password": "other", "tags": "management"})
        while by_password.next() is not None:
            pass
    connection.close()


def test_no_login_no_events(ember: EmberBroker) -> None:
    with events(ember, "") as found:
        assert found.answer.status == 401


def test_so_many_listeners_and_those_that_do_not_read_are_dropped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.api.context.live.listener_count = live.LISTENERS_MAX
    reply = desk.ask("GET", "/api/stream")
    assert (reply.status, reply.reason) == (503, "there are too many listeners")
    desk.api.context.live.listener_count = 0
    assert desk.ask("GET", "/api/stream").status == 200
    assert desk.api.context.live.task is None  # nothing is computed before the answer is sent


def test_a_client_that_has_gone_is_noticed(ember: EmberBroker) -> None:
    """Its place is free for the next one."""
    found = [Events(ember) for _ in range(live.LISTENERS_MAX)]
    assert {one.answer.status for one in found} == {200}
    found[0].until("overview")
    with events(ember) as late:
        assert late.answer.status == 503
    for one in found:
        one.close()
    deadline = time.monotonic() + 60
    again: list[Events] = []
    while len(again) < live.LISTENERS_MAX:
        another = Events(ember)
        if another.answer.status == 200:
            again.append(another)
        assert time.monotonic() < deadline
    for one in again:
        one.close()
