"""Streams as RabbitMQ has them over AMQP 0-9-1: these tests pass with RabbitMQ too."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pika
import pytest

from tests.support.pika_client import Client, eventually, unique
from tests.support.pika_streams import declare, fill, offsets, read


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(
        (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker)
    ) as e:
        call()
    return e.value.reply_code, e.value.reply_text


def test_many_read_the_same_messages(connect: Callable[[], Client]) -> None:
    writer, first, second = connect(), connect(), connect()
    stream = declare(writer)
    fill(writer, stream, 10, headers={"kind": "x"}, content_type="text/plain", delivery_mode=2)
    for reader in (first, second, first):
        seen = read(reader, stream, 10, x_stream_offset="first")
        assert offsets(seen) == list(range(10))
        assert [one.body for one in seen] == [b"%d" % number for number in range(10)]
        assert all(one.headers == {"kind": "x"} for one in seen)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [("first", [0, 1, 2, 3]), (0, [0, 1, 2, 3]), (2, [2, 3]), ("last", [3]), (-1, [0, 1, 2, 3])],
)
def test_places_to_begin(client: Client, offset: Any, expected: list[int]) -> None:
    stream = declare(client)
    fill(client, stream, 4)
    assert offsets(read(client, stream, len(expected), x_stream_offset=offset)) == expected


@pytest.mark.parametrize("offset", ["1h", "7D", "2M", "1Y", "30m", "600s"])
def test_a_time_ago(client: Client, offset: str) -> None:
    stream = declare(client)
    fill(client, stream, 3)
    assert offsets(read(client, stream, 3, x_stream_offset=offset)) == [0, 1, 2]


@pytest.mark.parametrize("arguments", [{}, {"x-stream-offset": "next"}, {"x-stream-offset": "future"}])
def test_only_what_comes_from_now_on(client: Client, arguments: dict[str, Any]) -> None:
    stream = declare(client)
    fill(client, stream, 3)
    if arguments.get("x-stream-offset") == "future":
        arguments = {"x-stream-offset": datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)}
    channel = client.connection.channel()
    channel.basic_qos(prefetch_count=10)
    bodies: list[bytes] = []
    channel.basic_consume(stream, lambda _c, _m, _p, body: bodies.append(body), arguments=arguments)
    fill(client, stream, 2, first=3)
    while len(bodies) < 2:
        client.connection.process_data_events(0.05)
    assert bodies == [b"3", b"4"]


@pytest.mark.parametrize(("offset", "expected"), [(7, [7, 8, 9]), ("last", range(10)), ("first", range(10))])
def test_an_offset_that_is_to_come(client: Client, offset: Any, expected: Iterable[int]) -> None:
    stream = declare(client)
    channel = client.connection.channel()
    channel.basic_qos(prefetch_count=10)
    bodies: list[bytes] = []
    channel.basic_consume(
        stream, lambda _c, _m, _p, body: bodies.append(body), arguments={"x-stream-offset": offset}
    )
    fill(client, stream, 10)
    while b"9" not in bodies:
        client.connection.process_data_events(0.05)
    assert bodies == [b"%d" % number for number in expected]


def test_credit_is_given_by_acks(client: Client) -> None:
    stream = declare(client)
    fill(client, stream, 20)
    channel = client.connection.channel()
    channel.basic_qos(prefetch_count=3)
    tags: list[int] = []
    arguments = {"x-stream-offset": "first"}
    channel.basic_consume(stream, lambda _c, m, _p, _b: tags.append(m.delivery_tag), arguments=arguments)
    while len(tags) < 3:
        client.connection.process_data_events(0.05)
    client.connection.process_data_events(0.3)
    assert tags == [1, 2, 3]
    channel.basic_ack(2, multiple=True)
    while len(tags) < 5:
        client.connection.process_data_events(0.05)
    client.connection.process_data_events(0.3)
    assert tags == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"durable": False}, "invalid property 'non-durable' for queue '{}' in vhost '/'"),
        ({"exclusive": True}, "invalid property 'exclusive-owner' for queue '{}' in vhost '/'"),
        ({"auto_delete": True}, "invalid property 'auto-delete' for queue '{}' in vhost '/'"),
    ],
)
def test_streams_are_there_to_stay(client: Client, properties: dict[str, Any], expected: str) -> None:
    name = unique("stream")
    arguments = {"durable": True, "arguments": {"x-queue-type": "stream"}, **properties}
    code, text = refusal(lambda: client.channel.queue_declare(name, **arguments))
    assert (code, text) == (406, "PRECONDITION_FAILED - " + expected.format(name))


def test_streams_have_names(client: Client) -> None:
    code, text = refusal(
        lambda: client.channel.queue_declare("", durable=True, arguments={"x-queue-type": "stream"})
    )
    assert code == 406
    assert text == ("PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_stream_queue")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("x-max-length", 10, " of queue type rabbit_stream_queue"),
        ("x-message-ttl", 10, " of queue type rabbit_stream_queue"),
        ("x-dead-letter-exchange", "x", " of queue type rabbit_stream_queue"),
        ("x-max-priority", 3, " of queue type rabbit_stream_queue"),
        ("x-max-age", "1x", ": invalid_max_age"),
        ("x-max-age", "0h", ": invalid_max_age"),
        ("x-max-age", 5, ": {unacceptable_type,signedint}"),
        ("x-max-length-bytes", -1, ": {value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", -5, ": {value_negative,-5}"),
    ],
)
def test_arguments_that_a_stream_refuses(client: Client, name: str, value: object, expected: str) -> None:
    stream = unique("stream")
    code, text = refusal(lambda: declare(client, stream, **{name: value}))
    assert code == 406
    assert text == f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{stream}' in vhost '/'{expected}"


@pytest.mark.parametrize("name", ["x-max-age", "x-stream-max-segment-size-bytes"])
def test_arguments_that_only_a_stream_has(client: Client, name: str) -> None:
    value: Any = "1h" if name == "x-max-age" else 1_000_000
    queue = unique()
    _, text = refusal(lambda: client.declare(queue, **{name: value}))
    assert text == (
        f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' in vhost '/' "
        "of queue type rabbit_classic_queue"
    )


def test_a_stream_is_no_other_queue(connect: Callable[[], Client]) -> None:
    client = connect()
    stream = declare(client, x_max_age="1h")
    assert declare(client, stream, x_max_age="1h") == stream
    _, text = refusal(lambda: client.declare(stream, durable=True))
    assert text == (
        f"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '{stream}' in vhost '/': "
        "received none but current is the value 'stream' of type 'longstr'"
    )
    other = connect()
    _, text = refusal(lambda: declare(other, stream, x_max_age="2h"))
    assert text.endswith("received '2h' but current is '1h'")


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda channel, name: channel.basic_get(name), "basic.get"),
        (lambda channel, name: channel.queue_purge(name), "queue.purge"),
        (
            lambda channel, name: channel.basic_consume(name, print, auto_ack=True),
            "automatic acknowledgement",
        ),
    ],
)
def test_what_streams_cannot_do(client: Client, act: Callable[..., object], expected: str) -> None:
    stream = declare(client)
    client.channel.basic_qos(prefetch_count=1)
    code, text = refusal(lambda: act(client.channel, stream))
    assert (code, text) == (
        540,
        f"NOT_IMPLEMENTED - {expected} not supported by stream queues queue '{stream}' in vhost '/'",
    )


@pytest.mark.parametrize("way", ["nack", "requeue", "reject", "recover"])
def test_what_is_given_back_is_credit(client: Client, way: str) -> None:
    """As RabbitMQ 4: clients such as pika give back what they have in hand when they leave."""
    stream = declare(client)
    fill(client, stream, 4)
    channel = client.channel
    channel.basic_qos(prefetch_count=1)
    seen: list[int] = []

    def on_message(_channel: Any, method: Any, properties: Any, _body: bytes) -> None:
        seen.append(properties.headers["x-stream-offset"])
        if way == "reject":
            channel.basic_reject(method.delivery_tag, requeue=False)
        elif way != "recover":
            channel.basic_nack(method.delivery_tag, requeue=way == "requeue")

    channel.basic_consume(stream, on_message, arguments={"x-stream-offset": "first"})

    def has(count: int) -> bool:
        client.connection.process_data_events(0.02)
        return len(seen) >= count

    if way == "recover":
        for count in range(1, 4):
            eventually(partial(has, count))
            channel.basic_recover(requeue=count % 2 == 0)
    eventually(partial(has, 4))
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("channel_wide", [None, True])
def test_a_consumer_sets_its_prefetch(client: Client, channel_wide: bool | None) -> None:
    stream = declare(client)
    if channel_wide:
        client.channel.basic_qos(prefetch_count=10, global_qos=True)
    assert refusal(lambda: client.channel.basic_consume(stream, print)) == (
        406,
        f"PRECONDITION_FAILED - consumer prefetch count is not set for 'queue '{stream}' in vhost '/''",
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"x-stream-offset": "1x"}, ': {invalid_stream_offset_arg,{longstr,<<"1x">>}}'),
        ({"x-priority": 1}, " of queue type rabbit_stream_queue"),
    ],
)
def test_arguments_of_consumers(client: Client, arguments: dict[str, Any], expected: str) -> None:
    stream = declare(client)
    client.channel.basic_qos(prefetch_count=1)
    name = next(iter(arguments))
    assert refusal(lambda: client.channel.basic_consume(stream, print, arguments=arguments)) == (
        406,
        f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{stream}' in vhost '/'{expected}",
    )


def test_an_offset_is_for_streams(client: Client) -> None:
    queue = client.declare()
    arguments = {"x-stream-offset": "first"}
    _, text = refusal(lambda: client.channel.basic_consume(queue, print, arguments=arguments))
    assert text == (
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{queue}' in vhost '/' "
        "of queue type rabbit_classic_queue"
    )


def test_properties_stay_as_they_were(client: Client) -> None:
    stream = declare(client)
    properties = {
        "content_type": "application/json", "content_encoding": "gzip", "priority": 7, "expiration": "1",
        "correlation_id": "c", "reply_to": "r", "message_id": "m", "type": "t", "app_id": "a",
        "headers": {"text": "x", "number": 5},
    }  # fmt: skip
    fill(client, stream, 1, **properties)
    client.channel.basic_qos(prefetch_count=1)
    _, got, _ = next(client.channel.consume(stream, arguments={"x-stream-offset": "first"}))
    assert got.headers.pop("x-stream-offset") == 0
    assert {name: getattr(got, name) for name in properties} == properties


def test_a_message_of_another_stream_gets_a_new_offset(client: Client) -> None:
    stream = declare(client)
    fill(client, stream, 2, headers={"x-stream-offset": 77, "kept": "yes"})
    seen = read(client, stream, 2, x_stream_offset="first")
    assert [(one.offset, one.headers) for one in seen] == [(0, {"kept": "yes"}), (1, {"kept": "yes"})]


def test_a_deleted_stream_cancels_its_consumers(connect: Callable[[], Client]) -> None:
    client, other = connect(), connect()
    stream = declare(client)
    client.channel.basic_qos(prefetch_count=1)
    cancelled: list[object] = []
    client.channel.add_on_cancel_callback(cancelled.append)
    client.channel.basic_consume(stream, print)
    other.channel.queue_delete(stream)

    def heard() -> bool:
        client.connection.process_data_events(0.05)
        return bool(cancelled)

    eventually(heard)
    assert not other.exists(stream)


def test_large_messages_and_small_frames(broker: Any) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, heartbeat=0, frame_max=4096)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        stream = unique("stream")
        channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
        channel.confirm_delivery()
        bodies = [bytes([65 + number]) * size for number, size in enumerate((0, 1, 4087, 4089, 300_000, 9))]
        for body in bodies:
            channel.basic_publish("", stream, body)
        channel.basic_qos(prefetch_count=100)
        got = []
        for method, _, body in channel.consume(stream, arguments={"x-stream-offset": "first"}):
            got.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(got) == len(bodies):
                break
        assert got == bodies
