"""Consumers with names: where they were is kept, and only one of a name reads."""

from __future__ import annotations

import time
from typing import Any

import pika
import pytest

from tests.streams.api import RefusedError, ask
from tests.support.pika_client import Client, eventually, unique
from tests.support.pika_streams import declare, fill, offsets, read
from tools.brokers import EmberBroker


class Member:
    """A consumer that takes what comes; it acks when told."""

    def __init__(self, port: int, stream: str, prefetch: int = 5, **arguments: Any) -> None:
        self.client = Client(port)
        self.channel = self.client.channel
        self.channel.basic_qos(prefetch_count=prefetch)
        self.tags: dict[int, int] = {}  # by offset
        arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.channel.basic_consume(stream, self.on_message, arguments=arguments)

    def on_message(self, _channel: Any, method: Any, properties: Any, _body: bytes) -> None:
        self.tags[properties.headers["x-stream-offset"]] = method.delivery_tag

    def has(self, count: int) -> bool:
        self.client.connection.process_data_events(0.02)
        return len(self.tags) >= count

    def ack(self, *found: int) -> None:
        for offset in found:
            self.channel.basic_ack(self.tags[offset])

    def leave(self) -> None:
        self.client.connection.process_data_events(0.02)
        self.client.connection.close()


def tracked(broker: EmberBroker, stream: str, name: str) -> Any:
    return ask(broker, "GET", f"/streams/%2F/{stream}/tracking").get(name)


def test_a_name_goes_on_where_it_was(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    fill(reader, stream, 20)
    member = Member(stored.port, stream, x_stream_consumer="app", x_stream_offset="first")
    eventually(lambda: member.has(5))
    member.ack(0, 1, 2)
    eventually(lambda: member.has(8))
    member.leave()
    again = Member(stored.port, stream, x_stream_consumer="app", x_stream_offset="first")
    eventually(lambda: again.has(5))
    assert min(again.tags) == 3
    again.leave()
    other = Member(stored.port, stream, x_stream_consumer="other", x_stream_offset="first")
    eventually(lambda: other.has(5))
    assert min(other.tags) == 0
    other.leave()


def test_acks_out_of_order_skip_nothing(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    fill(reader, stream, 10)
    member = Member(stored.port, stream, prefetch=10, x_stream_consumer="app", x_stream_offset="first")
    eventually(lambda: member.has(10))
    member.ack(5, 1, 9)
    eventually(lambda: tracked(stored, stream, "app") == 0)
    member.ack(0)
    eventually(lambda: tracked(stored, stream, "app") == 2)
    member.ack(2, 3, 4)
    eventually(lambda: tracked(stored, stream, "app") == 6)
    member.ack(6, 7, 8)
    eventually(lambda: tracked(stored, stream, "app") == 10)
    member.leave()


def test_what_is_given_back_is_read_again(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    fill(reader, stream, 10)
    member = Member(stored.port, stream, prefetch=10, x_stream_consumer="app", x_stream_offset="first")
    eventually(lambda: member.has(10))
    member.ack(0, 1, 2)
    member.channel.basic_reject(member.tags[3], requeue=False)
    eventually(lambda: tracked(stored, stream, "app") == 4)
    member.channel.basic_nack(member.tags[5], requeue=True)
    member.ack(4, 6, 7, 8, 9)
    eventually(lambda: tracked(stored, stream, "app") == 5)
    member.leave()
    again = Member(stored.port, stream, prefetch=10, x_stream_consumer="app", x_stream_offset="first")
    eventually(lambda: again.has(5))
    assert min(again.tags) == 5
    again.leave()


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_names_survive(stored: EmberBroker, way: str) -> None:
    with Client(stored.port) as client:
        stream = declare(client)
        fill(client, stream, 20)
        member = Member(stored.port, stream, x_stream_consumer="app", x_stream_offset="first")
        eventually(lambda: member.has(5))
        member.ack(0, 1, 2, 3)
        eventually(lambda: tracked(stored, stream, "app") == 4)
        if way == "kill":
            time.sleep(1.2)  # acks of the last half second may be forgotten
        else:
            member.leave()
    if way == "kill":
        stored.kill()
        member.client.leave()
        stored.start()
    else:
        stored.restart()
    assert tracked(stored, stream, "app") == 4
    with Client(stored.port) as client:
        seen = read(client, stream, 5, x_stream_consumer="app", x_stream_offset="first")
    assert offsets(seen) == [4, 5, 6, 7, 8]


def test_one_of_a_name_reads(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    fill(reader, stream, 10)
    first = Member(stored.port, stream, x_stream_consumer="app", x_stream_offset="first")
    eventually(lambda: first.has(5))
    second = Member(stored.port, stream, x_stream_consumer="app", x_stream_offset="first")
    third = Member(stored.port, stream, x_stream_consumer="app", x_stream_offset="first")
    first.ack(0, 1)
    eventually(lambda: first.has(7))
    assert not second.has(1)
    shown = ask(stored, "GET", f"/streams/%2F/{stream}")
    assert [consumer["active"] for consumer in shown["consumers"]] == [True, False, False]
    assert [consumer["name"] for consumer in shown["consumers"]] == ["app"] * 3
    third.leave()
    first.leave()
    eventually(lambda: second.has(5))
    assert min(second.tags) == 2
    second.leave()


def members_of(stored: EmberBroker, streams: list[str], prefetch: int = 5) -> list[Member]:
    """One program that reads all partitions: connected to each in turn."""
    return [
        Member(stored.port, stream, prefetch, x_stream_consumer="app", x_stream_offset="first")
        for stream in streams
    ]


def test_partitions_are_shared_out(reader: Client, stored: EmberBroker) -> None:
    name = unique("super")
    ask(stored, "PUT", f"/super-streams/%2F/{name}", {"partitions": 2})
    streams = [f"{name}-{number}" for number in range(2)]
    for stream in streams:
        fill(reader, stream, 20)
    first = members_of(stored, streams)
    eventually(lambda: first[0].has(5) and first[1].has(5))
    second = members_of(stored, streams)
    first[0].ack(0)
    first[1].ack(0, 1, 2, 3)
    eventually(lambda: first[0].has(6))  # its own partition: it goes on
    assert not second[1].has(1), "what is out with the first is not read by the second at the same time"
    assert not first[1].has(6)
    first[1].ack(4)
    eventually(lambda: second[1].has(5))
    assert min(second[1].tags) == 5
    assert sorted(first[1].tags) == [0, 1, 2, 3, 4]
    assert not second[0].has(1)
    second[1].ack(5)
    eventually(lambda: second[1].has(6))
    for member in second:
        member.leave()
    eventually(lambda: first[1].has(10))
    assert sorted(first[1].tags)[5:10] == [6, 7, 8, 9, 10], "and back to the first, from where the second was"
    for member in first:
        member.leave()
    ask(stored, "DELETE", f"/super-streams/%2F/{name}")


@pytest.mark.parametrize("whose", ["stream", "consumer"])
def test_a_single_active_consumer(reader: Client, stored: EmberBroker, whose: str) -> None:
    single = {"x_single_active_consumer": True}
    stream = declare(reader, **(single if whose == "stream" else {}))
    fill(reader, stream, 10)
    mine: dict[str, Any] = single if whose == "consumer" else {}
    first = Member(stored.port, stream, x_stream_offset="first", **mine)
    eventually(lambda: first.has(5))
    second = Member(stored.port, stream, x_stream_offset="first", **mine)
    assert not second.has(1)
    first.ack(0, 1, 2)
    first.leave()
    eventually(lambda: second.has(5))
    assert sorted(second.tags)[:5] == [3, 4, 5, 6, 7]
    second.leave()


@pytest.mark.parametrize("name", ["", 5, "x" * 256])
def test_names_that_are_none(reader: Client, name: Any) -> None:
    stream = declare(reader)
    reader.channel.basic_qos(prefetch_count=1)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-stream-consumer"):
        reader.channel.basic_consume(stream, print, arguments={"x-stream-consumer": name})


def test_places_can_be_set(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    fill(reader, stream, 10)
    path = f"/streams/%2F/{stream}/tracking/app"
    ask(stored, "PUT", path, {"offset": 6})
    assert offsets(read(reader, stream, 4, x_stream_consumer="app")) == [6, 7, 8, 9]
    ask(stored, "DELETE", path)
    assert ask(stored, "GET", f"/streams/%2F/{stream}/tracking") == {}
    with pytest.raises(RefusedError, match="404"):
        ask(stored, "DELETE", path)
    member = Member(stored.port, stream, x_stream_consumer="app", x_stream_offset="first")
    eventually(lambda: member.has(5))
    assert min(member.tags) == 0
    with pytest.raises(RefusedError, match="is reading"):
        ask(stored, "PUT", path, {"offset": 6})
    member.leave()


def test_a_new_stream_knows_no_names(reader: Client, stored: EmberBroker) -> None:
    stream = declare(reader)
    ask(stored, "PUT", f"/streams/%2F/{stream}/tracking/app", {"offset": 6})
    reader.channel.queue_delete(stream)
    declare(reader, stream)
    assert ask(stored, "GET", f"/streams/%2F/{stream}/tracking") == {}
