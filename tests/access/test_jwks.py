"""Keys for tokens from where the issuer publishes them: over TLS, renewed when needed and not more often."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import pika
import pytest

from embermq.app.jwks import JWKS_BYTES_MAX
from embermq.broker.security.token import TokenProblem, keys_in
from embermq.config import ConfigError
from embermq.config.settings import OAuth
from embermq.net.https_get import FetchError, fetch
from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER
from tests.access.issuer import AUDIENCE, Issuer
from tests.access.tenant import ask, connect
from tests.access.test_sasl_clients import open_with, say, start_ok
from tests.hostile.peers import Peer
from tests.support.certificates import Authority
from tests.support.pika_client import eventually
from tools.brokers import EmberBroker

LOGIN = ("configure:*/*", "tag:management")


class Publisher(ThreadingHTTPServer):
    """Publishes whatever the test wants, over TLS; counts how often it was asked."""

    daemon_threads = True

    def __init__(self, authority: Authority) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.issue("issuer"))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server_address[1]}/keys?all=1"
        self.status, self.body, self.asked = 200, b"", 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def publish(self, *issuers: Issuer) -> None:
        entries = [json.loads(issuer.jwks_file.read_text())["keys"][0] for issuer in issuers]
        odd = [{"kty": "XYZ", "kid": "odd"}, {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}]
        self.status, self.body = 200, json.dumps({"keys": [*odd, *entries]}).encode()

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that do not believe us hang up; that is what some tests want."""


class Answer(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        self.server.asked += 1
        assert self.path == "/keys?all=1"
        self.send_response(self.server.status)
        self.send_header("Location", self.server.url)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("issuers")


@pytest.fixture(scope="module")
def authority(directory: Path) -> Authority:
    return Authority(directory)


@pytest.fixture
def publisher(authority: Authority) -> Iterator[Publisher]:
    with Publisher(authority) as made:
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def issuers(directory: Path) -> list[Issuer]:
    return [Issuer(directory, kid) for kid in ("old", "new", "unpublished")]


@pytest.fixture
def start(publisher: Publisher, authority: Authority) -> Iterator[Callable[[int], EmberBroker]]:
    started: list[EmberBroker] = []

    def make(interval_s: int) -> EmberBroker:
        environment = {
            "EMBERMQ_OAUTH_JWKS_URL": publisher.url,
            "EMBERMQ_OAUTH_JWKS_AUTHORITIES": str(authority.file),
            "EMBERMQ_OAUTH_JWKS_INTERVAL_S": str(interval_s),
            "EMBERMQ_OAUTH_AUDIENCE": AUDIENCE,
            "EMBERMQ_AUTH_REFUSAL_PAUSE_S": "0",
            "EMBERMQ_AUTH_FAILURES_FREE": "10000",
        }
        started.append(EmberBroker(env=environment))
        return started[-1].__enter__()

    yield make
    for broker in started:
        broker.__exit__(None, None, None)


def lets_in(broker: EmberBroker, issuer: Issuer) -> bool:
    try:
        connect(broker, "whoever", password=issuer.token(*LOGIN)).close()
    except pika.exceptions.AMQPConnectionError:
        return False
    return ask(broker, "GET", "whoami", token=issuer.token(*LOGIN)).status == 200


def test_an_issuer_that_changes_its_keys(
    start: Callable[[int], EmberBroker], publisher: Publisher, issuers: list[Issuer]
) -> None:
    old, new, unpublished = issuers
    publisher.publish(old)
    broker = start(1)
    assert lets_in(broker, old)  # also where the first fetch is under way: the login waits for it
    assert not lets_in(broker, new)
    with Peer(broker) as peer:
        open_with(peer, old.token(*LOGIN))
        publisher.publish(old, new)
        assert eventually(lambda: lets_in(broker, new)) and lets_in(broker, old)
        say(peer, methods.ConnectionUpdateSecret(new.token(*LOGIN).encode(), "renewal"))
        peer.expect(methods.ConnectionUpdateSecretOk)
        say(peer, methods.ConnectionUpdateSecret(unpublished.token(*LOGIN).encode(), "renewal"))
        peer.expect(methods.ConnectionClose)
    for status, body in ((302, b""), (200, b" " * (JWKS_BYTES_MAX + 1))):
        publisher.status, publisher.body = status, body
        before = publisher.asked
        eventually(lambda: not lets_in(broker, unpublished) and publisher.asked > before)  # noqa: B023
        assert lets_in(broker, old) and lets_in(broker, new)
    publisher.publish(new)
    eventually(lambda: not lets_in(broker, unpublished) and not lets_in(broker, old))
    assert lets_in(broker, new)
    log = broker.log_path.read_text()
    for why in ("the answer is 302", "more than 262,144 bytes"):
        assert why in log


def test_names_of_keys_that_nobody_has_cost_no_fetches(
    start: Callable[[int], EmberBroker], publisher: Publisher, issuers: list[Issuer]
) -> None:
    publisher.publish(issuers[0])
    broker = start(86400)
    assert lets_in(broker, issuers[0])
    assert not any(lets_in(broker, issuers[2]) for _ in range(5))
    assert publisher.asked == 1


def test_who_is_not_believed_or_never_ends_is_not_heard(publisher: Publisher, authority: Authority) -> None:
    publisher.body = b"here"
    assert fetch(publisher.url, 4, 10, str(authority.file)) == b"here"
    with pytest.raises(FetchError, match="certificate verify failed"):
        fetch(publisher.url, 4, 10)
    with pytest.raises(FetchError, match="more than 3 bytes"):
        fetch(publisher.url, 3, 10, str(authority.file))
    with pytest.raises(FetchError, match="No such file"):
        fetch(publisher.url, 4, 10, "/nowhere.pem")


class Dripping:
    """Sends a beginning and then a byte now and then, for ever; to every connection."""

    def __init__(self, beginning: bytes) -> None:
        self.beginning = beginning
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.closed = threading.Event()
        self.asked = threading.Event()
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                self.asked.set()
                self.threads.append(threading.Thread(target=self.drip, args=(peer,)))
                self.threads[-1].start()

    def drip(self, peer: socket.socket) -> None:
        with peer, suppress(OSError):
            peer.sendall(self.beginning)
            while not self.closed.wait(0.02):
                peer.sendall(b"x" if self.beginning else b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for thread in self.threads:
            thread.join()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "beginning",
    [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"],
    ids=["nothing", "headers", "a body"],
)
def test_a_fetch_has_a_deadline_whatever_drips(scheme: str, beginning: bytes) -> None:
    if scheme == "https" and beginning:
        beginning = b"\x16\x03\x03\x40\x00"  # a record of TLS that does not end
    with Dripping(beginning) as server, pytest.raises(FetchError, match=r"it takes longer than 0\.5 s"):
        fetch(f"{scheme}://127.0.0.1:{server.port}/keys", 1 << 20, 0.5)


def start_with(server: Dripping, **more: str) -> EmberBroker:
    settings = {
        "OAUTH_JWKS_URL": f"http://127.0.0.1:{server.port}/keys",
        "OAUTH_JWKS_INTERVAL_S": "1",
        "OAUTH_AUDIENCE": AUDIENCE,
        "AUTH_REFUSAL_PAUSE_S": "0",
        "AUTH_FAILURES_FREE": "10000",
        **more,
    }
    return EmberBroker(env={f"EMBERMQ_{name}": value for name, value in settings.items()})


@pytest.mark.parametrize(("fetch_s", "login_s"), [("60", "1"), ("1", "600")])
def test_a_login_waits_for_keys_no_longer_than_for_anything(
    issuers: list[Issuer], fetch_s: str, login_s: str
) -> None:
    """Whichever is shorter, the time for a fetch or that for a login; both ways in."""
    more = {"OAUTH_JWKS_TIMEOUT_S": fetch_s, "LIMITS_HANDSHAKE_S": login_s}
    with Dripping(b"HTTP/1.1 200 OK\r\nX: ") as server, start_with(server, **more) as broker:
        assert server.asked.wait(30)
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(broker, "whoever", password=issuers[0].token(*LOGIN))
        assert ask(broker, "GET", "whoami", token=issuers[0].token(*LOGIN)).status == 401
        given_up = "it takes longer than"
        if fetch_s == "1":
            assert eventually(lambda: given_up in broker.log_path.read_text())
        else:
            assert given_up not in broker.log_path.read_text(), "the fetch goes on"


def test_logins_that_wait_for_keys_leave_places_to_the_others(issuers: list[Issuer]) -> None:
    patient = {"OAUTH_JWKS_TIMEOUT_S": "60", "LIMITS_HANDSHAKE_S": "600"}
    places = {"LIMITS_UNAUTHENTICATED_PER_ADDRESS": "4"}
    with ExitStack() as stack:
        server = stack.enter_context(Dripping(b"HTTP/1.1 200 OK\r\nX: "))
        broker = stack.enter_context(start_with(server, **patient, **places))
        assert server.asked.wait(30)
        capabilities = {"capabilities": {"authentication_failure_close": True}}
        peers = [stack.enter_context(Peer(broker)) for _ in range(6)]
        for peer in peers:
            peer.send_bytes(PROTOCOL_HEADER)
            say(peer, start_ok(issuers[0].token(*LOGIN), capabilities))
        for peer in peers[2:]:
            peer.expect(methods.ConnectionClose)  # two wait, and two places are for other logins
        connect(broker, "guest").close()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://login.example.org/keys", "expected https, because"),
        ("ftp://127.0.0.1/keys", "expected https://host/path"),
        ("https://", "expected https://host/path"),
        ("https://name:password@host/keys", "expected https://host/path"),
        ("https://host:port/keys", "Port could not be cast"),
    ],
)
def test_addresses_that_are_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        OAuth(jwks_url=url, audience="x")
    with pytest.raises(ConfigError, match=r"oauth\.audience is missing"):
        OAuth(jwks_url="https://login.example.org/keys")
    assert OAuth(jwks_url="http://127.0.0.1:8080/keys", audience="x")


@pytest.mark.parametrize("data", [b"<html>", b"{}", b'{"keys": [3]}', b'{"keys": []}', b"[" * 100_000, b"{"])
def test_documents_without_keys(data: bytes) -> None:
    with pytest.raises(TokenProblem, match="no keys for tokens"):
        keys_in(data)
