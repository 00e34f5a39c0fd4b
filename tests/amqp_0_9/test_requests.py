"""Requests and responses: numbers, any method in a request, requests that come twice."""

from __future__ import annotations

import pytest

from tests.support.client_0_9 import REQUEST, RESPONSE, TRACE, Client09
from tests.support.raw_frames import unique


def test_any_synchronous_method_may_be_a_request(client: Client09) -> None:
    queue = unique("requests")
    made = client.ask(1, "queue.declare", "queue.declare-ok", queue=queue, nowait=True)
    assert made.fields["queue"] == queue
    assert (made.response_id, made.request_id, made.batch_offset) == (1, 1, 0)
    bound = client.ask(1, "queue.bind", "queue.bind-ok", queue=queue, exchange="amq.direct")
    assert (bound.response_id, bound.request_id) == (2, 2)
    client.ask(1, "channel.ping", "channel.ok")
    client.ask(1, "channel.flow", "channel.flow-ok", active=True)
    client.ask(1, "basic.get", "basic.get-empty", queue=queue)
    client.ask(1, "queue.delete", "queue.delete-ok", queue=queue)
    client.ask(1, "channel.close", "channel.close-ok", reply_code=200)


def test_a_ping_in_a_method_frame_is_answered_by_one(client: Client09) -> None:
    client.send(1, "channel.ping")
    assert client.expect(1, "channel.ok").response_id == 0


def test_a_request_that_comes_again_is_answered_again_and_not_executed(client: Client09) -> None:
    queue = unique("requests")
    client.call(1, "queue.declare", queue=queue)
    first = client.ask(1, "message.transfer", routing_key=queue, body=(0, b"once"))
    client.marks[1] = 0
    client.request(1, "message.transfer", request_id=1, routing_key=queue, body=(0, b"once"))
    assert client.expect(1, "message.ok") == first
    assert client.call(1, "queue.purge", queue=queue).fields["message-count"] == 1


def test_an_answer_is_kept_until_the_client_has_processed_it(client: Client09) -> None:
    client.ask(1, "channel.ping", "channel.ok")
    client.ask(1, "channel.ping", "channel.ok")
    client.ask(1, "channel.ping", "channel.ok")  # with the mark 2: the first is not needed any more
    client.marks[1] = 2
    client.request(1, "channel.ping", request_id=2)
    client.expect(1, "channel.ok")
    client.request(1, "channel.ping", request_id=1)
    assert "not kept" in client.expect_closed(0, 506)


def test_a_missing_request_is_noticed(client: Client09) -> None:
    client.ask(1, "channel.ping", "channel.ok")
    client.request(1, "channel.ping", request_id=3)
    assert "request 3 follows request 1" in client.expect_closed(0, 503)


def test_a_response_to_nothing_is_refused(client: Client09) -> None:
    client.respond(1, 5, "message.ok")
    assert "the last one is 0" in client.expect_closed(0, 503)


def test_a_method_without_a_response_is_no_request(client: Client09) -> None:
    client.request(1, "basic.ack", delivery_tag=1)
    assert "no response" in client.expect_closed(0, 503)


@pytest.mark.parametrize("kind", [REQUEST, RESPONSE])
@pytest.mark.parametrize("size", [0, 7, 19, 20, 23])
def test_a_frame_that_is_cut_short_is_refused(client: Client09, kind: int, size: int) -> None:
    client.frame(kind, 1, bytes(size))
    assert client.expect(0, "connection.close").fields["reply-code"] in (502, 503, 540)


def test_a_request_needs_a_channel(client: Client09) -> None:
    client.request(9, "channel.ping")
    client.expect_closed(0, 504)


def test_trace_frames_belong_to_channel_0(client: Client09) -> None:
    client.frame(TRACE, 0, b"anything")
    client.send(1, "channel.ping")
    client.expect(1, "channel.ok")
    client.frame(TRACE, 1, b"anything")
    client.expect_closed(0, 501)


@pytest.mark.parametrize("kind", [4, 5, 6])
def test_out_of_band_frames_are_not_implemented(client: Client09, kind: int) -> None:
    client.frame(kind, 1, b"")
    assert "out-of-band" in client.expect_closed(0, 540)


def test_a_content_may_be_broken_off(client: Client09) -> None:
    queue = unique("requests")
    client.call(1, "queue.declare", queue=queue)
    client.send(1, "basic.publish", routing_key=queue)
    client.call(1, "basic.qos")  # instead of the header
    client.send(1, "basic.publish", routing_key=queue)
    client.frame(2, 1, b"\x00\x3c\x00\x00" + (10).to_bytes(8, "big") + b"\0\0")
    client.frame(3, 1, b"half")
    client.send(1, "basic.publish", routing_key=queue)
    client.content(1, 60, b"whole", content_type="x")
    client.ask(1, "channel.ping", "channel.ok")
    assert client.call(1, "queue.purge", queue=queue).fields["message-count"] == 1
