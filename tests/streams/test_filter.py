"""Consumers that want only some messages of a stream."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.streams.api import ask
from tests.support.pika_client import Client
from tests.support.pika_streams import declare, fill, offsets, read, read_range
from tools.brokers import EmberBroker

VALUE = "x-stream-filter-value"


def mixed(client: Client, stream: str, count: int = 12, size: int = 0) -> None:
    """Values a, b and none, in turn."""
    channel = client.connection.channel()
    channel.confirm_delivery()
    for number in range(count):
        headers: dict[str, Any] = {"number": number % 2}
        if number % 3 < 2:
            headers[VALUE] = "ab"[number % 3]
        body = (b"%d" % number).ljust(size)
        channel.basic_publish("", stream, body, pika.BasicProperties(headers=headers))
    channel.close()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"x_stream_filter": "a"}, [0, 3, 6, 9]),
        ({"x_stream_filter": ["a", "b"]}, [0, 1, 3, 4, 6, 7, 9, 10]),
        ({"x_stream_filter": "b", "x_stream_match_unfiltered": True}, [1, 2, 4, 5, 7, 8, 10, 11]),
        ({"x_stream_filter": "c"}, []),
        ({"x_stream_filter_headers": {"number": 1}}, [1, 3, 5, 7, 9, 11]),
        ({"x_stream_filter": "a", "x_stream_filter_headers": {"number": 1}}, [3, 9]),
        ({"x_stream_filter_headers": {"number": 1, "more": "x"}}, []),
        ({"x_stream_filter": []}, list(range(12))),
    ],
)
def test_only_what_is_wanted(reader: Client, arguments: dict[str, Any], expected: list[int]) -> None:
    stream = declare(reader)
    mixed(reader, stream)
    assert offsets(read_range(reader, stream, "first", 12, **arguments)) == expected
    if expected:
        seen = read(reader, stream, len(expected), prefetch=2, x_stream_offset="first", **arguments)
        assert offsets(seen) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-stream-filter", 5),
        ("x-stream-filter", ["a", 5]),
        ("x-stream-match-unfiltered", "yes"),
        ("x-stream-filter-headers", "x"),
    ],
)
def test_wishes_that_are_none(reader: Client, name: str, value: Any) -> None:
    stream = declare(reader)
    reader.channel.basic_qos(prefetch_count=1)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        reader.channel.basic_consume(stream, print, arguments={name: value})
    assert f"invalid arg '{name}'" in closed.value.reply_text


def test_segments_are_skipped_across_restarts(stored: EmberBroker) -> None:
    """What is skipped and what is read must be the same messages, whatever segments and filters there are."""
    with Client(stored.port) as client:
        stream = declare(client, x_stream_max_segment_size_bytes=100_000)
        for part in ("red", "green", "blue"):
            fill(client, stream, 60, size=5000, headers={VALUE: part})
        fill(client, stream, 30, size=5000)
        fill(client, stream, 30, size=5000, headers={VALUE: "red"})

    def check(client: Client) -> None:
        red = [*range(60), *range(210, 240)]
        assert offsets(read_range(client, stream, 0, 240, x_stream_filter="red")) == red
        assert offsets(read_range(client, stream, 0, 240, x_stream_filter="blue")) == list(range(120, 180))
        assert read_range(client, stream, 0, 240, x_stream_filter="white") == []
        seen = read_range(client, stream, 0, 240, x_stream_filter="green", x_stream_match_unfiltered=True)
        assert offsets(seen) == [*range(60, 120), *range(180, 210)]

    with Client(stored.port) as client:
        check(client)
    stored.kill()
    stored.start()
    with Client(stored.port) as client:
        check(client)
        fill(client, stream, 30, first=240, size=5000, headers={VALUE: "white"})
        assert offsets(read_range(client, stream, 0, 270, x_stream_filter="white")) == list(range(240, 270))
    directories = [path for path in (stored.data_dir / "queues").iterdir() if list(path.glob("*.filter"))]
    assert len(directories) == 1
    assert len(list(directories[0].glob("*.filter"))) >= len(ask_segments(stored, stream)) - 3


def ask_segments(stored: EmberBroker, stream: str) -> list[Any]:
    found: list[Any] = ask(stored, "GET", f"/streams/%2F/{stream}/segments")
    return found


def test_filters_go_with_their_segments(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader, x_stream_max_segment_size_bytes=100_000, x_max_length_bytes=300_000)
    fill(reader, stream, 200, size=5000, headers={VALUE: "x"})
    first = ask(stored, "GET", f"/streams/%2F/{stream}")["first_offset"]
    assert first > 0
    assert offsets(read_range(reader, stream, 0, 200, x_stream_filter="x")) == list(range(first, 200))


def test_a_name_moves_on_over_what_is_not_wanted(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    mixed(reader, stream)
    wishes: dict[str, Any] = {"x_stream_consumer": "app", "x_stream_filter": "b"}
    assert offsets(read(reader, stream, 4, prefetch=1, x_stream_offset="first", **wishes)) == [1, 4, 7, 10]
    assert ask(stored, "GET", f"/streams/%2F/{stream}/tracking")["app"] == 10
