"""What a user gets wrong is said in a sentence, at once, and closes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from embermq.client import BadAddress, Channel, Connection, PreconditionFailed, Properties, connect
from embermq.client.calls.stream import check_acks
from embermq.client.calls.super_stream import check_partitions
from tools.brokers import Broker


@pytest.mark.parametrize("prefetch", [100_000, -1, "many"])
def test_a_prefetch_that_cannot_be(connection: Connection, channel: Channel, prefetch: Any) -> None:
    before = len(connection._engine.channels)
    with pytest.raises(ValueError, match="prefetch must be a number from 0"):
        connection.channel(prefetch=prefetch)
    with pytest.raises(ValueError, match="prefetch must be a number from 0"):
        channel.qos(prefetch)
    channel.queue_declare(exclusive=True)
    assert len(connection._engine.channels) == before


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
    queue = channel.queue_declare(exclusive=True).name
    with pytest.raises(PreconditionFailed, match="declare it as it is"):
        channel.queue_declare(queue, exclusive=True, arguments={"x-max-length": 3})
    channel = connection.channel()
    channel.publish(b"x", queue)
    with pytest.raises(PreconditionFailed, match="leave out if_unused and if_empty"):
        channel.queue_delete(queue, if_empty=True)


def test_what_rabbitmq_would_close_the_connection_for() -> None:
    check_acks(True, "s", no_ack=True)
    check_partitions(True, 3)
    with pytest.raises(ValueError, match="with acks only"):
        check_acks(False, "s", no_ack=True)
    with pytest.raises(ValueError, match="routing_keys"):
        check_partitions(False, 3)
