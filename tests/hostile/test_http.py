"""The management port, attacked by clients that have not logged in, and by one with the lowest tag."""

from __future__ import annotations

import base64
import http.client
import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.hostile.peers import healthy_round_trip
from tools.brokers import EmberBroker

MIB = 1024 * 1024
HOST = b"Host: localhost\r\n"
GUEST = "Basic " + base64.b64encode(b"guest:guest").decode()
REPLY_SECONDS_MAX = 60.0


@contextmanager
def connected(victim: EmberBroker) -> Iterator[socket.socket]:
    with socket.create_connection((victim.host, victim.http_port), timeout=REPLY_SECONDS_MAX) as connection:
        yield connection


def status_of(connection: socket.socket) -> int:
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status


def sent(victim: EmberBroker, *pieces: bytes) -> int:
    """The status of the answer; the broker may answer before everything is sent, and read no more."""
    with connected(victim) as connection:
        with suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        return status_of(connection)


def ask(
    victim: EmberBroker, method: str, path: str, body: object = None, login: str = GUEST
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(victim.host, victim.http_port, timeout=REPLY_SECONDS_MAX)
    try:
        connection.request(method, path, json.dumps(body), {"Authorization": login})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def head(method: str, path: str, *headers: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode() + b"".join(
        header.encode() + b"\r\n" for header in (*headers, "")
    )


# -- before the login


@pytest.mark.parametrize(
    ("path", "status"), [("/api/login", 413), ("/api/definitions", 401), ("/api/queues/%2F/q", 405)]
)
def test_large_bodies_are_not_read(victim: EmberBroker, path: str, status: int) -> None:
    before = victim.rss_bytes()
    for _ in range(3):
        announced = head("POST", path, f"Content-Length: {30 * MIB}")
        assert sent(victim, announced, b"username=" + b"%41" * 10 * MIB) == status
    assert victim.rss_bytes() - before < 8 * MIB


def test_large_bodies_in_chunks_are_not_read(victim: EmberBroker) -> None:
    before = victim.rss_bytes()
    chunked = head("POST", "/api/login", "Transfer-Encoding: chunked")
    assert sent(victim, chunked, (b"100000\r\n" + bytes(MIB) + b"\r\n") * 20) == 413
    assert sent(victim, chunked, b"1\r\nx\r\n" * 500_000) == 413
    assert victim.rss_bytes() - before < 8 * MIB


def test_names_that_failed_to_log_in_are_kept_short(victim: EmberBroker) -> None:
    for number in range(3):
        name = base64.b64encode(b"%d" % number + b"x" * 9000).decode()
        assert ask(victim, "GET", "/api/whoami", login=f"Basic {name}")[0] == 401
    node = json.loads(ask(victim, "GET", "/api/overview")[1])["node"]
    told = json.loads(ask(victim, "GET", f"/api/auth/attempts/{node}/source")[1])
    assert max(len(source["username"]) for source in told) == 255


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET //[ HTTP/1.1\r\n" + HOST + b"\r\n", 404),
        (b"GET http://[ HTTP/1.1\r\n" + HOST + b"\r\n", 401),
        (b"GET /%ff%00/%zz HTTP/1.1\r\n" + HOST + b"\r\n", 404),
        (b"GET /" + b"/" * 10_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 401),
        (b"GET /?" + b"&" * 10_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 404),
        (b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", 405),
        (b"GET / HTTP/1.1\r\n" + HOST + b"a:\r\n" * 3000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"a: " + b"x" * 40_000, 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
        (b"POST /api/login HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nnone\r\n", 400),
        (b"POST /api/login HTTP/1.1\r\n" + HOST + b"Content-Length: 3000\r\n\r\n" + b"&" * 3000, 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Authorization: Basic " + b"=" * 5000 + b"\r\n\r\n", 401),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Authorization: Bearer " + b"." * 5000 + b"\r\n\r\n", 401),
    ],
)
def test_requests_that_were_made_to_hurt(victim: EmberBroker, data: bytes, status: int) -> None:
    assert sent(victim, data) == status


def test_mutated_requests(victim: EmberBroker) -> None:
    """Whatever comes of them: the log of the broker has no fault (see `unharmed`)."""
    request = head("PUT", "/api/queues/%2F/q?a=b#c", f"Authorization: {GUEST}", "Content-Length: 2") + b"{}"
    chunked = (
        head("POST", "/api/login", "Transfer-Encoding: chunked", "Expect: 100-continue")
        + b"1\r\nx\r\n0\r\n\r\n"
    )
    chance = random.Random(19)
    for _ in range(200):
        data = bytearray(chance.choice([request, chunked]))
        for _ in range(chance.choice([1, 1, 3, 10])):
            place = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    del data[place : place + chance.randint(1, 10)]
                case 2:
                    data[place:place] = chance.randbytes(chance.randint(1, 10))
        with connected(victim) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while connection.recv(65536):
                    pass


def test_requests_sent_ahead_are_left_in_the_systems_buffers(victim: EmberBroker) -> None:
    before = victim.rss_bytes()
    with connected(victim) as connection:
        connection.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            for _ in range(1000):
                connection.send(head("GET", "/api/openapi.json") * 1000)
        healthy_round_trip(victim)
    assert victim.rss_bytes() - before < 16 * MIB


@pytest.mark.parametrize(
    "beginning", [b"", b"GET / HT", head("POST", "/api/login", "Content-Length: 99") + b"x"]
)
def test_idle_connections_shut_nobody_out(victim: EmberBroker, beginning: bytes) -> None:
    """Neither an administrator, nor a health check, nor one who is connected and has logged in."""
    known = http.client.HTTPConnection(victim.host, victim.http_port, timeout=REPLY_SECONDS_MAX)
    idle: list[socket.socket] = []
    try:
        known.request("GET", "/api/whoami", headers={"Authorization": GUEST})
        assert known.getresponse().read()
        own = known.sock
        for _ in range(400):
            idle.append(socket.create_connection((victim.host, victim.http_port), timeout=REPLY_SECONDS_MAX))
            with suppress(ConnectionError):
                idle[-1].sendall(beginning)
        for _ in range(20):
            assert ask(victim, "GET", "/api/health/checks/alarms")[0] == 200
            assert sent(victim, head("GET", "/metrics")) == 200
        known.request("GET", "/api/whoami", headers={"Authorization": GUEST})
        assert known.getresponse().read() and known.sock is own, "it was thrown out"
    finally:
        known.close()
        for connection in idle:
            connection.close()


def test_connections_of_one_that_may_log_in_shut_nobody_out(victim: EmberBroker) -> None:
    idle = []
    try:
        for _ in range(300):
            connection = http.client.HTTPConnection(victim.host, victim.http_port, timeout=REPLY_SECONDS_MAX)
            idle.append(connection)
            connection.request("GET", "/api/whoami", headers={"Authorization": GUEST})
            assert connection.getresponse().read()
        assert ask(victim, "GET", "/api/health/checks/alarms")[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_answers_that_nobody_reads(victim: EmberBroker) -> None:
    before = victim.rss_bytes()
    deaf = []
    try:
        for _ in range(100):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((victim.host, victim.http_port))
            connection.sendall(head("GET", "/api/openapi.json"))
            deaf.append(connection)
        assert ask(victim, "GET", "/api/whoami")[0] == 200
        assert victim.rss_bytes() - before < 64 * MIB
    finally:
        for connection in deaf:
            connection.close()


# -- with the lowest tag


@pytest.fixture
def lowest(victim: EmberBroker) -> str:
    """The login of a user who may see little."""
    assert ask(victim, "PUT", "/api/users/low", {"password": "low", "tags": "management"})[0] in (201, 204)
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    assert ask(victim, "PUT", "/api/permissions/%2F/low", rights)[0] in (201, 204)
    return "Basic " + base64.b64encode(b"low:low").decode()


def test_patterns_that_backtrack(victim: EmberBroker, lowest: str) -> None:
    queues = [{"name": f"{'a' * 240}{number}", "vhost": "/", "durable": False} for number in range(200)]
    assert ask(victim, "POST", "/api/definitions", {"queues": queues})[0] == 204
    for pattern in ("(a%2B)%2B$", "a*a*a*a*a*b", "(a|a)*$", "(.*)*x", "(a?){99}b", "^(?!(a%2B)%2Bb)"):
        status = ask(victim, "GET", f"/api/queues?name={pattern}&use_regex=true", login=lowest)[0]
        assert status in (200, 400), pattern
    for queue in queues:
        assert ask(victim, "DELETE", f"/api/queues/%2F/{queue['name']}")[0] == 204


def test_wildcards_that_backtrack(victim: EmberBroker, lowest: str) -> None:
    assert ask(victim, "PUT", "/api/queues/%2F/words", {}, lowest)[0] == 201
    assert (
        ask(victim, "POST", "/api/bindings/%2F/e/amq.topic/q/words", {"routing_key": "#"}, lowest)[0] == 201
    )
    key = ".".join("a" * 127)
    message = {"routing_key": key, "payload": "x", "payload_encoding": "string", "properties": {}}
    for _ in range(20):
        assert ask(victim, "POST", "/api/exchanges/%2F/amq.topic/publish", message, lowest)[0] == 200
    wanted = "%23.a." * 160 + "b"
    status, page = ask(victim, "GET", f"/api/queues/%2F/words/messages?routing_key={wanted}", login=lowest)
    assert status == 200 and json.loads(page)["scanned"] == 20 and not json.loads(page)["messages"]
    assert ask(victim, "DELETE", "/api/queues/%2F/words", login=lowest)[0] == 204


@pytest.mark.parametrize("path", ["/api/queues/%2F/q", "/api/policies/%2F/p", "/api/users/u"])
def test_large_json_is_refused(victim: EmberBroker, lowest: str, path: str) -> None:
    announced = head("PUT", path, f"Authorization: {lowest}", f"Content-Length: {30 * MIB}")
    assert sent(victim, announced, b'{"arguments":[' + b"[]," * 10 * MIB) in (401, 413)


def test_a_large_message_is_published_but_nothing_else_in_it_is_large(
    victim: EmberBroker, lowest: str
) -> None:
    path = "/api/exchanges/%2F/amq.default/publish"
    message = {
        "routing_key": "nowhere",
        "payload": "x" * 5 * MIB,
        "payload_encoding": "string",
        "properties": {},
    }
    assert ask(victim, "POST", path, message, lowest) == (200, b'{"routed":false}')
    assert ask(victim, "POST", path, message | {"payload": [[]] * MIB}, lowest)[0] == 400
    assert (
        ask(victim, "POST", path, message | {"properties": {"headers": {"a": [[]] * (MIB // 4)}}}, lowest)[0]
        == 400
    )
    assert ask(victim, "POST", path, message | {"else": [[]] * (MIB // 2)}, lowest)[0] == 200


def test_many_at_once(victim: EmberBroker, lowest: str) -> None:
    """All of it together, while messages go by."""
    stop = threading.Event()

    def again() -> None:
        while not stop.is_set():
            with suppress(OSError, http.client.HTTPException):
                sent(victim, head("POST", "/api/login", f"Content-Length: {MIB}"), bytes(MIB))
                sent(victim, head("GET", "/metrics") + head("GET", "/api/openapi.json"))
                ask(victim, "GET", "/api/queues?name=(a%2B)%2B$&use_regex=true", login=lowest)

    threads = [threading.Thread(target=again, daemon=True) for _ in range(8)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(10):
            healthy_round_trip(victim)
            assert ask(victim, "GET", "/api/health/checks/alarms")[0] == 200
    finally:
        stop.set()
        for thread in threads:
            thread.join(REPLY_SECONDS_MAX)
