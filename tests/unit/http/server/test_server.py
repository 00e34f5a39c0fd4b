"""The management port of a real broker: HTTP as it comes over the wire, and what survives a crash."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest

from embermq.http.server import server
from embermq.testing import EmbeddedBroker
from tools.brokers import EmberBroker

LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
AUTHORIZATION = f"Host: localhost\r\nAuthorization: {LOGIN}\r\n".encode()


@pytest.fixture(scope="module")
def ember() -> Iterator[EmberBroker]:
    with EmberBroker() as running:
        yield running


@pytest.fixture
def raw(ember: EmberBroker) -> Iterator[socket.socket]:
    with socket.create_connection((ember.host, ember.http_port), timeout=60) as connection:
        yield connection


def ask(
    broker: EmberBroker, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(broker.host, broker.http_port, timeout=60)
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"Authorization": LOGIN, **(headers or {})})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None


def reply(connection: socket.socket, method: str = "GET") -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(connection, method=method)
    response.begin()
    return response  # closing the connection closes it


def test_the_ready_line_names_the_port(ember: EmberBroker) -> None:
    assert ask(ember, "GET", "/api/whoami") == (200, {"name": "guest", "tags": ["administrator"]})


def test_a_status_comes_with_its_reason(raw: socket.socket) -> None:
    """Clients show it: "401 Client Error: Unauthorized"."""
    for request, reason in (
        (b"GET /api/whoami HTTP/1.1\r\n" + AUTHORIZATION, "OK"),
        (b"GET /api/whoami HTTP/1.1\r\nHost: x\r\n", "Unauthorized"),
        (b"GET /api/queues/%2F/none HTTP/1.1\r\n" + AUTHORIZATION, "Not Found"),
        (b"no HTTP at all\r\n", "Bad Request"),
    ):
        raw.sendall(request + b"\r\n")
        response = reply(raw)
        response.read()
        assert response.reason == reason


def test_the_overview_says_where_the_api_answers(ember: EmberBroker) -> None:
    overview = ask(ember, "GET", "/api/overview")[1]
    (context,) = overview["contexts"]
    assert context["node"] == overview["node"]
    assert (context["ip"], context["port"]) == (ember.host, str(ember.http_port))


def test_many_requests_on_one_connection(raw: socket.socket) -> None:
    for _ in range(3):
        raw.sendall(b"GET /api/whoami HTTP/1.1\r\n" + AUTHORIZATION + b"\r\n")
        assert json.loads(reply(raw).read())["name"] == "guest"


def test_requests_sent_ahead_are_answered_in_order(raw: socket.socket) -> None:
    paths = [b"/api/whoami", b"/api/nothing", b"/api/cluster-name"]
    raw.sendall(b"".join(b"GET " + path + b" HTTP/1.1\r\n" + AUTHORIZATION + b"\r\n" for path in paths))
    received = b""
    while received.count(b"HTTP/1.1 ") < 3 or not received.endswith(b"}"):
        piece = raw.recv(65536)
        assert piece, received
        received += piece
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"200"]


def test_a_body_in_chunks_after_a_question(raw: socket.socket) -> None:
    head = b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    raw.sendall(b"PUT /api/queues/%2F/chunked HTTP/1.1\r\n" + AUTHORIZATION + head)
    assert raw.recv(1000).startswith(b"HTTP/1.1 100 ")
    raw.sendall(b'5\r\n{"dur\r\n')
    raw.sendall(b'd\r\nable": false}\r\n0\r\n\r\n')
    assert reply(raw).status == 201


def test_head_has_no_body(raw: socket.socket) -> None:
    raw.sendall(b"HEAD /api/overview HTTP/1.1\r\n" + AUTHORIZATION + b"\r\n")
    answer = reply(raw, "HEAD")
    assert answer.status == 200 and int(answer.headers["content-length"]) > 100 and answer.read() == b""


def test_answers_are_not_for_other_pages(raw: socket.socket) -> None:
    raw.sendall(b"GET / HTTP/1.1\r\nOrigin: https://evil.example\r\n" + AUTHORIZATION + b"\r\n")
    headers = reply(raw).headers
    assert "access-control-allow-origin" not in headers
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"AMQP\x00\x00\x09\x01\r\n\r\n", 400),
        (b"AMQP\x00\x00\x09\x01", 400),
        (b"GET /api/overview HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * 100_000, 431),
        (b"GET /" + b"x" * 100_000, 431),
        (b"GET //[ HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * 200 + b"\r\n", 431),
        (b"POST /api/definitions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", 401),
        (b"POST /api/definitions HTTP/1.1\r\n" + AUTHORIZATION + b"Content-Length: 99999999999\r\n\r\n", 413),
        (b"PUT /api/queues/%2F/q HTTP/1.1\r\n" + AUTHORIZATION + b"Content-Length: 999999\r\n\r\n", 413),
        (b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n", 413),
        (b"GET /api/queues?" + b"a=1&" * 200 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused(
    ember: EmberBroker, raw: socket.socket, sent: bytes, status: int
) -> None:
    raw.sendall(sent)
    assert reply(raw).status == status
    assert ask(ember, "GET", "/api/whoami")[0] == 200


def test_a_request_that_never_ends_holds_nobody_up(ember: EmberBroker, raw: socket.socket) -> None:
    raw.sendall(b"PUT /api/queues/%2F/slow HTTP/1.1\r\n" + AUTHORIZATION + b"Content-Length: 100\r\n\r\n{")
    assert ask(ember, "GET", "/api/whoami")[0] == 200


def test_old_clients_are_answered_and_left(raw: socket.socket) -> None:
    raw.sendall(b"GET /api/whoami HTTP/1.0\r\n" + AUTHORIZATION + b"\r\n")
    received = b""
    while piece := raw.recv(65536):
        received += piece
    assert received.startswith(b"HTTP/1.1 200 ") and received.endswith(b"}")


def test_connections_are_closed_with_the_reason_given(ember: EmberBroker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(ember.url))
    [shown] = ask(ember, "GET", "/api/connections")[1]
    path = "/api/connections/" + shown["name"].replace(" ", "%20").replace(">", "%3E")
    assert ask(ember, "DELETE", path, headers={"X-Reason": "maintenance"})[0] == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(10)
    assert closed.value.reply_code == 320 and "maintenance" in closed.value.reply_text


@pytest.mark.parametrize("gone", ["vhosts/doomed", "users/doomed"])
def test_connections_end_with_their_virtual_host_and_their_user(ember: EmberBroker, gone: str) -> None:
    assert ask(ember, "PUT", "/api/vhosts/doomed")[0] == 201
    assert ask(ember, "PUT", "/api/users/doomed", {"password": "x", "tags": ""})[0] == 201
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    assert ask(ember, "PUT", "/api/permissions/doomed/doomed", rights)[0] == 201
    url = f"amqp://doomed:x@{ember.host}:{ember.port}/doomed"
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    assert ask(ember, "DELETE", f"/api/{gone}")[0] == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(10)
    for left in ("vhosts/doomed", "users/doomed"):
        ask(ember, "DELETE", f"/api/{left}")


def test_what_was_answered_survives_a_crash() -> None:
    message = {
        "routing_key": "kept",
        "payload": "safe",
        "payload_encoding": "string",
        "properties": {"delivery_mode": 2},
    }
    with EmberBroker() as broker:
        assert ask(broker, "PUT", "/api/vhosts/v", {"description": "kept", "tags": "t"})[0] == 201
        assert ask(broker, "PUT", "/api/users/ada", {"password": "x", "tags": "management"})[0] == 201
        rights = {"configure": "", "write": "", "read": "^k"}
        assert ask(broker, "PUT", "/api/permissions/v/ada", rights)[0] == 201
        assert ask(broker, "PUT", "/api/queues/v/kept", {"durable": True})[0] == 201
        assert ask(broker, "PUT", "/api/queues/v/deleted", {"durable": True})[0] == 201
        assert ask(broker, "POST", "/api/bindings/v/e/amq.topic/q/kept", {"routing_key": "#"})[0] == 201
        assert ask(broker, "POST", "/api/exchanges/v/amq.topic/publish", message) == (200, {"routed": True})
        assert ask(broker, "DELETE", "/api/queues/v/deleted")[0] == 204
        before = ask(broker, "GET", "/api/definitions")[1]
        broker.kill()
        broker.start()
        assert ask(broker, "GET", "/api/definitions")[1] == before
        taken = {"ackmode": "ack_requeue_false", "count": 5, "encoding": "auto"}
        [kept] = ask(broker, "POST", "/api/queues/v/kept/get", taken)[1]
        assert kept["payload"] == "safe"
        login = "Basic " + base64.b64encode(b"ada:x").decode()
        assert ask(broker, "GET", "/api/whoami", headers={"Authorization": login})[0] == 200


def test_a_stop_does_not_wait_for_idle_clients() -> None:
    with EmberBroker() as broker:
        with socket.create_connection((broker.host, broker.http_port)) as idle:
            idle.sendall(b"GET /api/who")
            assert broker.stop() == 0


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 0),
        (b"GET /api/who", 408),
        (b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nuser", 408),
        (b"POST /api/definitions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nuser", 401),
    ],
)
def test_a_request_has_to_come_in_time(monkeypatch: pytest.MonkeyPatch, sent: bytes, status: int) -> None:
    monkeypatch.setattr(server, "HEAD_S_MAX", 0.3)
    monkeypatch.setattr(server, "BODY_S_MAX", 0.3)
    with EmbeddedBroker() as broker:
        address = urlsplit(broker.http_url)
        with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
            connection.sendall(sent)
            if status:
                assert reply(connection).status == status
            else:
                assert connection.recv(1) == b"", "nothing was asked, and nothing is answered"


def test_a_client_that_went_on_sending_reads_why_it_was_refused(ember: EmberBroker) -> None:
    """Closing at once would reset the connection, and the answer would be lost on its way."""
    with socket.create_connection((ember.host, ember.http_port), timeout=60) as connection:
        connection.sendall(b"POST /api/definitions HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n")
        for _ in range(200):
            connection.sendall(bytes(100_000))
        answer = reply(connection)
        assert answer.status == 401 and answer.headers["connection"] == "close"


def test_a_small_body_that_nobody_wants_does_not_end_the_connection(raw: socket.socket) -> None:
    """Clients ask without a login first, and again on the same connection when they are told to."""
    raw.sendall(b"PUT /api/queues/%2F/q HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
    refused = reply(raw)
    assert refused.status == 401 and refused.read() and "connection" not in refused.headers
    raw.sendall(b"GET /api/whoami HTTP/1.1\r\n" + AUTHORIZATION + b"\r\n")
    assert reply(raw).status == 200
