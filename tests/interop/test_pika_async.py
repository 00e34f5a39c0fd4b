"""pika's callback adapters: the same scenarios through SelectConnection and through asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, ConnectionClosedByClient

from tools.brokers import Broker

Scenario = Callable[[Channel], None]
Runner = Callable[[Broker, Scenario], BaseException]


def run_select(broker: Broker, scenario: Scenario) -> BaseException:
    """Open a connection and a channel, start the scenario, and return why the connection ended."""
    ended: list[BaseException] = []

    def on_end(connection: pika.SelectConnection, reason: BaseException) -> None:
        ended.append(reason)
        connection.ioloop.stop()

    connection = pika.SelectConnection(
        pika.URLParameters(broker.url),
        on_open_callback=lambda opened: opened.channel(on_open_callback=scenario),
        on_open_error_callback=on_end,
        on_close_callback=on_end,
    )
    connection.ioloop.start()
    connection.ioloop.close()
    return ended[0]


def run_asyncio(broker: Broker, scenario: Scenario) -> BaseException:
    async def main() -> BaseException:
        ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        AsyncioConnection(
            pika.URLParameters(broker.url),
            on_open_callback=lambda opened: opened.channel(on_open_callback=scenario),
            on_open_error_callback=lambda _connection, reason: ended.set_result(reason),
            on_close_callback=lambda _connection, reason: ended.set_result(reason),
        )
        return await ended

    return asyncio.run(main())


@pytest.fixture(params=[run_select, run_asyncio], ids=["select", "asyncio"])
def run(request: pytest.FixtureRequest) -> Runner:
    runner: Runner = request.param
    return runner


def test_publish_confirm_consume(run: Runner, broker: Broker, queue_name: str) -> None:
    """Many confirms outstanding at once, and every message comes back in order."""
    count = 1000
    unconfirmed = set(range(1, count + 1))
    received: list[bytes] = []

    def finish_when_done(channel: Channel) -> None:
        if not unconfirmed and len(received) == count:
            channel.connection.close()

    def on_confirm(channel: Channel, frame: Any) -> None:
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        tag = frame.method.delivery_tag
        unconfirmed.difference_update(range(1, tag + 1) if frame.method.multiple else [tag])
        finish_when_done(channel)

    def on_message(channel: Channel, method: Any, _properties: object, body: bytes) -> None:
        received.append(body)
        channel.basic_ack(method.delivery_tag)
        finish_when_done(channel)

    def publish(channel: Channel) -> None:
        for number in range(count):
            channel.basic_publish("", queue_name, b"%d" % number, mandatory=True)

    def scenario(channel: Channel) -> None:
        channel.basic_qos(prefetch_count=50)
        channel.queue_declare(
            queue_name,
            exclusive=True,
            callback=lambda _: channel.confirm_delivery(
                lambda frame: on_confirm(channel, frame), callback=lambda _: publish(channel)
            ),
        )
        channel.basic_consume(queue_name, on_message)

    assert isinstance(run(broker, scenario), ConnectionClosedByClient)
    assert received == [b"%d" % number for number in range(count)]


def test_unroutable_message_returns_before_its_ack(run: Runner, broker: Broker, queue_name: str) -> None:
    events: list[tuple[str, Any]] = []

    def on_confirm(channel: Channel, frame: Any) -> None:
        events.append((frame.method.NAME, frame.method.delivery_tag))
        channel.connection.close()

    def scenario(channel: Channel) -> None:
        channel.add_on_return_callback(
            lambda _channel, method, _properties, body: events.append((method.NAME, body))
        )
        channel.confirm_delivery(lambda frame: on_confirm(channel, frame))
        channel.basic_publish("", queue_name, b"nobody", mandatory=True)

    run(broker, scenario)
    assert events == [("Basic.Return", b"nobody"), ("Basic.Ack", 1)]


def test_consumer_cancel_notification(run: Runner, broker: Broker, queue_name: str) -> None:
    cancelled: list[str] = []

    def on_cancel(channel: Channel, frame: Any) -> None:
        cancelled.append(frame.method.consumer_tag)
        channel.connection.close()

    def scenario(channel: Channel) -> None:
        channel.add_on_cancel_callback(lambda frame: on_cancel(channel, frame))
        channel.queue_declare(queue_name)
        channel.basic_consume(
            queue_name,
            lambda *_: None,
            consumer_tag="watcher",
            callback=lambda _: channel.queue_delete(queue_name),
        )

    run(broker, scenario)
    assert cancelled == ["watcher"]


def test_channel_closed_by_broker_then_reopened(run: Runner, broker: Broker, queue_name: str) -> None:
    reasons: list[BaseException] = []
    declared: list[str] = []

    def on_declared(channel: Channel, frame: Any) -> None:
        declared.append(frame.method.queue)
        channel.connection.close()

    def on_channel_closed(channel: Channel, reason: BaseException) -> None:
        if not reasons:
            reasons.append(reason)
            channel.connection.channel(
                on_open_callback=lambda second: second.queue_declare(
                    queue_name, exclusive=True, callback=lambda frame: on_declared(second, frame)
                ),
            )

    def scenario(channel: Channel) -> None:
        channel.add_on_close_callback(on_channel_closed)
        channel.exchange_declare(queue_name, passive=True)

    run(broker, scenario)
    (reason,) = reasons
    assert isinstance(reason, ChannelClosedByBroker)
    assert reason.reply_code == 404
    assert reason.reply_text == f"NOT_FOUND - no exchange '{queue_name}' in vhost '/'"
    assert declared == [queue_name]


def test_connection_closed_by_broker(run: Runner, broker: Broker, exchange_name: str) -> None:
    reason = run(
        broker, lambda channel: channel.exchange_declare(exchange_name, exchange_type="no-such-type")
    )
    assert isinstance(reason, pika.exceptions.ConnectionClosedByBroker)
    assert reason.reply_code == 503


def test_get_and_recover(run: Runner, broker: Broker, queue_name: str) -> None:
    got: list[tuple[bytes, bool]] = []

    def on_got(channel: Channel, method: Any, _properties: object, body: bytes) -> None:
        got.append((body, method.redelivered))
        if len(got) == 1:
            channel.basic_recover(requeue=True, callback=lambda _: get(channel))
        else:
            channel.connection.close()

    def get(channel: Channel) -> None:
        channel.basic_get(queue_name, on_got)

    def scenario(channel: Channel) -> None:
        channel.queue_declare(queue_name, exclusive=True)
        channel.basic_publish("", queue_name, b"again")
        channel.queue_declare(queue_name, passive=True, callback=lambda _: get(channel))

    run(broker, scenario)
    assert got == [(b"again", False), (b"again", True)]


def test_blocked_handlers_are_quiet_without_an_alarm(run: Runner, broker: Broker, queue_name: str) -> None:
    seen: list[str] = []

    def scenario(channel: Channel) -> None:
        channel.connection.add_on_connection_blocked_callback(lambda *_: seen.append("blocked"))
        channel.connection.add_on_connection_unblocked_callback(lambda *_: seen.append("unblocked"))
        channel.queue_declare(queue_name, exclusive=True)
        channel.basic_publish("", queue_name, b"x" * 1_000_000)
        channel.queue_purge(queue_name, callback=lambda _: channel.connection.close())

    assert isinstance(run(broker, scenario), ConnectionClosedByClient)
    assert seen == []


@pytest.mark.parametrize("adapter", ["select", "asyncio"])
def test_wrong_password(adapter: str, broker: Broker) -> None:
    url = broker.url.replace("guest:guest", "guest:wrong")
    stranger = type("Stranger", (), {"url": url})
    runner = run_select if adapter == "select" else run_asyncio
    reason = runner(stranger, lambda _: None)
    assert isinstance(reason, AMQPConnectionError)
    assert "ACCESS_REFUSED" in repr(reason)


def test_killed_broker_is_a_lost_stream(run: Runner, mortal_broker: Broker) -> None:
    reason = run(mortal_broker, lambda _: mortal_broker.kill())
    assert isinstance(reason, pika.exceptions.StreamLostError)
