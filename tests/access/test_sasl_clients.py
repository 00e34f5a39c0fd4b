"""Every SASL mechanism through a client: passwords, proofs, nobody in particular, and tokens that end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER
from tests.access.issuer import AUDIENCE, Issuer
from tests.access.tenant import ask, connect, make_user, publish, put
from tests.hostile.peers import Peer
from tests.support.pika_client import eventually
from tests.support.scram_client import ScramClient
from tools.brokers import EmberBroker


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def door(issuer: Issuer) -> Iterator[EmberBroker]:
    """A broker with every mechanism, and keys for tokens."""
    environment = {
        "EMBERMQ_AUTH_MECHANISMS": "PLAIN,AMQPLAIN,EXTERNAL,SCRAM-SHA-256,ANONYMOUS",
        "EMBERMQ_AUTH_ANONYMOUS_USER": "visitor",
        "EMBERMQ_OAUTH_KEYS": str(issuer.jwks_file),
        "EMBERMQ_OAUTH_AUDIENCE": AUDIENCE,
        "EMBERMQ_OAUTH_LEEWAY_S": "0",
    }
    with EmberBroker(env=environment) as broker:
        make_user(broker, "anna")
        make_user(broker, "visitor", configure="", write="", read="^public$")
        yield broker


class Mechanism(pika.credentials.PlainCredentials):  # type: ignore[misc]
    """pika's credentials with another mechanism and response."""

    def __init__(self, name: str, response: bytes) -> None:
        super().__init__("", "")
        self.name, self.response = name, response

    def response_for(self, start: Any) -> tuple[str, bytes] | tuple[None, None]:
        offered = bytes(start.mechanisms).decode().split()
        return (self.name, self.response) if self.name in offered else (None, None)


@pytest.fixture
def mechanisms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pika.credentials, "VALID_TYPES", [*pika.credentials.VALID_TYPES, Mechanism])


def enter(broker: EmberBroker, credentials: Any) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.port, credentials=credentials, heartbeat=0)
    )


def test_a_table_with_name_and_password(door: EmberBroker, mechanisms: None) -> None:
    from embermq.wire.table import encode_table

    table = encode_table({"LOGIN": "anna", "PASSWORD": "anna"})[4:]
    with enter(door, Mechanism("AMQPLAIN", table)) as connection:
        connection.channel().queue_declare("", exclusive=True)
    wrong = encode_table({"LOGIN": "anna", "PASSWORD": "guess"})[4:]
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="mechanism AMQPLAIN"):
        enter(door, Mechanism("AMQPLAIN", wrong))


def test_nobody_in_particular(door: EmberBroker, mechanisms: None) -> None:
    with enter(door, Mechanism("ANONYMOUS", b"me@example.org")) as connection:
        assert [each["user"] for each in ask(door, "GET", "connections").json] == ["visitor"]
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="refused for user 'visitor'"):
            connection.channel().queue_declare("q")


def test_anonymous_is_off_by_default(ember: EmberBroker, mechanisms: None) -> None:
    with Peer(ember) as peer:
        peer.send_bytes(PROTOCOL_HEADER)
        start = peer.expect(methods.ConnectionStart)
        assert isinstance(start, methods.ConnectionStart)
        assert start.mechanisms == b"PLAIN AMQPLAIN SCRAM-SHA-256"


def say(peer: Peer, method: methods.Method) -> None:
    peer.send(method, channel=0)


def scram(peer: Peer, user: str, password: str) -> methods.Method:
    """The whole exchange; what comes at its end."""
    client = ScramClient(user, password)
    peer.send_bytes(PROTOCOL_HEADER)
    peer.expect(methods.ConnectionStart)
    capabilities: dict[str, object] = {"capabilities": {"authentication_failure_close": True}}
    say(peer, methods.ConnectionStartOk(capabilities, "SCRAM-SHA-256", client.first, "en_US"))
    question = peer.expect(methods.ConnectionSecure)
    assert isinstance(question, methods.ConnectionSecure)
    say(peer, methods.ConnectionSecureOk(client.final(question.challenge)))
    if password != user:
        return peer.expect(methods.ConnectionClose)
    signature = peer.expect(methods.ConnectionSecure)
    assert isinstance(signature, methods.ConnectionSecure)
    assert signature.challenge == client.expected, "the server knows the password, too"
    say(peer, methods.ConnectionSecureOk(b""))
    return peer.expect(methods.ConnectionTune)


def test_a_proof_instead_of_a_password(door: EmberBroker) -> None:
    with Peer(door) as peer:
        scram(peer, "anna", "anna")
        say(peer, methods.ConnectionTuneOk(10, 131072, 0))
        say(peer, methods.ConnectionOpen(virtual_host="/"))
        peer.expect(methods.ConnectionOpenOk)
        assert [each["auth_mechanism"] for each in ask(door, "GET", "connections").json] == ["SCRAM-SHA-256"]
    for user in ("anna", "nobody"):
        with Peer(door) as peer:
            close = scram(peer, user, "guess")
            assert isinstance(close, methods.ConnectionClose)
            assert close.reply_code == 403 and "SCRAM-SHA-256" in close.reply_text


def test_an_unknown_mechanism_is_no_mechanism(door: EmberBroker) -> None:
    with Peer(door) as peer:
        peer.send_bytes(PROTOCOL_HEADER)
        peer.expect(methods.ConnectionStart)
        say(peer, methods.ConnectionStartOk({}, "EXTERNAL", b"anna", "en_US"))
        assert peer.read_frame() is None


# -- tokens


def bearing(broker: EmberBroker, token: str) -> pika.BlockingConnection:
    return connect(broker, "whoever", password=token)


def test_a_token_lets_in_and_its_scopes_are_its_rights(door: EmberBroker, issuer: Issuer) -> None:
    token = issuer.token("configure:%2F/t-*", "write:%2F/amq.default", "write:*/amq.topic/a.*", user="tom")
    with bearing(door, token) as connection:
        channel = connection.channel()
        channel.queue_declare("t-1", exclusive=True)
        publish(channel, "", "t-1")
        publish(connection.channel(), "amq.topic", "a.b")
        assert [each["user"] for each in ask(door, "GET", "connections").json] == ["tom"]
        for act in (
            lambda c: c.queue_declare("other"),
            lambda c: c.basic_get("t-1"),
            lambda c: publish(c, "amq.topic", "b"),
        ):
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="refused for user 'tom'"):
                act(connection.channel())
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="access to vhost '/' refused"):
        bearing(door, issuer.token("read:elsewhere/*"))
    for bad in (issuer.token("read:*/*", life_s=-60), issuer.token("read:*/*", aud="x"), "ey.ey.ey"):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            bearing(door, bad)


def test_tags_in_a_token_open_the_api(door: EmberBroker, issuer: Issuer) -> None:
    token = issuer.token("tag:management", "read:%2F/*", user="tom")
    assert ask(door, "GET", "whoami", token=token).json == {"name": "tom", "tags": ["management"]}
    assert ask(door, "GET", "users", token=token).status == 401
    assert ask(door, "GET", "whoami", token=issuer.token("read:%2F/*")).status == 401
    assert ask(door, "GET", "whoami", token="ey.ey.ey").status == 401
    boss = issuer.token("tag:administrator", "read:*/*", user="boss")
    assert ask(door, "PUT", "vhosts", "made by token", body={}, token=boss).status == 201
    door.kill()
    door.start()  # nothing was kept for a user that is not kept
    assert ask(door, "DELETE", "vhosts", "made by token").status == 204


def start_ok(token: str, properties: dict[str, object] | None = None) -> methods.ConnectionStartOk:
    return methods.ConnectionStartOk(properties or {}, "PLAIN", b"\0\0" + token.encode(), "en_US")


def open_with(peer: Peer, token: str) -> None:
    peer.send_bytes(PROTOCOL_HEADER)
    say(peer, start_ok(token))
    peer.expect(methods.ConnectionTune)
    say(peer, methods.ConnectionTuneOk(10, 131072, 0))
    say(peer, methods.ConnectionOpen(virtual_host="/"))
    peer.expect(methods.ConnectionOpenOk)


def test_a_connection_ends_with_its_token_unless_it_brings_a_new_one(
    door: EmberBroker, issuer: Issuer
) -> None:
    with Peer(door) as fading, Peer(door) as renewed:
        open_with(fading, issuer.token("configure:*/*", life_s=3))
        open_with(renewed, issuer.token("read:*/*", life_s=3))
        renewed.send(methods.ChannelOpen(), channel=1)
        renewed.expect(methods.ChannelOpenOk)
        say(renewed, methods.ConnectionUpdateSecret(issuer.token("configure:*/*").encode(), "renewal"))
        renewed.expect(methods.ConnectionUpdateSecretOk)
        close = fading.expect(methods.ConnectionClose)
        assert isinstance(close, methods.ConnectionClose)
        assert close.reply_code == 320 and "the credentials have expired" in close.reply_text
        renewed.send(methods.QueueDeclare(queue="renewed", exclusive=True), channel=1)
        renewed.expect(methods.QueueDeclareOk)  # a right of the new token only


@pytest.mark.parametrize("claims", [{"user": "eve"}, {"life_s": -60}, {"aud": "x"}])
def test_a_new_token_must_be_as_good_and_of_the_same_user(
    door: EmberBroker, issuer: Issuer, claims: dict[str, Any]
) -> None:
    with Peer(door) as peer:
        open_with(peer, issuer.token("configure:*/*"))
        say(peer, methods.ConnectionUpdateSecret(issuer.token("configure:*/*", **claims).encode(), "why"))
        close = peer.expect(methods.ConnectionClose)
        assert isinstance(close, methods.ConnectionClose)
        assert close.reply_text == "NOT_ALLOWED - New secret was refused by one of the backends"


def test_who_came_with_a_password_may_update_it_in_vain(door: EmberBroker) -> None:
    connection = connect(door, "anna")
    connection.update_secret("anything", "why")
    connection.channel().queue_declare("", exclusive=True)
    connection.close()


# -- passwords


def test_a_changed_password_counts_at_once(door: EmberBroker) -> None:
    make_user(door, "carla")
    connect(door, "carla").close()
    put(door, "users", "carla", password="new", tags="")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(door, "carla")
    connect(door, "carla", password="new").close()


def test_failed_logins_are_answered_after_a_pause_and_logged(tmp_path: Path) -> None:
    environment = {"EMBERMQ_AUTH_REFUSAL_PAUSE_S": "0.7", "EMBERMQ_AUTH_FAILURES_FREE": "1"}
    with EmberBroker(env=environment) as broker:
        began = time.monotonic()
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(broker, "guest", password="swordfish")
        assert time.monotonic() - began >= 0.7
        for _ in range(3):
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                connect(broker, "guest", password="swordfish")
        began = time.monotonic()
        connect(broker, "guest").close()
        assert time.monotonic() - began >= 0.5, "this address has to wait for its turn now"
        with Peer(broker) as peer:
            scram(peer, "guest", "guest")  # in several rounds as well
        refusal = "login refused for user 'guest': invalid credentials"
        eventually(lambda: refusal in broker.log_path.read_text())
        assert "swordfish" not in broker.log_path.read_text()
