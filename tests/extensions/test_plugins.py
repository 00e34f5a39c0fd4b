"""Exchange types and services of one's own, and the system services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from embermq.broker.exchange.exchange import MATCHERS, PLUGIN_TYPES
from embermq.client import Channel, Message, Properties, RpcClient, connect
from embermq.config.rule import ConfigError
from embermq.config.settings import Plugins
from embermq.testing import EmbeddedBroker

PACKAGE = "tests.extensions.plugins"
MODULES = [f"{PACKAGE}.{name}" for name in ("content_type", "geo_fence", "awkward")]
SETTINGS: dict[str, Any] = {"plugins": Plugins(modules=tuple(MODULES))}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(**SETTINGS) as running:
        yield running


@pytest.fixture
def channel(broker: EmbeddedBroker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        opened = connection.channel()
        opened.confirm_delivery()
        yield opened


def queues_that_got(channel: BlockingChannel, *queues: str) -> list[str]:
    return [queue for queue in queues if channel.basic_get(queue, auto_ack=True)[0] is not None]


def bound(channel: BlockingChannel, exchange: str, key: str = "", **arguments: object) -> str:
    queue = str(channel.queue_declare("", exclusive=True).method.queue)
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_bind(queue, exchange, key, named)
    return queue


def test_a_filter_by_content_type(channel: BlockingChannel) -> None:
    channel.exchange_declare("types", "x-content-type", auto_delete=True)
    images, text = bound(channel, "types", "image/*"), bound(channel, "types", "text/plain")
    channel.basic_publish("types", "", b"", pika.BasicProperties(content_type="image/png"))
    assert queues_that_got(channel, images, text) == [images]
    channel.basic_publish("types", "", b"", pika.BasicProperties(content_type="text/plain"))
    assert queues_that_got(channel, images, text) == [text]
    channel.queue_unbind(text, "types", "text/plain")
    channel.basic_publish("types", "", b"", pika.BasicProperties(content_type="text/plain"))
    assert queues_that_got(channel, images, text) == []


def test_a_geo_fence(channel: BlockingChannel) -> None:
    channel.exchange_declare("fence", "x-geo-fence", auto_delete=True)
    berlin = bound(channel, "fence", latitude=52, longitude=13, radius_km=150)
    europe = bound(channel, "fence", latitude=50, longitude=10, radius_km=2000)
    neustrelitz = pika.BasicProperties(headers={"latitude": 53, "longitude": 13})
    channel.basic_publish("fence", "", b"", neustrelitz)
    assert queues_that_got(channel, berlin, europe) == [berlin, europe]
    rome = pika.BasicProperties(headers={"latitude": 42, "longitude": 12})
    channel.basic_publish("fence", "", b"", rome)
    assert queues_that_got(channel, berlin, europe) == [europe]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("raise", "RuntimeError: a fault in route"),
        ("nonsense", "AttributeError"),
        ("slow", "it takes too long"),
    ],
)
def test_a_type_that_fails_refuses_the_message(
    broker: EmbeddedBroker, channel: BlockingChannel, key: str, reason: str
) -> None:
    channel.exchange_declare("awkward", "x-awkward")
    with pytest.raises(ChannelClosedByBroker, match=reason) as caught:
        channel.basic_publish("awkward", key, b"")
    assert caught.value.reply_code == 406
    again = channel.connection.channel()
    again.confirm_delivery()
    queue = bound(again, "awkward")
    again.basic_publish("awkward", "fine", b"")
    assert queues_that_got(again, queue) == [queue]
    assert PLUGIN_TYPES["x-awkward"].failures > 0


def test_what_a_type_refuses_when_it_is_declared_and_bound(channel: BlockingChannel) -> None:
    for arguments, text in (({"refuse": True}, "make no sense"), ({"fail": True}, "a fault in the constr")):
        with pytest.raises(ChannelClosedByBroker, match=text):
            channel.connection.channel().exchange_declare("refused", "x-awkward", arguments=arguments)
    channel.exchange_declare("types", "x-content-type", auto_delete=True)
    with pytest.raises(ChannelClosedByBroker, match="is no content type") as caught:
        bound(channel.connection.channel(), "types", "text")
    assert caught.value.reply_code == 406
    channel.exchange_declare("awkward", "x-awkward")
    with pytest.raises(ChannelClosedByBroker, match="a fault in check"):
        bound(channel.connection.channel(), "awkward", "fail-check")


def test_a_type_that_loses_a_binding_refuses(channel: BlockingChannel) -> None:
    channel.exchange_declare("broken", "x-awkward", auto_delete=True)
    bound(channel, "broken", "fail-bind")
    with pytest.raises(ChannelClosedByBroker, match="bind failed"):
        channel.basic_publish("broken", "x", b"")


def test_dead_letters_to_a_type_that_fails_have_no_route(channel: BlockingChannel) -> None:
    channel.exchange_declare("awkward", "x-awkward")
    arguments = {"x-dead-letter-exchange": "awkward", "x-dead-letter-routing-key": "raise"}
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    channel.basic_publish("", queue, b"x")
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_bindings_survive_a_restart_and_a_missing_plugin(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedBroker(**SETTINGS, data_dir=tmp_path) as broker:
        publish_by_type(broker, declare=True)
    with EmbeddedBroker(**SETTINGS, data_dir=tmp_path) as broker:
        publish_by_type(broker)
    made = MATCHERS.pop("x-content-type"), PLUGIN_TYPES.pop("x-content-type")
    try:
        with EmbeddedBroker(data_dir=tmp_path) as broker:
            assert "its type 'x-content-type' is missing" in caplog.text
            with pytest.raises(ChannelClosedByBroker, match="not installed"):
                publish_by_type(broker)
    finally:
        MATCHERS["x-content-type"], PLUGIN_TYPES["x-content-type"] = made
    with EmbeddedBroker(**SETTINGS, data_dir=tmp_path) as broker:
        publish_by_type(broker)


def publish_by_type(broker: EmbeddedBroker, declare: bool = False) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        if declare:
            channel.exchange_declare("kept", "x-content-type", durable=True)
            channel.queue_declare("kept", durable=True)
            channel.queue_bind("kept", "kept", "a/b")
        channel.basic_publish("kept", "", b"", pika.BasicProperties(content_type="a/b"))
        assert queues_that_got(channel, "kept") == ["kept"]


def test_a_type_may_be_switched_off() -> None:
    with EmbeddedBroker(plugins=Plugins(tuple(MODULES), ("x-awkward",))) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.exchange_declare("awkward", "x-awkward")
            with pytest.raises(ChannelClosedByBroker, match="switched off"):
                channel.basic_publish("awkward", "fine", b"")
    PLUGIN_TYPES["x-awkward"].enabled = True


def test_a_module_that_is_not_there_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="no_such_module"):
        EmbeddedBroker(plugins=Plugins(("no_such_module",))).start()


# -- services


@pytest.fixture
def system(broker: EmbeddedBroker) -> Iterator[Channel]:
    with connect(broker.url) as connection:
        channel = connection.channel()
        channel.exchange_declare("system", "system")
        yield channel


def answered(broker: EmbeddedBroker, service: str, body: bytes = b"", **properties: Any) -> Message:
    with connect(broker.url) as connection, RpcClient(connection) as client:
        return client.call(body, service, "system", properties=Properties(**properties))


def asked(broker: EmbeddedBroker, service: str, body: bytes = b"", **properties: Any) -> Any:
    return json.loads(answered(broker, service, body, **properties).body)


def test_built_in_services(system: Channel, broker: EmbeddedBroker) -> None:
    assert answered(broker, "amq.echo", b"again").body == b"again"
    assert set(asked(broker, "amq.time")) == {"time", "timestamp"}
    assert asked(broker, "amq.status")["product_name"] == "EmberMQ"
    system.queue_declare("looked at")
    assert "looked at" in [queue["name"] for queue in asked(broker, "amq.queues")]
    question = json.dumps({"path": "/api/queues/%2F/looked%20at"}).encode()
    assert asked(broker, "amq.query", question)["name"] == "looked at"
    question = json.dumps({"exchange": "", "routing_key": "looked at"}).encode()
    found = asked(broker, "amq.resolve", question)
    assert "looked at" in json.dumps(found["queues"])


@pytest.mark.parametrize(
    ("service", "body", "text"),
    [
        ("amq.query", b"[]", "expects a JSON object"),
        ("amq.query", b'{"path": "/"}', "expects"),
        ("amq.query", b'{"path": "/api/nonsense"}', "404"),
        ("amq.query", b'{"path": "/api/stream"}', "does not end"),
        ("amq.resolve", b'{"exchange": "none"}', "404"),
        ("raises", b"", "LookupError: no such thing"),
        ("sleeps", b"", "took more than 0.2 s"),
        ("no-json", b"", "no JSON"),
    ],
)
def test_errors_are_told_to_the_client_that_asked(
    system: Channel, service: str, body: bytes, text: str
) -> None:
    system.queue_declare("answers")
    properties = Properties(reply_to="answers", correlation_id="7")
    system.publish(body, service, "system", properties=properties)
    with system.consume("answers") as consumer:
        answer = next(iter(consumer))
        answer.ack()
    assert (answer.properties.type, answer.properties.correlation_id) == ("embermq.rpc.failed", "7")
    assert text in answer.body.decode()


def test_services_of_plugins(system: Channel, broker: EmbeddedBroker) -> None:
    assert answered(broker, "upper", b"loud").body == b"LOUD"
    assert asked(broker, "who", headers={"k": "v"}) == {"user": "guest", "vhost": "/", "header": "v"}
    answer = answered(broker, "reply")
    assert (answer.body, answer.properties.content_type) == (b"<a/>", "text/xml")
    assert answer.properties.headers == {"h": 1}


def test_there_is_no_route_to_a_service_that_does_not_exist(channel: BlockingChannel) -> None:
    channel.exchange_declare("system", "system")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("system", "none", b"", mandatory=True)


def test_a_system_exchange_has_no_bindings(channel: BlockingChannel) -> None:
    channel.exchange_declare("system", "system")
    with pytest.raises(ChannelClosedByBroker, match="no bindings"):
        bound(channel, "system", "amq.echo")
