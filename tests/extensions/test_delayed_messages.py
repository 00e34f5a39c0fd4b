"""x-delay, x-deliver-at and the exchange type x-delayed-message."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pika
import pytest

from tests.support.pika_client import Client, in_time, unique
from tools.brokers import EmberBroker

LONG_MS = 3_600_000
AS_GUEST = {"authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmberBroker]:
    """Of our own: nobody else needs a restart in the middle."""
    with EmberBroker() as broker:
        yield broker


def arrival(client: Client, queue: str, where: str, **properties: Any) -> tuple[float, Any]:
    """How many milliseconds a message takes from the one queue to the other, and the message."""
    began = time.time()
    client.publish(queue, **properties)
    got = client.await_message(where)
    return (time.time() - began) * 1000, got


@pytest.mark.parametrize("value", [300, "300", Decimal("300.9"), 2**31])
def test_x_delay_holds_a_message_back(client: Client, value: Any) -> None:
    queue = client.declare()
    if value == 2**31:  # does not fit in 32 bits, and takes too long to wait for
        client.publish(queue, headers={"x-delay": value})
        assert client.get(queue) is None
        return
    took_ms, got = arrival(client, queue, queue, headers={"x-delay": value, "mine": "kept"})
    assert took_ms > 299  # the broker counts whole milliseconds
    assert got.headers == {"x-delay": -300, "mine": "kept"}


@pytest.mark.parametrize("value", [0, -5, "-5", True, None, {"a": 1}])
def test_no_delay_to_speak_of(client: Client, value: Any) -> None:
    queue = client.declare()
    client.publish(queue, headers={"x-delay": value})
    assert client.await_message(queue).headers == {"x-delay": value}


def test_x_deliver_at_in_all_its_forms(client: Client) -> None:
    def publish_all(queue: str, moment: datetime) -> None:
        for name, value in (
            (b"timestamp", moment),
            (b"number", int(moment.timestamp() * 1000)),
            (b"text", moment.isoformat()),
            (b"naive", moment.replace(tzinfo=None).isoformat()),
        ):
            client.publish(queue, name, headers={"x-deliver-at": value, "x-delay": LONG_MS})
        client.publish(queue, b"past", headers={"x-deliver-at": datetime(2020, 1, 1, tzinfo=UTC)})

    soon, late = client.declare(), client.declare()
    whole = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    publish_all(soon, whole)
    publish_all(late, whole + timedelta(hours=1))
    assert client.drain(late) == [b"past"]
    got = {client.await_message(soon).body for _ in range(5)}
    assert got == {b"past", b"number", b"text", b"naive", b"timestamp"}
    assert time.time() >= whole.timestamp()
    assert client.drain(late) == []


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"x-delay": "soon"}, "invalid header 'x-delay': 'soon' is no number"),
        ({"x-delay": 400_000_000_000}, "invalid header 'x-delay': more than ten years from now"),
        ({"x-deliver-at": "tomorrow"}, "invalid header 'x-deliver-at': 'tomorrow' is no time"),
        ({"x-deliver-at": int(time.time())}, "is long ago, in milliseconds since 1970"),
        ({"x-deliver-at": True}, "a timestamp, a number or a text is wanted"),
        ({"x-deliver-at": "9999-01-01"}, "more than ten years from now"),
    ],
)
def test_what_is_no_time_is_refused(client: Client, headers: dict[str, Any], text: str) -> None:
    queue = client.declare()
    client.publish(queue, headers=headers)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="406") as refusal:
        client.channel.queue_declare(queue, passive=True)
    assert text in refusal.value.reply_text


def test_in_order_of_time_and_then_of_arrival(client: Client) -> None:
    dues = [5, 1, 3, 1, 2, 1, 5, 4]
    queue = ""

    def publish_before_the_first_is_due(first_ms: int) -> None:
        nonlocal queue
        queue = client.declare()
        begin_ms = int(time.time() * 1000) + first_ms
        for number, due in enumerate(dues):
            client.publish(queue, str(number).encode(), headers={"x-deliver-at": begin_ms + due * 50})
        assert client.count(queue) == 0

    in_time(publish_before_the_first_is_due)
    expected = sorted(range(len(dues)), key=lambda number: (dues[number], number))
    got = [client.await_message(queue).body for _ in dues]
    assert got == [str(number).encode() for number in expected]


def test_any_exchange_and_bindings_of_the_time_it_is_due(client: Client) -> None:
    early = late = ""

    def publish_and_bind_anew(delay_ms: int) -> None:
        nonlocal early, late
        exchange, early, late = unique("exchange"), client.declare(), client.declare()
        client.channel.exchange_declare(exchange, "topic")
        client.channel.queue_bind(early, exchange, "a.*")
        client.publish("a.b", exchange=exchange, headers={"x-delay": delay_ms}, body=b"hello")
        client.channel.queue_unbind(early, exchange, "a.*")
        client.channel.queue_bind(late, exchange, "#")

    in_time(publish_and_bind_anew)
    assert client.await_message(late).body == b"hello"
    assert client.count(early) == 0


def test_copies_wait_too(client: Client) -> None:
    first, second, third = client.declare(), client.declare(), client.declare()
    client.publish(first, headers={"x-delay": LONG_MS, "CC": [second], "BCC": [third]})
    assert client.count(first) == client.count(second) == client.count(third) == 0
    client.publish(first, headers={"x-delay": 200, "CC": [second], "BCC": [third]})
    for queue in (first, second, third):
        assert client.await_message(queue).headers == {"x-delay": -200, "CC": [second]}


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "headers"])
def test_the_exchange_type_x_delayed_message(client: Client, kind: str) -> None:
    exchange, queue = unique("exchange"), client.declare()
    arguments = {"x-delayed-type": kind}
    for _ in range(2):  # and an equal declaration is no error
        client.channel.exchange_declare(exchange, "x-delayed-message", durable=True, arguments=arguments)
    binding = {"x-match": "all", "colour": "red"} if kind == "headers" else {}
    client.channel.queue_bind(queue, exchange, "key", binding)
    client.publish("key", b"much later", exchange=exchange, headers={"x-delay": LONG_MS, "colour": "red"})
    client.publish("key", b"now", exchange=exchange, headers={"colour": "red"})
    assert client.drain(queue) == [b"now"]
    client.publish("key", b"later", exchange=exchange, headers={"x-delay": 250, "colour": "red"})
    later = client.await_message(queue)
    assert later.body == b"later"
    assert later.headers == {"x-delay": -250, "colour": "red"}
    assert later.method.exchange == exchange
    client.channel.exchange_delete(exchange)


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": "x-delayed-message"}, {"x-delayed-type": 5}])
def test_it_needs_a_type_to_route_by(client: Client, arguments: dict[str, Any]) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-delayed-type"):
        client.channel.exchange_declare(unique("exchange"), "x-delayed-message", arguments=arguments)


def test_mandatory_asks_for_a_queue_now(client: Client) -> None:
    client.channel.confirm_delivery()
    exchange = unique("exchange")
    client.channel.exchange_declare(exchange, "fanout")
    for target in ({"queue": "", "exchange": exchange}, {"queue": unique()}):
        with pytest.raises(pika.exceptions.UnroutableError):
            client.publish(**target, mandatory=True, headers={"x-delay": LONG_MS})
    queue = client.declare()
    client.publish(queue, mandatory=True, headers={"x-delay": 50})
    assert client.await_message(queue).headers == {"x-delay": -50}


def test_a_transaction_delays_what_it_commits(client: Client) -> None:
    queue = client.declare()
    client.channel.tx_select()
    client.publish(queue, b"rolled back", headers={"x-delay": 1})
    client.channel.tx_rollback()
    client.publish(queue, b"committed", headers={"x-delay": 100})
    time.sleep(0.2)
    assert client.count(queue) == 0
    client.channel.tx_commit()
    assert client.await_message(queue).body == b"committed"
    assert client.count(queue) == 0


def test_its_life_begins_when_it_arrives(client: Client) -> None:
    letters = client.declare()
    queue = client.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    took_ms, letter = arrival(client, queue, letters, headers={"x-delay": 300}, expiration="100")
    assert took_ms > 398
    assert letter.headers["x-death"][0]["reason"] == "expired"


def ask(broker: EmberBroker, path: str, method: str = "GET", body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(broker.http_url + path, data, AS_GUEST, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith("{") else text


def delayed(broker: EmberBroker, path: str) -> int:
    return int(ask(broker, f"/api/{path}")["messages_delayed"])


def test_what_waits_is_counted_and_can_be_taken_back(client: Client, broker: EmberBroker) -> None:
    exchange, queue = unique("exchange"), client.declare(x_retry_delay=LONG_MS)
    client.channel.exchange_declare(exchange, "fanout")
    client.channel.queue_bind(queue, exchange)
    before = delayed(broker, "vhosts/%2f")
    client.publish(queue, b"given back")
    client.channel.basic_nack(client.await_message(queue, ack=False).method.delivery_tag)
    client.publish(queue, headers={"x-delay": LONG_MS})
    client.publish("", exchange=exchange, headers={"x-delay": LONG_MS})
    client.channel.queue_declare(queue, passive=True)  # the broker has seen it all
    posted = {"properties": {"headers": {"x-delay": LONG_MS}}, "routing_key": "", "payload": "posted"}
    path = f"/api/exchanges/%2f/{exchange}/publish"
    assert ask(broker, path, "POST", posted | {"payload_encoding": "string"}) == {"routed": True}
    assert delayed(broker, f"queues/%2f/{queue}") == 2
    assert delayed(broker, f"exchanges/%2f/{exchange}") == 2
    assert delayed(broker, "vhosts/%2f") == before + 4
    assert f"embermq_messages_delayed {before + 4}\n" in ask(broker, "/metrics")
    for thing in (f"queues/%2f/{queue}", f"exchanges/%2f/{exchange}"):
        ask(broker, f"/api/{thing}/delayed", "DELETE")
        assert delayed(broker, thing) == 0
    assert delayed(broker, "vhosts/%2f") == before
    posted["properties"] = {"headers": {"x-delay": 50}}
    assert ask(broker, path, "POST", posted | {"payload_encoding": "string"}) == {"routed": True}
    assert client.await_message(queue).body == b"posted"


def test_purge_and_deletion_take_back_what_waits(client: Client, broker: EmberBroker) -> None:
    for how in ("purge", "delete"):
        queue = client.declare()
        client.publish(queue, headers={"x-delay": 400})
        getattr(client.channel, f"queue_{how}")(queue)
        client.declare(queue)
        client.publish(queue, b"after", headers={"x-delay": 600})
        assert client.await_message(queue).body == b"after"
    exchange, queue = unique("exchange"), client.declare()
    client.channel.exchange_declare(exchange, "fanout")
    client.publish("", exchange=exchange, headers={"x-delay": 400})
    client.channel.exchange_delete(exchange)
    client.channel.exchange_declare(exchange, "fanout")
    client.channel.queue_bind(queue, exchange, "")
    client.publish("", b"after", exchange=exchange, headers={"x-delay": 600})
    assert client.await_message(queue).body == b"after"


def test_over_restarts(broker: EmberBroker) -> None:
    client = Client(broker.port)
    queue = client.declare(durable=True)
    client.channel.confirm_delivery()
    due = time.time() + 2.5
    for body, more in ((b"kept", {"delivery_mode": 2}), (b"transient", {})):
        client.publish(queue, body, headers={"x-deliver-at": int(due * 1000)}, **more)
    other = client.declare(durable=True)
    client.publish(other, b"taken back", delivery_mode=2, headers={"x-delay": 1500})
    client.channel.queue_purge(other)
    client.publish(queue, b"soon", delivery_mode=2, headers={"x-delay": 100})
    broker.kill()
    client.leave()
    broker.start()
    client = Client(broker.port)
    assert client.await_message(queue).body == b"soon"
    broker.stop()
    client.leave()
    broker.start()
    client = Client(broker.port)
    assert client.await_message(queue).body == b"kept"
    assert time.time() >= due
    assert client.count(queue) == client.count(other) == 0
    client.leave()
