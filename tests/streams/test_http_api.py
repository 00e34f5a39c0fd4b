"""Streams by HTTP: look-up without consuming, super streams."""

from __future__ import annotations

import time
from typing import Any

import pika
import pytest

from tests.streams.api import RefusedError, ask
from tests.support.pika_client import Client, eventually, unique
from tests.support.pika_streams import declare, fill, read_range
from tools.brokers import EmberBroker


def test_streams_have_a_list_of_their_own(reader: Client, stored: EmberBroker) -> None:
    stream, queue = declare(reader), unique("queue")
    ask(stored, "PUT", f"/queues/%2F/{queue}", {"durable": True})
    for path in ("/streams", "/streams/%2F"):
        names = [shown["name"] for shown in ask(stored, "GET", path)]
        assert stream in names and queue not in names
        assert names == sorted(names)
    page = ask(stored, "GET", f"/streams?page=1&name={stream}")
    assert [shown["name"] for shown in page["items"]] == [stream]


def test_a_stream_at_a_glance(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader, x_max_length_bytes=300_000, x_stream_max_segment_size_bytes=100_000)
    shown = ask(stored, "GET", f"/streams/%2F/{stream}")
    assert (shown["first_offset"], shown["next_offset"], shown["messages"], shown["segments"]) == (0, 0, 0, 0)
    fill(reader, stream, 200, size=5000)
    shown = ask(stored, "GET", f"/streams/%2F/{stream}")
    assert shown["next_offset"] == 200
    assert 0 < shown["first_offset"] <= 160
    assert shown["messages"] == 200 - shown["first_offset"]
    assert 100_000 < shown["bytes"] < 450_000
    parts = ask(stored, "GET", f"/streams/%2F/{stream}/segments")
    assert len(parts) == shown["segments"]
    assert parts[0]["first_offset"] == shown["first_offset"]
    assert parts[-1]["last_offset"] == 199
    assert sum(part["bytes"] for part in parts) == shown["bytes"]
    queue = ask(stored, "GET", f"/queues/%2F/{stream}")
    assert (queue["type"], queue["next_offset"], queue["first_offset"]) == (
        "stream",
        200,
        shown["first_offset"],
    )
    assert queue["messages"] == shown["messages"]


def test_offsets_of_times(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    fill(reader, stream, 3)
    time.sleep(0.02)
    between_ms = int(time.time() * 1000)
    time.sleep(0.02)
    fill(reader, stream, 3, first=3)

    def offset(query: str) -> Any:
        return ask(stored, "GET", f"/streams/%2F/{stream}/offset?{query}")["offset"]

    assert offset(f"timestamp={between_ms}") == 3
    assert offset("timestamp=0") == 0
    assert offset(f"timestamp={between_ms + 3_600_000}") == 6
    assert [offset(f"offset={place}") for place in ("first", "last", "next", "1h", "4")] == [0, 5, 6, 0, 4]
    for nonsense in ("", "timestamp=x", "offset=foo"):
        with pytest.raises(RefusedError, match="400"):
            offset(nonsense)


def test_only_streams_have_offsets(reader: Client, stored: EmberBroker) -> None:
    queue = reader.declare()
    with pytest.raises(RefusedError, match=r"400 queue .* is not a stream"):
        ask(stored, "GET", f"/streams/%2F/{queue}")
    with pytest.raises(RefusedError, match="404"):
        ask(stored, "GET", "/streams/%2F/nothing.there")
    reader.channel.queue_delete(queue)


def test_a_super_stream_by_hash(reader: Client, stored: EmberBroker) -> None:
    name = unique("super")
    path = f"/super-streams/%2F/{name}"
    ask(stored, "PUT", path, {"partitions": 3, "arguments": {"x-max-age": "7D"}})
    ask(stored, "PUT", path, {"partitions": 3, "arguments": {"x-max-age": "7D"}})
    shown = ask(stored, "GET", path)
    assert [part["name"] for part in shown["partitions"]] == [f"{name}-{number}" for number in range(3)]
    channel = reader.connection.channel()
    channel.confirm_delivery()
    for number in range(60):
        channel.basic_publish(name, f"customer {number % 20}", b"%d" % number, mandatory=True)
    found: dict[str, set[int]] = {}
    count = 0
    for part in shown["partitions"]:
        end = ask(stored, "GET", f"/streams/%2F/{part['name']}")["next_offset"]
        for one in read_range(reader, part["name"], "first", end):
            found.setdefault(part["name"], set()).add(int(one.body) % 20)
            count += 1
    assert count == 60
    customers = [customer for part in found.values() for customer in part]
    assert sorted(customers) == list(range(20))  # each in one partition, and all partitions used
    assert len(found) == 3
    with pytest.raises(RefusedError, match="has 3 partitions, not 4"):
        ask(stored, "PUT", path, {"partitions": 4})
    assert [one["name"] for one in ask(stored, "GET", "/super-streams/%2F")] == [name]
    ask(stored, "DELETE", path)
    assert ask(stored, "GET", "/super-streams/%2F") == []
    assert not reader.exists(f"{name}-0")


def test_a_super_stream_that_cannot_be_made_leaves_nothing_behind(
    reader: Client, stored: EmberBroker
) -> None:
    name = unique("super")
    path = f"/super-streams/%2F/{name}"
    reader.channel.queue_declare(f"{name}-0", durable=True, arguments={"x-queue-type": "stream"})
    reader.channel.queue_declare(f"{name}-2", durable=True)
    with pytest.raises(RefusedError, match="inequivalent arg 'x-queue-type'"):
        ask(stored, "PUT", path, {"partitions": 3})
    assert ask(stored, "GET", "/super-streams/%2F") == []
    assert [reader.exists(f"{name}-{number}") for number in range(3)] == [True, False, True]
    reader.channel.queue_delete(f"{name}-2")
    ask(stored, "PUT", path, {"partitions": 3})
    assert len(ask(stored, "GET", path)["partitions"]) == 3
    ask(stored, "DELETE", path)


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ("super-streams", {"routing_keys": ["europe", "asia"]}),
        ("stream/super-streams", {"binding-keys": "europe,asia"}),  # as RabbitMQ has it
    ],
)
def test_a_super_stream_by_key(reader: Client, stored: EmberBroker, place: str, keys: Any) -> None:
    name = unique("super")
    path = f"/super-streams/%2F/{name}"
    ask(stored, "PUT", f"/{place}/%2F/{name}", keys)
    channel = reader.connection.channel()
    channel.confirm_delivery()
    channel.basic_publish(name, "asia", b"a", mandatory=True)
    channel.basic_publish(name, "europe", b"e", mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(name, "mars", b"m", mandatory=True)
    assert [one.body for one in read_range(reader, f"{name}-0", "first", 1)] == [b"e"]
    assert [one.body for one in read_range(reader, f"{name}-1", "first", 1)] == [b"a"]
    ask(stored, "DELETE", path)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"partitions": 0},
        {"partitions": "x"},
        {"routing_keys": []},
        {"routing_keys": [1]},
        {"binding-keys": 1},
    ],
)
def test_super_streams_that_cannot_be(stored: EmberBroker, body: Any) -> None:
    name = unique("super")
    with pytest.raises(RefusedError, match="400"):
        ask(stored, "PUT", f"/super-streams/%2F/{name}", body)
    with pytest.raises(RefusedError, match="404"):
        ask(stored, "GET", f"/exchanges/%2F/{name}")


def test_a_policy_holds_at_once(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader, x_stream_max_segment_size_bytes=100_000)
    fill(reader, stream, 100, size=5000)
    assert ask(stored, "GET", f"/streams/%2F/{stream}")["first_offset"] == 0
    definition = {"max-length-bytes": 200_000}
    body = {"pattern": f"^{stream}$", "definition": definition, "apply-to": "streams"}
    ask(stored, "PUT", f"/policies/%2F/{stream}", body)
    eventually(lambda: ask(stored, "GET", f"/streams/%2F/{stream}")["first_offset"] >= 60)
    ask(stored, "DELETE", f"/policies/%2F/{stream}")
    fill(reader, stream, 100, first=100, size=5000)
    assert ask(stored, "GET", f"/streams/%2F/{stream}")["messages"] > 100
