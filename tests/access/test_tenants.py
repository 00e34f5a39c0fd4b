"""Topic permissions, limits, and virtual hosts that know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.access.tenant import ask, connect, make_user, publish, put
from tests.support.pika_client import eventually
from tools.brokers import EmberBroker


@pytest.fixture
def anna(ember: EmberBroker) -> Iterator[pika.BlockingConnection]:
    make_user(ember, "anna")
    properties = {"client_id": "c.1"}
    with connect(ember, "anna", client_properties=properties) as made:
        made.channel().queue_declare("q", auto_delete=False)
        yield made
    ask(ember, "DELETE", "users", "anna")


CLOSED = (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker)


def refused(code: int, act: Any) -> str:
    with pytest.raises(CLOSED) as got:
        act()
    assert got.value.reply_code == code
    return str(got.value.reply_text)


def test_topic_permissions_look_at_routing_keys(ember: EmberBroker, anna: pika.BlockingConnection) -> None:
    write = r"^({username}|{vhost}|{client_id})\."
    put(ember, "topic-permissions", "/", "anna", exchange="amq.topic", write=write, read="^news")
    publish(anna.channel(), "amq.topic", "anna.1")
    publish(anna.channel(), "amq.topic", "c.1.x")
    text = (
        "ACCESS_REFUSED - write access to topic 'x.y' in exchange 'amq.topic' in vhost '/' "
        "refused for user 'anna'"
    )
    assert refused(403, lambda: publish(anna.channel(), "amq.topic", "x.y")) == text
    assert "topic 'cx1.x'" in refused(403, lambda: publish(anna.channel(), "amq.topic", "cx1.x"))
    copied = refused(403, lambda: publish(anna.channel(), "amq.topic", "anna.1", headers={"CC": ["x.y"]}))
    assert copied == text, "copies count, which RabbitMQ lets pass"
    publish(anna.channel(), "amq.direct", "x.y")
    anna.channel().queue_bind("q", "amq.topic", "news.*")
    for act in (
        lambda: anna.channel().queue_bind("q", "amq.topic", "#"),
        lambda: anna.channel().queue_unbind("q", "amq.topic", "#"),
        lambda: anna.channel().exchange_bind("amq.fanout", "amq.topic", "#"),
        lambda: anna.channel().exchange_unbind("amq.fanout", "amq.topic", "#"),
    ):
        assert "read access to topic '#' in exchange 'amq.topic'" in refused(403, act)


def test_topic_permissions_change_at_once(ember: EmberBroker, anna: pika.BlockingConnection) -> None:
    channel = anna.channel()
    publish(channel, "amq.topic", "x")
    put(ember, "topic-permissions", "/", "anna", exchange="amq.topic", write="^y", read="")
    assert "topic 'x'" in refused(403, lambda: channel.basic_publish("amq.topic", "x", b""))
    shown = {"user": "anna", "vhost": "/", "exchange": "amq.topic", "write": "^y", "read": ""}
    for path in (
        ["topic-permissions"],
        ["topic-permissions", "/", "anna"],
        ["users", "anna", "topic-permissions"],
        ["vhosts", "/", "topic-permissions"],
    ):
        assert ask(ember, "GET", *path).json == [shown]
    assert ask(ember, "DELETE", "topic-permissions", "/", "anna").status == 204
    publish(anna.channel(), "amq.topic", "x")
    assert ask(ember, "GET", "topic-permissions").json == []
    assert ask(ember, "DELETE", "topic-permissions", "/", "anna").status == 404


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"write": "", "read": ""}, "key_missing,exchange"),
        ({"exchange": "e", "write": "(", "read": ""}, "invalid_regexp"),
        ({"exchange": "e", "write": "^(?!(a+)+b)", "read": ""}, "repeats nothing that itself repeats"),
    ],
)
def test_topic_permissions_that_cannot_be(ember: EmberBroker, body: dict[str, str], reason: str) -> None:
    reply = ask(ember, "PUT", "topic-permissions", "/", "guest", body=body)
    assert reply.status == 400 and reason in str(reply.json["reason"])
    whose = ("topic-permissions", "/", "nobody")
    reply = ask(ember, "PUT", *whose, body={"exchange": "e", "write": "", "read": ""})
    assert (reply.status, reply.json["reason"]) == (400, "vhost_or_user_not_found")


def test_a_pattern_that_would_take_for_ever_is_refused(ember: EmberBroker) -> None:
    body = {"configure": "^(?!(a+)+b)", "write": "", "read": ""}
    reply = ask(ember, "PUT", "permissions", "/", "guest", body=body)
    assert reply.status == 400 and "invalid_regexp" in str(reply.json)


def test_limits_of_a_virtual_host(ember: EmberBroker) -> None:
    put(ember, "vhosts", "small")
    make_user(ember, "tenant", "small")
    put(ember, "vhost-limits", "small", "max-queues", value=2)
    put(ember, "vhost-limits", "small", "max-connections", value=1)
    assert ask(ember, "GET", "vhost-limits", "small").json == [
        {"vhost": "small", "value": {"max-queues": 2, "max-connections": 1}}
    ]
    with connect(ember, "tenant", "small") as connection:
        channel = connection.channel()
        channel.queue_declare("one")
        channel.basic_consume("amq.rabbitmq.reply-to", print, auto_ack=True)  # no queue that counts
        connection.channel().queue_declare("two", exclusive=True)
        text = refused(406, lambda: connection.channel().queue_declare("three"))
        assert text == (
            "PRECONDITION_FAILED - cannot declare queue 'three': queue limit in vhost 'small' (2) is reached"
        )
        connection.channel().queue_declare("one")
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as second:
            connect(ember, "tenant", "small")
        assert (
            "NOT_ALLOWED - access to vhost 'small' refused for user 'tenant': connection limit (1) is reached"
            in str(second.value)
        )
    eventually(lambda: not ask(ember, "GET", "vhosts", "small", "connections").json)
    connect(ember, "tenant", "small").close()
    assert ask(ember, "DELETE", "vhost-limits", "small", "max-queues").status == 204
    put(ember, "vhost-limits", "small", "max-connections", value=-1)
    with connect(ember, "tenant", "small") as one, connect(ember, "tenant", "small") as two:
        one.channel().queue_declare("three")
        two.channel().queue_declare("four")


def test_limits_of_a_user(ember: EmberBroker) -> None:
    make_user(ember, "small")
    put(ember, "user-limits", "small", "max-connections", value=1)
    put(ember, "user-limits", "small", "max-channels", value=2)
    assert ask(ember, "GET", "user-limits").json == [
        {"user": "small", "value": {"max-connections": 1, "max-channels": 2}}
    ]
    assert ask(ember, "GET", "users", "small").json["limits"] == {"max-connections": 1, "max-channels": 2}
    with connect(ember, "small") as connection:
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as second:
            connect(ember, "small")
        assert "connection refused for user 'small': user connection limit (1) is reached" in str(
            second.value
        )
        channels = [connection.channel() for _ in range(2)]
        channels[0].close()
        connection.channel()
        text = refused(530, connection.channel)
        assert text == (
            "NOT_ALLOWED - number of channels opened for user 'small' has reached the maximum allowed "
            "user limit of (2)"
        )
    assert ask(ember, "DELETE", "user-limits", "small", "max-channels").status == 204
    connection = connect(ember, "small")
    for _ in range(5):
        connection.channel()
    connection.close()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (("vhost-limits", "/", "no-such"), {"value": 1}, 400),
        (("vhost-limits", "/", "max-queues"), {"value": "x"}, 400),
        (("vhost-limits", "/", "max-queues"), {"value": True}, 400),
        (("vhost-limits", "/", "max-queues"), {}, 400),
        (("vhost-limits", "nowhere", "max-queues"), {"value": 1}, 404),
        (("user-limits", "guest", "max-queues"), {"value": 1}, 400),
        (("user-limits", "nobody", "max-channels"), {"value": 1}, 400),
    ],
)
def test_limits_that_cannot_be(
    ember: EmberBroker, path: tuple[str, ...], body: dict[str, object], status: int
) -> None:
    assert ask(ember, "PUT", *path, body=body).status == status
    assert ask(ember, "GET", "vhost-limits", "/").json == []


def test_it_is_all_there_after_a_restart_and_in_the_definitions(ember: EmberBroker) -> None:
    put(ember, "vhosts", "kept")
    make_user(ember, "keeper", "kept")
    put(ember, "topic-permissions", "kept", "keeper", exchange="e", write="^a", read="^b")
    put(ember, "vhost-limits", "kept", "max-queues", value=7)
    put(ember, "user-limits", "keeper", "max-channels", value=9)
    ember.kill()
    ember.start()
    topic = {"user": "keeper", "vhost": "kept", "exchange": "e", "write": "^a", "read": "^b"}
    assert ask(ember, "GET", "users", "keeper", "topic-permissions").json == [topic]
    assert ask(ember, "GET", "user-limits", "keeper").json[0]["value"] == {"max-channels": 9}
    exported = ask(ember, "GET", "definitions").json
    limits = {"vhost": "kept", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 7}}
    assert topic in exported["embermq"]["topic_permissions"] and limits in exported["parameters"]
    ask(ember, "DELETE", "vhosts", "kept")
    ask(ember, "DELETE", "users", "keeper")
    assert ask(ember, "GET", "topic-permissions").json == []
    assert ask(ember, "POST", "definitions", body=exported).status == 204
    assert ask(ember, "GET", "users", "keeper", "topic-permissions").json == [topic]
    assert ask(ember, "GET", "vhost-limits", "kept").json[0]["value"] == {"max-queues": 7}
    connect(ember, "keeper", "kept").close()


def test_strangers_to_a_virtual_host_do_not_learn_whether_it_exists(ember: EmberBroker) -> None:
    put(ember, "vhosts", "private")
    make_user(ember, "outsider")
    texts = []
    for vhost in ("private", "nowhere"):
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as refusal:
            connect(ember, "outsider", vhost)
        texts.append(str(refusal.value).replace(vhost, "V"))
    assert texts[0] == texts[1] and "access to vhost 'V' refused for user 'outsider'" in texts[0]
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost nowhere not found"):
        connect(ember, "guest", "nowhere")
