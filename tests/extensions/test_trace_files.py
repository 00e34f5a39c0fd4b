"""Traces to files: what is published and delivered, in both formats, with an end to everything."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from embermq.http import trace_writer as trace_files
from tests.access.tenant import Reply, ask, make_user
from tests.support.pika_client import eventually
from tools.brokers import EmberBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmberBroker]:
    with EmberBroker() as broker:
        yield broker


def start(broker: EmberBroker, name: str, vhost: str = "/", **body: object) -> Reply:
    return ask(broker, "PUT", "traces", vhost, name, body={"format": "text", "pattern": "#", **body})


def read(broker: EmberBroker, file: str) -> str:
    request = urllib.request.Request(
        f"{broker.http_url}/api/trace-files/{file}", headers={"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        text = str(response.read().decode())
        assert not text or response.headers["content-type"].startswith("text/plain")
        return text


def send_and_get(broker: EmberBroker, body: bytes = b"hello world") -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("traced")
        channel.confirm_delivery()
        channel.basic_publish("", "traced", body, pika.BasicProperties("text/plain", headers={"a": 1}))
        channel.basic_get("traced", auto_ack=True)


def tracing(broker: EmberBroker) -> bool:
    return bool(ask(broker, "GET", "vhosts", "/").json["tracing"])


def test_both_formats(broker: EmberBroker) -> None:
    assert start(broker, "text", max_payload_bytes=5).status == 201
    assert start(broker, "lines", format="json", pattern="deliver.#").status == 201
    assert tracing(broker)
    shown = ask(broker, "GET", "traces").json
    assert [(trace["name"], trace["format"], trace["pattern"]) for trace in shown] == [
        ("text", "text", "#"),
        ("lines", "json", "deliver.#"),
    ]
    node = ask(broker, "GET", "overview").json["node"]
    assert ask(broker, "GET", "traces", "node", node, "/", "text").json["max_payload_bytes"] == 5
    assert ask(broker, "GET", "traces", "node", "elsewhere").status == 404
    send_and_get(broker)
    text = eventually(lambda: "received" in (found := read(broker, "text.log")) and found)
    for line in (
        "Message published",
        "Message received",
        'Routing keys:  ["traced"]',
        'Routed queues: ["traced"]',
        "Queue:         traced",
        "User:          guest",
        'Properties:    {"content_type": "text/plain", "headers": {"a": 1}}',
        "Payload:\nhello\n",
    ):
        assert line in text
    assert ask(broker, "DELETE", "traces", "/", "text").status == 204
    assert tracing(broker), "the other goes on"
    assert ask(broker, "DELETE", "traces", "/", "lines").status == 204
    assert not tracing(broker)
    (line,) = read(broker, "lines.log").splitlines()
    record = json.loads(line)
    assert (record["type"], record["queue"], record["exchange"]) == ("received", "traced", "")
    assert base64.b64decode(record["payload"]) == b"hello world"
    assert record["properties"] == {"content_type": "text/plain", "headers": {"a": 1}}
    assert ask(broker, "DELETE", "traces", "/", "lines").status == 404
    sizes = {file["name"]: file["size"] for file in ask(broker, "GET", "trace-files").json}
    assert sizes == {"text.log": len(text.encode()), "lines.log": len(line) + 1}
    for file in sizes:
        assert ask(broker, "DELETE", "trace-files", file).status == 204
    assert ask(broker, "GET", "trace-files").json == []
    assert not [queue for queue in ask(broker, "GET", "queues").json if queue["name"].startswith("amq.gen")]


def test_what_is_refused(broker: EmberBroker) -> None:
    for name, body, reason in (
        ("x", {"format": "odd"}, "format not json or text"),
        ("..", {}, "the name of a trace"),
        ("a/b", {}, "the name of a trace"),
        (".hidden", {}, "the name of a trace"),
        ("x", {"max_payload_bytes": -1}, "max_payload_bytes must be"),
        ("x", {"pattern": "p" * 256}, "too long"),
    ):
        refused = start(broker, name, **body)
        assert refused.status == 400 and reason in refused.json["reason"], refused
    assert "key_missing" in ask(broker, "PUT", "traces", "/", "x", body={}).json["reason"]
    assert start(broker, "x", vhost="nowhere").status == 404
    for file in ("../VERSION", "definitions.sqlite", "nothing.log", ".log"):
        assert ask(broker, "GET", "trace-files", file).status == 404
        assert ask(broker, "DELETE", "trace-files", file).status == 404
    make_user(broker, "watcher", tags="monitoring")
    assert ask(broker, "GET", "traces", login="watcher:watcher").status == 401


def test_a_trace_goes_with_its_virtual_host(broker: EmberBroker) -> None:
    assert ask(broker, "PUT", "vhosts", "passing").status == 201
    assert start(broker, "gone", vhost="passing").status == 201
    assert start(broker, "gone").status == 400, "it has the file"
    assert ask(broker, "DELETE", "vhosts", "passing").status == 204
    assert ask(broker, "GET", "traces").json == []
    assert ask(broker, "DELETE", "trace-files", "gone.log").status == 204


def test_a_long_file_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "FILE_BYTES_MAX", 100)
    path = tmp_path / "long.log"
    for number in range(5):
        trace_files.append(str(path), bytes([48 + number]) * 40)
    assert path.read_bytes() == b"4" * 40
    assert (tmp_path / "long.log.1").read_bytes() == b"2" * 40 + b"3" * 40
