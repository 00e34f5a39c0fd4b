"""pika's BlockingConnection: opening, closing, heartbeats, and errors that must not spread."""

from __future__ import annotations

import contextlib

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.interop.pika_blocking.shortcuts import get, parameters
from tools.brokers import Broker


def test_server_announces_what_pika_looks_for(connection: pika.BlockingConnection) -> None:
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported
    assert connection.publisher_confirms_supported


def test_url_parameters_connect(broker: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(f"{broker.url}?heartbeat=30")) as connection:
        assert connection.is_open
    assert connection.is_closed


def test_wrong_password_is_an_authentication_error(broker: Broker) -> None:
    with pytest.raises(ProbableAuthenticationError) as caught:
        pika.BlockingConnection(parameters(broker, credentials=pika.PlainCredentials("guest", "wrong")))
    assert "ACCESS_REFUSED" in str(caught.value)


def test_unknown_user_is_an_authentication_error(broker: Broker) -> None:
    with pytest.raises(ProbableAuthenticationError):
        pika.BlockingConnection(parameters(broker, credentials=pika.PlainCredentials("nobody", "guest")))


def test_unknown_vhost_is_refused(broker: Broker) -> None:
    with pytest.raises(ProbableAccessDeniedError) as caught:
        pika.BlockingConnection(parameters(broker, virtual_host="/no-such-vhost"))
    assert "(530) 'NOT_ALLOWED - vhost /no-such-vhost not found'" in str(caught.value)


def test_heartbeats_keep_an_idle_connection_open(broker: Broker) -> None:
    with pika.BlockingConnection(parameters(broker, heartbeat=1)) as connection:
        connection.sleep(3.2)  # more than the two missed beats after which either side would give up
        assert connection.is_open
        connection.channel().close()


def test_missing_heartbeats_make_the_broker_close(broker: Broker) -> None:
    connection = pika.BlockingConnection(parameters(broker, heartbeat=1))
    # Reading the socket without letting pika run: no heartbeat leaves, and the broker must hang up.
    raw = connection._impl._transport._sock
    raw.setblocking(True)
    received = b""
    with contextlib.suppress(ConnectionResetError):  # hanging up on a dead peer may be as rude as this
        while piece := raw.recv(4096):
            received += piece
    assert received.startswith(b"\x08\x00\x00\x00\x00\x00\x00\xce")
    raw.setblocking(False)
    with contextlib.suppress(pika.exceptions.AMQPError):
        connection.close()


def test_frame_max_and_channel_max_are_negotiated_down(broker: Broker, queue_name: str) -> None:
    with pika.BlockingConnection(parameters(broker, frame_max=4096, channel_max=3)) as connection:
        channels = [connection.channel() for _ in range(3)]
        channels[0].queue_declare(queue_name, exclusive=True)
        body = bytes(range(256)) * 100  # seven frames
        channels[0].confirm_delivery()
        channels[0].basic_publish("", queue_name, body)
        assert get(channels[1], queue_name) == body


def test_blocked_callbacks_can_be_registered(connection: pika.BlockingConnection, queue_name: str) -> None:
    seen: list[str] = []
    connection.add_on_connection_blocked_callback(lambda *_: seen.append("blocked"))
    connection.add_on_connection_unblocked_callback(lambda *_: seen.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare(queue_name, exclusive=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue_name, b"flows")
    assert get(channel, queue_name) == b"flows"
    assert seen == []


def test_many_channels_on_one_connection(connection: pika.BlockingConnection, queue: str) -> None:
    channels = [connection.channel() for _ in range(200)]
    for number, each in enumerate(channels):
        each.confirm_delivery()
        each.basic_publish("", queue, b"%d" % number)
    for each in channels[::2]:
        each.close()
    assert connection.channel().channel_number in {each.channel_number for each in channels[::2]}
    received = {get(channels[1], queue) for _ in range(100)}
    assert received <= {b"%d" % number for number in range(200)}
    assert len(received) == 100


def test_channel_error_leaves_the_connection_usable(connection: pika.BlockingConnection) -> None:
    broken = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as caught:
        broken.queue_declare("interop.never-declared", passive=True)
    assert caught.value.reply_code == 404
    assert caught.value.reply_text == "NOT_FOUND - no queue 'interop.never-declared' in vhost '/'"
    assert broken.is_closed
    again = connection.channel(broken.channel_number)
    assert again.queue_declare("", exclusive=True).method.queue.startswith("amq.gen-")


def test_unknown_delivery_tag_closes_the_channel(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.basic_ack(77)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("", exclusive=True)
    assert (caught.value.reply_code, caught.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 77",
    )
    assert connection.is_open


def test_redeclaring_differently_is_a_precondition_failure(
    connection: pika.BlockingConnection, queue: str
) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_declare(queue, exclusive=True, auto_delete=True)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text.startswith("PRECONDITION_FAILED - inequivalent arg 'auto_delete'")


def test_reserved_names_are_refused(connection: pika.BlockingConnection) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().exchange_declare("amq.mine", "direct")
    assert caught.value.reply_code == 403


def test_unknown_exchange_type_closes_the_connection(broker: Broker, exchange_name: str) -> None:
    connection = pika.BlockingConnection(parameters(broker))
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.channel().exchange_declare(exchange_name, "no-such-type")
    assert caught.value.reply_code == 503
    assert connection.is_closed


def test_publishing_to_a_missing_exchange_closes_the_channel(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish("interop.no-such-exchange", "", b"lost")
    assert caught.value.reply_code == 404
