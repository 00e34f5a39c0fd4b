"""Direct replies: amq.rabbitmq.reply-to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.support.pika_client import Client, eventually

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def replies(client: Client) -> list[tuple[Any, bytes]]:
    """What `client` gets as direct replies."""
    got: list[tuple[Any, bytes]] = []
    client.channel.basic_consume(REPLY_TO, lambda c, m, p, body: got.append((p, body)), auto_ack=True)
    return got


def test_question_and_answer(
    client: Client, replies: list[tuple[Any, bytes]], connect: Callable[[], Client]
) -> None:
    queue = client.declare()
    client.publish(queue, b"question", reply_to=REPLY_TO, correlation_id="7", headers={"h": 1})
    server = connect()
    question = server.await_message(queue)
    assert question.properties.reply_to.startswith(REPLY_TO + ".")
    assert (question.properties.correlation_id, question.headers) == ("7", {"h": 1})
    server.publish(question.properties.reply_to, b"answer", correlation_id="7")
    eventually(lambda: client.connection.process_data_events(0.05) or replies)
    properties, body = replies[0]
    assert (body, properties.correlation_id) == (b"answer", "7")


def test_many_answers_in_order(
    client: Client, replies: list[tuple[Any, bytes]], connect: Callable[[], Client]
) -> None:
    queue = client.declare()
    client.publish(queue, reply_to=REPLY_TO)
    server = connect()
    address = server.await_message(queue).properties.reply_to
    for number in range(100):
        server.publish(address, b"%d" % number)
    eventually(lambda: client.connection.process_data_events(0.05) or len(replies) == 100)
    assert [body for _, body in replies] == [b"%d" % number for number in range(100)]


def test_other_reply_tos_stay_as_they_are(client: Client, replies: list[tuple[Any, bytes]]) -> None:
    queue = client.declare()
    client.publish(queue, reply_to="mine")
    assert client.await_message(queue).properties.reply_to == "mine"


def test_an_answer_to_nobody_is_unroutable(
    client: Client, replies: list[tuple[Any, bytes]], connect: Callable[[], Client]
) -> None:
    queue = client.declare()
    client.publish(queue, reply_to=REPLY_TO)
    server = connect()
    address = server.await_message(queue).properties.reply_to
    assert server.exists(address)
    client.channel.close()
    assert not server.exists(address)
    server.channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        server.publish(address, mandatory=True)


def test_without_a_consumer_there_is_no_reply(client: Client) -> None:
    client.publish("x", reply_to=REPLY_TO)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        client.declare()
    assert refusal.value.reply_text == "PRECONDITION_FAILED - fast reply consumer does not exist"


def test_replies_are_not_acknowledged(client: Client) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        client.channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=False)
    assert refusal.value.reply_text == "PRECONDITION_FAILED - reply consumer cannot acknowledge"


def test_one_reply_consumer_per_channel(client: Client, replies: list[tuple[Any, bytes]]) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        client.channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)
    assert refusal.value.reply_text == "PRECONDITION_FAILED - reply consumer already set"


def test_cancelled_and_begun_anew(client: Client) -> None:
    for _ in range(2):
        tag = client.channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)
        client.channel.basic_cancel(tag)
    client.publish("x", reply_to=REPLY_TO)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        client.declare()


def test_replies_are_for_one_reader_only(
    client: Client, replies: list[tuple[Any, bytes]], connect: Callable[[], Client]
) -> None:
    """Who knows the address may write there, not read."""
    queue = client.declare()
    client.publish(queue, reply_to=REPLY_TO)
    server = connect()
    address = server.await_message(queue).properties.reply_to
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        server.channel.basic_get(address)
    assert refusal.value.reply_code in (404, 405)


@pytest.mark.parametrize("passive", [True, False])
def test_the_name_itself_can_be_declared(client: Client, passive: bool) -> None:
    """FastStream does; RabbitMQ answers as if there were an empty queue with one consumer."""
    answer = client.channel.queue_declare(REPLY_TO, passive=passive).method
    assert (answer.queue, answer.message_count, answer.consumer_count) == (REPLY_TO, 0, 1)


def test_declaring_the_address_of_somebody_gone_finds_nothing(client: Client) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
        client.channel.queue_declare(REPLY_TO + ".somebody", passive=False)
