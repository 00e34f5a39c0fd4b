"""What a user gets wrong is said in a sentence, at once, and closes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from embermq.client import BadAddress, Channel, Connection, PreconditionFailed, Properties, Stream, connect
from embermq.client.calls.consumer import check_acks
from embermq.client.calls.super_stream import check_partitions
from embermq.wire.methods import BasicConsume
from tools.brokers import Broker


@pytest.mark.parametrize("prefetch", [100_000, -1, "many"])
def test_a_prefetch_that_cannot_be(connection: Connection, channel: Channel, prefetch: Any) -> None:
    before = len(connection.engine.channels)
    with pytest.raises(ValueError, match="prefetch must be a number from 0"):
        connection.channel(prefetch=prefetch)
    with pytest.raises(ValueError, match="prefetch must be a number from 0"):
        channel.qos(prefetch)
    channel.queue_declare(exclusive=True)
    assert len(connection.engine.channels) == before


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"content_type": 7}, "content_type must be text, not 7"),
        ({"delivery_mode": "2"}, "delivery_mode must be a number from 0 to 255, not '2'"),
        ({"priority": 256}, "priority must be a number from 0 to 255, not 256"),
        ({"timestamp": "today"}, "timestamp must be a number"),
        ({"headers": ["x"]}, "headers must be a dict, not list"),
        ({"expiration": 1000}, "expiration must be text, not 1000"),
    ],
)
def test_a_property_of_the_wrong_kind(channel: Channel, queue: str, properties: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        channel.publish(b"x", queue, properties=Properties(**properties))
    channel.publish(b"x", queue)


def test_properties_that_are_none(channel: Channel, queue: str) -> None:
    with pytest.raises(TypeError, match="Properties"):
        channel.publish(b"x", queue, properties={"priority": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"heartbeat_s": "abc"}, "heartbeat_s must be a whole number of seconds, or None, not 'abc'"),
        ({"heartbeat_s": 70000}, "heartbeat_s must be a number from 0 to 65535"),
        ({"call_timeout_s": "60"}, "call_timeout_s must be a number of seconds"),
        ({"channel_max": -1}, "channel_max must be a number from 0"),
        ({"reconnect": "no"}, "reconnect must be True or False"),
        ({"hartbeat": 3}, "unknown option 'hartbeat'"),
    ],
)
def test_an_option_of_the_wrong_kind(ember: Broker, option: Any, said: str) -> None:
    with pytest.raises(BadAddress, match=said):
        connect(ember.url, **option)


def test_advice_fits_what_was_refused(connection: Connection) -> None:
    channel = connection.channel()
    queue = channel.queue_declare("mistakes.advice", exclusive=True).name
    with pytest.raises(PreconditionFailed, match="declare it as it is"):
        channel.queue_declare(queue, exclusive=True, arguments={"x-max-length": 3})
    channel = connection.channel()
    channel.publish(b"x", queue)
    with pytest.raises(PreconditionFailed, match="leave out if_unused and if_empty"):
        channel.queue_delete(queue, if_empty=True)


def test_what_rabbitmq_would_close_the_connection_for() -> None:
    stream = BasicConsume("s", no_ack=True, arguments={"x-stream-offset": 0, "x-stream-end-offset": 9})
    check_acks(True, stream)
    with pytest.raises(ValueError, match="up to an end"):
        check_acks(True, BasicConsume("s", no_ack=True, arguments={"x-stream-offset": 0}))
    check_partitions(True, 3)
    check_acks(False, BasicConsume("a queue of another kind", no_ack=True))
    with pytest.raises(ValueError, match="with acks only"):
        check_acks(False, stream)
    with pytest.raises(ValueError, match="routing_keys"):
        check_partitions(False, 3)


def test_columns_of_a_stream_without_acks(connection: Connection, target: str) -> None:
    """RabbitMQ would close the whole connection; ours delivers."""
    with connection.channel() as channel:
        stream = Stream(channel, "mistakes.columns").declare()
        channel.publish_batch([b"one", b"two"], stream.name)
        offset = {"x-stream-offset": 0, "x-stream-end-offset": 2}
        try:
            if target == "rabbitmq":
                with pytest.raises(ValueError, match="with acks only"):
                    channel.consume_columns(stream.name, no_ack=True, arguments=offset)
                with pytest.raises(ValueError, match="with acks only"):
                    channel.consume(stream.name, no_ack=True, arguments=offset)
            else:
                with channel.consume_columns(stream.name, no_ack=True, arguments=offset) as consumer:
                    batch = consumer.fetch(2, timeout_s=60)
                    assert batch is not None and batch.count == 2
            assert connection.is_open
        finally:
            channel.queue_delete(stream.name)


def test_columns_without_acks_of_a_queue_that_may_be_a_stream(ember: Broker, target: str) -> None:
    """RabbitMQ would close the whole connection, and cannot be asked for the type of a queue."""
    with connect(ember.url) as other, other.channel() as channel, connect(ember.url) as connection:
        Stream(channel, "mistakes.stream").declare()
        own = channel.queue_declare("mistakes.own").name
        try:
            with other.channel() as mine, mine.consume_columns(own, no_ack=True) as consumer:
                mine.publish(b"known", own)
                batch = consumer.fetch(timeout_s=60)
                assert batch is not None and batch.count == 1
            if target == "rabbitmq":
                for name in ("mistakes.stream", own):
                    with connection.channel() as stranger, pytest.raises(ValueError, match="may be a stream"):
                        stranger.consume_columns(name, no_ack=True)
                with other.channel() as mine, pytest.raises(ValueError, match="may be a stream"):
                    mine.consume_columns("mistakes.stream", no_ack=True)
            assert connection.is_open and other.is_open
        finally:
            channel.queue_delete("mistakes.stream")
            channel.queue_delete(own)
