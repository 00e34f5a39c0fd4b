"""Class message: transfers in both directions, answered when they are safe; references."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest

from embermq.testing import EmbeddedBroker
from tests.support.client_0_9 import REQUEST, Called, Client09, payload
from tests.support.raw_frames import unique


def declared(client: Client09, **arguments: object) -> str:
    name = unique("message")
    client.call(1, "queue.declare", queue=name, arguments=arguments)
    return name


def publish(client: Client09, queue: str, *bodies: bytes) -> list[int]:
    return [client.request(1, "message.transfer", routing_key=queue, body=(0, body)) for body in bodies]


def answered(client: Client09, count: int, name: str = "message.ok") -> list[int]:
    """The requests that the next responses are about, until there are so many."""
    ids: list[int] = []
    while len(ids) < count:
        found = client.expect(1, name)
        ids += range(found.request_id, found.request_id + found.batch_offset + 1)
    return ids


def test_a_transfer_is_answered_and_got(client: Client09) -> None:
    queue = declared(client)
    client.ask(1, "message.transfer", routing_key=queue, body=(0, b"hello"))
    client.request(1, "message.get", queue=queue, destination="here")
    got = client.expect(1, "message.transfer")
    assert (got.fields["body"], got.fields["destination"]) == ((0, b"hello"), "here")
    assert got.fields["routing-key"] == queue
    client.expect(1, "message.ok")
    client.respond(1, got.request_id, "message.ok")
    assert client.ask(1, "message.get", "message.empty", queue=queue, destination="here")


def test_every_field_of_a_transfer_arrives(client: Client09) -> None:
    queue = declared(client)
    fields = {
        "routing_key": queue,
        "priority": 3,
        "delivery_mode": 2,
        "message_id": "id",
        "correlation_id": "correlation",
        "reply_to": "reply",
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "user_id": "guest",
        "app_id": "app",
        "transaction_id": "transaction",
        "security_token": b"\0token",
        "application_headers": {"a": 1, "b": "text"},
        "body": (0, b"all"),
    }
    client.ask(1, "message.transfer", ttl=60_000, **fields)
    client.request(1, "message.get", queue=queue, no_ack=True)
    got = client.expect(1, "message.transfer").fields
    assert {name: got[name.replace("_", "-")] for name in fields} == fields
    assert got["ttl"] == 60_000
    assert got["timestamp"] > 0
    assert got["expiration"] == got["timestamp"] + 60


def test_a_consumer_gets_messages_as_requests_and_its_answers_acknowledge(
    client: Client09, broker: EmbeddedBroker
) -> None:
    queue = declared(client)
    client.ask(1, "message.qos", prefetch_count=3)
    client.ask(1, "message.consume", queue=queue, destination="tag")
    publish(client, queue, b"1", b"2", b"3", b"4", b"5")
    _, transfers = taken(client, 5, 3)
    assert [each.fields["body"][1] for each in transfers] == [b"1", b"2", b"3"]
    assert {each.fields["destination"] for each in transfers} == {"tag"}
    client.respond(1, transfers[0].request_id, "message.ok", batch_offset=2)  # all three in one
    rest = [client.expect(1, "message.transfer") for _ in range(2)]
    assert [each.fields["body"][1] for each in rest] == [b"4", b"5"]
    client.respond(1, rest[0].request_id, "message.ok")
    client.call(1, "channel.close", reply_code=200)
    assert eventually_got(broker, queue) == [b"5"]


def taken(client: Client09, responses: int, transfers: int) -> tuple[list[int], list[Called]]:
    """So many answers and transfers, in whichever order they come."""
    ids: list[int] = []
    messages: list[Called] = []
    while len(ids) < responses or len(messages) < transfers:
        found = client.next(1)
        if found.name == "message.transfer":
            messages.append(found)
        else:
            assert found.name == "message.ok", found
            ids += range(found.request_id, found.request_id + found.batch_offset + 1)
    return ids, messages


def eventually_got(broker: EmbeddedBroker, queue: str) -> list[bytes]:
    """What a client of 0-9-1 finds in a queue, in order, once its last owner is gone."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        channel = connection.channel()
        bodies = []
        for method, _, body in channel.consume(queue, inactivity_timeout=1.0):
            if method is None:
                return bodies
            bodies.append(body)
    return bodies


def test_equal_answers_to_neighbours_are_one_response(client: Client09) -> None:
    queue = declared(client)
    ids = publish(client, queue, *[b"x"] * 500)
    found = answered(client, 500)
    assert found == ids
    assert client.marks[1] < 500  # responses that it took


def test_a_rejected_message_is_dead_lettered(client: Client09) -> None:
    dead = declared(client)
    queue = declared(client, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    client.ask(1, "message.transfer", routing_key=queue, body=(0, b"bad"))
    client.ask(1, "message.consume", queue=queue, destination="tag")
    transfer = client.expect(1, "message.transfer")
    client.respond(1, transfer.request_id, "message.reject", code=406, text="no")
    client.ask(1, "message.consume", queue=dead, destination="dead")
    assert client.expect(1, "message.transfer").fields["body"] == (0, b"bad")


@pytest.mark.parametrize(("flag", "code"), [("mandatory", 312), ("immediate", 313)])
def test_a_message_that_cannot_be_delivered_is_rejected(client: Client09, flag: str, code: int) -> None:
    queue = declared(client)
    values = {"routing_key": queue if flag == "immediate" else "no queue", "body": (0, b"x")}
    if flag == "immediate":
        client.request(1, "message.transfer", immediate=True, **values)
    else:  # the bit of the errata, behind the last field
        client.request_ids[1] = 1
        data = payload("message.transfer", **values) + b"\x01"
        client.frame(REQUEST, 1, (1).to_bytes(8, "big") + bytes(8) + data)
    assert client.expect(1, "message.reject").fields["code"] == code
    assert client.ask(1, "message.get", "message.empty", queue=queue)


def test_a_full_queue_rejects(client: Client09) -> None:
    queue = declared(client, **{"x-max-length": 1, "x-overflow": "reject-publish"})
    client.ask(1, "message.transfer", routing_key=queue, body=(0, b"1"))
    refusal = client.ask(1, "message.transfer", "message.reject", routing_key=queue, body=(0, b"2"))
    assert refusal.fields["code"] == 506


def test_a_body_by_reference_is_published_when_that_is_closed(client: Client09) -> None:
    queue = declared(client)
    client.ask(1, "message.open", reference=b"ref")
    client.ask(1, "message.append", reference=b"ref", bytes=b"hello ")
    waiting = client.request(1, "message.transfer", routing_key=queue, body=(1, b"ref"))
    client.ask(1, "message.append", reference=b"ref", bytes=b"world")
    assert client.ask(1, "message.get", "message.empty", queue=queue)
    client.request(1, "message.close", reference=b"ref")
    assert waiting in answered(client, 2)
    client.request(1, "message.get", queue=queue)
    assert client.expect(1, "message.transfer").fields["body"] == (0, b"hello world")


def test_a_message_larger_than_a_frame_comes_as_a_reference(client: Client09) -> None:
    queue = declared(client)
    body = bytes(range(256)) * 2000
    client.ask(1, "message.open", reference=b"big")
    for start in range(0, len(body), 100_000):
        client.ask(1, "message.append", reference=b"big", bytes=body[start : start + 100_000])
    client.request(1, "message.transfer", routing_key=queue, body=(1, b"big"))
    client.request(1, "message.close", reference=b"big")
    answered(client, 2)
    client.request(1, "message.get", queue=queue)
    name = client.expect(1, "message.open").fields["reference"]
    got = b""
    while (found := client.expect(1, "message.append", "message.transfer")).name == "message.append":
        assert found.fields["reference"] == name
        got += found.fields["bytes"]
    assert found.fields["body"] == (1, name)
    assert client.expect(1, "message.close").fields["reference"] == name
    assert got == body
    client.expect(1, "message.ok")


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("message.append", {"reference": b"closed", "bytes": b"x"}),
        ("message.close", {"reference": b"closed"}),
        ("message.checkpoint", {"reference": b"closed", "identifier": "x"}),
        ("message.transfer", {"body": (1, b"closed")}),
    ],
)
def test_a_reference_that_is_not_open_is_an_error(
    client: Client09, name: str, fields: dict[str, object]
) -> None:
    client.ask(1, "message.open", reference=b"closed")
    client.ask(1, "message.close", reference=b"closed")
    client.request(1, name, **fields)
    assert "not open" in client.expect_closed(1, 530)


def test_a_reference_is_opened_once(client: Client09) -> None:
    client.ask(1, "message.open", reference=b"twice")
    client.request(1, "message.open", reference=b"twice")
    assert "open already" in client.expect_closed(1, 530)


def test_references_are_bounded(client: Client09) -> None:
    for number in range(256):
        client.request(1, "message.open", reference=b"%d" % number)
    answered(client, 256)
    client.request(1, "message.open", reference=b"one more")
    assert "256 references" in client.expect_closed(1, 406)


def test_a_checkpoint_lets_another_connection_go_on(
    client: Client09, connect: Callable[..., Client09]
) -> None:
    queue = declared(client)
    client.ask(1, "message.open", reference=b"a")
    client.ask(1, "message.append", reference=b"a", bytes=b"first ")
    client.ask(1, "message.checkpoint", reference=b"a", identifier="sum")
    client.ask(1, "message.append", reference=b"a", bytes=b"lost")
    client.drop()
    other = connect()
    other.open(1)
    found = other.ask(1, "message.resume", "message.offset", reference=b"b", identifier="sum")
    assert found.fields["value"] == 6
    other.ask(1, "message.append", reference=b"b", bytes=b"second")
    other.request(1, "message.transfer", routing_key=queue, body=(1, b"b"))
    other.request(1, "message.close", reference=b"b")
    answered(other, 2)
    other.request(1, "message.get", queue=queue)
    assert other.expect(1, "message.transfer").fields["body"] == (0, b"first second")
    other.request(1, "message.resume", reference=b"c", identifier="none")
    other.expect(1, "message.ok")
    assert "no checkpoint" in other.expect_closed(1, 404)


def test_recovered_messages_come_again(client: Client09) -> None:
    queue = declared(client)
    client.ask(1, "message.transfer", routing_key=queue, body=(0, b"again"))
    client.ask(1, "message.consume", queue=queue, destination="tag")
    first = client.expect(1, "message.transfer")
    client.ask(1, "message.recover", requeue=True)
    second = client.expect(1, "message.transfer")
    assert second.request_id > first.request_id
    assert (first.fields["redelivered"], second.fields["redelivered"]) == (False, True)
    client.respond(1, second.request_id, "message.ok")
    client.ask(1, "message.cancel", destination="tag")


def test_a_transaction_holds_transfers_and_answers(client: Client09) -> None:
    queue = declared(client)
    client.ask(1, "tx.select", "tx.select-ok")
    client.ask(1, "message.transfer", routing_key=queue, body=(0, b"held"))
    assert client.ask(1, "message.get", "message.empty", queue=queue)
    client.ask(1, "tx.commit", "tx.commit-ok")
    client.request(1, "message.get", queue=queue)
    got = client.expect(1, "message.transfer")
    client.expect(1, "message.ok")
    client.respond(1, got.request_id, "message.ok")
    client.ask(1, "tx.rollback", "tx.rollback-ok")
    client.request(1, "message.recover", requeue=True)
    client.expect_closed(1, 406)


def test_other_dialects_see_the_same_messages(client: Client09, broker: EmbeddedBroker) -> None:
    queue = declared(client)
    client.ask(
        1,
        "message.transfer",
        routing_key=queue,
        content_type="text/plain",
        application_headers={"k": "v"},
        body=(0, b"from 0-9"),
    )
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        channel = connection.channel()
        _, properties, body = channel.basic_get(queue, auto_ack=True)
        assert body == b"from 0-9"
        assert (properties.content_type, properties.headers) == ("text/plain", {"k": "v"})
        channel.basic_publish("", queue, b"from 0-9-1", pika.BasicProperties(app_id="pika", priority=4))
        channel.queue_declare(queue, passive=True)
    client.request(1, "message.get", queue=queue)
    got = client.expect(1, "message.transfer").fields
    assert (got["body"], got["app-id"], got["priority"]) == ((0, b"from 0-9-1"), "pika", 4)
    client.expect(1, "message.ok")
    client.call(1, "basic.qos", prefetch_count=1)


def test_a_stream_is_read_with_offsets(client: Client09) -> None:
    queue = unique("stream-of-messages")
    client.call(1, "queue.declare", queue=queue, durable=True, arguments={"x-queue-type": "stream"})
    publish(client, queue, b"1", b"2")
    answered(client, 2)
    client.ask(1, "message.qos", prefetch_count=10)
    client.ask(1, "message.consume", queue=queue, destination="s", filter={"x-stream-offset": "first"})
    for number, body in enumerate((b"1", b"2")):
        found = client.expect(1, "message.transfer")
        assert found.fields["body"] == (0, body)
        assert found.fields["application-headers"]["x-stream-offset"] == number
        client.respond(1, found.request_id, "message.ok")
    client.call(1, "queue.delete", queue=queue)


def test_it_is_a_class_of_requests(client: Client09) -> None:
    client.send(1, "message.transfer", body=(0, b"x"))
    assert "request frame" in client.expect_closed(0, 503)


def test_confirms_and_transfers_do_not_share_a_channel(client: Client09) -> None:
    client.frame(1, 1, b"\x00\x55\x00\x0a\x00")  # confirm.select, RabbitMQ's extension
    assert client.next_frame().payload == b"\x00\x55\x00\x0b"
    client.request(1, "message.transfer", routing_key="x", body=(0, b"x"))
    assert "confirm.select" in client.expect_closed(0, 503)
