"""Alternate exchanges, CC and BCC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.support.pika_client import Client, unique


def exchange(client: Client, type: str = "direct", name: str | None = None, **arguments: Any) -> str:
    name = name or unique("exchange")
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    client.channel.exchange_declare(name, type, arguments=table)
    return name


def bound(client: Client, source: str, key: str = "") -> str:
    queue = client.declare()
    client.channel.queue_bind(queue, source, key)
    return queue


def test_what_has_no_route_takes_the_alternate(client: Client) -> None:
    rest = exchange(client, "fanout")
    main = exchange(client, alternate_exchange=rest)
    known, unknown = bound(client, main, "known"), bound(client, rest)
    client.publish("known", b"1", exchange=main)
    client.publish("unknown", b"2", exchange=main)
    assert client.drain(known) == [b"1"]
    got = client.await_message(unknown)
    assert (got.body, got.method.exchange, got.method.routing_key) == (b"2", main, "unknown")


def test_alternates_of_alternates(client: Client) -> None:
    last = exchange(client, "fanout")
    middle = exchange(client, alternate_exchange=last)
    first = exchange(client, alternate_exchange=middle)
    queue = bound(client, last)
    client.publish("x", exchange=first)
    assert client.await_message(queue).body == b"x"


def test_alternates_in_a_circle(client: Client) -> None:
    one, two = unique("exchange"), unique("exchange")
    exchange(client, name=one, alternate_exchange=two)
    exchange(client, name=two, alternate_exchange=one)
    client.channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        client.publish("x", exchange=one, mandatory=True)


def test_an_alternate_that_comes_and_goes(client: Client) -> None:
    """Routes are kept; they must not be kept longer than they are right."""
    later = unique("exchange")
    main = exchange(client, alternate_exchange=later)
    client.publish("x", b"too early", exchange=main)
    exchange(client, "fanout", later)
    client.publish("x", b"not bound", exchange=main)
    queue = bound(client, later)
    client.publish("x", b"in time", exchange=main)
    assert client.await_message(queue).body == b"in time"
    client.channel.queue_unbind(queue, later, "")
    client.publish("x", b"unbound", exchange=main)
    client.channel.queue_bind(queue, later, "")
    client.channel.exchange_delete(later)
    client.publish("x", b"too late", exchange=main)
    assert client.drain(queue) == []


def test_mandatory_is_content_with_an_alternate(client: Client) -> None:
    rest = exchange(client, "fanout")
    main = exchange(client, alternate_exchange=rest)
    client.channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        client.publish("x", exchange=main, mandatory=True)
    queue = bound(client, rest)
    client.publish("x", exchange=main, mandatory=True)
    assert client.count(queue) == 1


def test_an_exchange_on_the_way_has_its_own_alternate(client: Client) -> None:
    rest = exchange(client, "fanout")
    inner = exchange(client, alternate_exchange=rest)
    outer = exchange(client, "fanout")
    client.channel.exchange_bind(inner, outer)
    queue = bound(client, rest)
    client.publish("x", exchange=outer)
    assert client.await_message(queue).body == b"x"


def test_alternates_survive(start_broker: Callable[..., Any]) -> None:
    broker = start_broker()
    main, rest, queue = unique("exchange"), unique("exchange"), unique()
    with Client(broker.port) as client:
        client.channel.exchange_declare(rest, "fanout", durable=True)
        client.channel.exchange_declare(main, durable=True, arguments={"alternate-exchange": rest})
        client.declare(queue, durable=True)
        client.channel.queue_bind(queue, rest)
    broker.stop()
    broker.start()
    with Client(broker.port) as client:
        client.publish("x", exchange=main)
        assert client.await_message(queue).body == b"x"


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies(client: Client, header: str) -> None:
    queues = [client.declare() for _ in range(3)]
    client.publish(queues[0], b"body", headers={header: queues[1:], "mine": 7})
    expected = {"mine": 7} | ({"CC": queues[1:]} if header == "CC" else {})
    for queue in queues:
        got = client.await_message(queue)
        assert (got.body, got.headers) == (b"body", expected)
        assert got.method.routing_key == queues[0]


def test_copies_reach_a_queue_once(client: Client) -> None:
    queue = client.declare()
    client.publish(queue, headers={"CC": [queue, queue], "BCC": [queue]})
    client.publish(queue, b"last")
    assert client.drain(queue) == [b"x", b"last"]


def test_copies_through_a_topic_exchange(client: Client) -> None:
    topic = exchange(client, "topic")
    queue = bound(client, topic, "a.*")
    client.publish("nowhere", exchange=topic, headers={"CC": ["a.b"]})
    assert client.await_message(queue).method.routing_key == "nowhere"


def test_all_keys_count_at_every_exchange_on_the_way(client: Client) -> None:
    """By the one key it comes to the second exchange, by the other from there to the queue."""
    first, second = exchange(client), exchange(client, "topic")
    client.channel.exchange_bind(second, first, "in")
    queue = bound(client, second, "out")
    client.publish("", exchange=first, headers={"CC": ["in"], "BCC": ["out"]})
    assert client.await_message(queue).headers == {"CC": ["in"]}


def test_the_alternate_gets_what_no_key_has_a_queue_for(client: Client) -> None:
    rest = exchange(client, "fanout")
    main = exchange(client, alternate_exchange=rest)
    known, unknown = bound(client, main, "known"), bound(client, rest)
    client.publish("known", b"routed", exchange=main, headers={"CC": ["nowhere"]})
    client.publish("nowhere", b"not routed", exchange=main, headers={"CC": ["nowhere either"]})
    assert client.await_message(unknown).body == b"not routed"
    assert client.drain(known) == [b"routed"]
    assert client.drain(unknown) == []


def test_copies_in_a_transaction(client: Client) -> None:
    first, second = client.declare(), client.declare()
    client.channel.tx_select()
    client.publish(first, headers={"BCC": [second]})
    client.channel.tx_commit()
    assert client.drain(first) == client.drain(second) == [b"x"]


def test_keys_that_are_no_text_are_passed_over(client: Client) -> None:
    queue = client.declare()
    client.publish("nowhere", headers={"CC": [1, queue]})
    assert client.await_message(queue).body == b"x"


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies_must_be_a_list(client: Client, header: str) -> None:
    client.publish("x", headers={header: "text"})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        client.declare()
    assert refusal.value.reply_code == 406
    assert f'{{unacceptable_type_in_header,"{header}",longstr}}' in refusal.value.reply_text


def test_copies_as_dead_letters(client: Client) -> None:
    """The history names all keys; a letter with its old key goes to the copies, too."""
    letters, copies = client.declare(), client.declare()
    dead = exchange(client)
    source = client.declare(x_message_ttl=0, x_dead_letter_exchange=dead)
    client.channel.queue_bind(letters, dead, source)
    client.channel.queue_bind(copies, dead, "copy")
    client.publish(source, headers={"CC": ["copy"]})
    for queue in (letters, copies):
        assert client.await_message(queue).headers["x-death"][0]["routing-keys"] == [source, "copy"]
