"""rabbitmqadmin of RabbitMQ 4 is written in Rust and cannot be run here. Its HTTP client refuses answers in
which a field is missing or of another type, so this asks what it asks, and reads the answers as strictly.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator

import msgspec
import pika
import pytest

from tests.access.tenant import Reply, make_user
from tests.access.tenant import ask as ask_by_steps
from tests.interop.rabbitmqadmin_4_answers import ANSWERS, NONE
from tests.support.pika_client import eventually
from tools.brokers import EmberBroker


def ask(broker: EmberBroker, method: str, path: str, body: object = None, login: str = "") -> Reply:
    steps = [urllib.parse.unquote(step) for step in path.split("/")]
    return ask_by_steps(broker, method, *steps, body=body, login=login or "guest:guest")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmberBroker]:
    """One in which there is something of everything."""
    with EmberBroker() as broker:
        make_user(broker, "anna")
        put(broker, "users/nobody", tags="management", password="x")
        put(broker, "topic-permissions/%2F/anna", exchange="amq.topic", write="^a", read="")
        put(
            broker, "policies/%2F/short", pattern="^j", definition={"max-length": 9}, **{"apply-to": "queues"}
        )
        put(broker, "operator-policies/%2F/limit", pattern="^x", definition={"max-length": 9})
        put(broker, "parameters/federation-upstream/%2F/there", value={"uri": "amqp://there"})
        put(broker, "global-parameters/cluster_tags", value={"region": "here"})
        put(broker, "vhost-limits/%2F/max-queues", value=100)
        put(broker, "user-limits/anna/max-channels", value=100)
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for kind in ("stream", "quorum"):
                channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            channel.queue_declare("jobs", arguments={"x-max-priority": 3})
            channel.queue_bind("jobs", "amq.topic", "a.#", {"x": 1})
            channel.exchange_bind("amq.fanout", "amq.topic", "b")
            channel.basic_publish("amq.topic", "a.b", b"one")
            channel.basic_consume("jobs", lambda *_: None)
            connection.process_data_events(0)
            eventually(lambda: ask(broker, "GET", "consumers").json)
            yield broker


def put(broker: EmberBroker, path: str, **body: object) -> None:
    answer = ask(broker, "PUT", path, body)
    assert answer.status in (201, 204), (path, answer)


@pytest.mark.parametrize("path", ANSWERS)
def test_answers_can_be_read(broker: EmberBroker, path: str) -> None:
    node = ask(broker, "GET", "overview").json["node"]
    connection = ask(broker, "GET", "connections").json[0]["name"]
    names = {"node": node, "connection": urllib.parse.quote(connection, safe=""), "port": str(broker.port)}
    asked = path
    for name, value in names.items():
        asked = asked.replace("{" + name + "}", value)
    answer = ask(broker, "GET", asked)
    assert answer.status == 200, answer
    read = msgspec.convert(answer.json, ANSWERS[path])
    assert read or ANSWERS[path] is NONE, "something of everything is there"


def test_logins_are_counted(broker: EmberBroker) -> None:
    node = ask(broker, "GET", "overview").json["node"]
    assert ask(broker, "GET", "whoami", login="anna:wrong").status == 401
    by_protocol = {each["protocol"]: each for each in ask(broker, "GET", f"auth/attempts/{node}").json}
    assert by_protocol["amqp091"]["auth_attempts_succeeded"] >= 1
    assert by_protocol["http"]["auth_attempts_failed"] >= 1
    by_source = ask(broker, "GET", f"auth/attempts/{node}/source").json
    assert {"127.0.0.1"} == {each["remote_address"] for each in by_source}
    assert {"anna", "guest"} <= {each["username"] for each in by_source}
    assert ask(broker, "DELETE", f"auth/attempts/{node}").status == 204
    assert "amqp091" not in {each["protocol"] for each in ask(broker, "GET", f"auth/attempts/{node}").json}
    assert ask(broker, "GET", "auth/attempts/elsewhere").status == 404


def test_a_virtual_host_that_nobody_may_delete() -> None:
    with EmberBroker() as broker:
        protect_and_delete(broker)


def protect_and_delete(broker: EmberBroker) -> None:
    put(broker, "vhosts/precious", description="ours")
    assert ask(broker, "POST", "vhosts/precious/deletion/protection").status == 204
    refused = ask(broker, "DELETE", "vhosts/precious")
    assert refused.status == 412 and "protected from deletion" in refused.json["reason"]
    shown = ask(broker, "GET", "vhosts/precious").json
    assert shown["protected_from_deletion"] is True and shown["metadata"]["protected_from_deletion"] is True
    broker.restart()
    assert ask(broker, "DELETE", "vhosts/precious").status == 412
    assert ask(broker, "DELETE", "vhosts/precious/deletion/protection").status == 204
    assert ask(broker, "DELETE", "vhosts/precious").status == 204


def test_users_deleted_together(broker: EmberBroker) -> None:
    put(broker, "users/one", tags="", password="x")
    put(broker, "users/two", tags="", password="x")
    assert ask(broker, "POST", "users/bulk-delete", {"users": ["one", "two"]}).status == 204
    assert not {"one", "two"} & {user["name"] for user in ask(broker, "GET", "users").json}


def test_what_is_not_well_is_said_as_the_client_reads_it(broker: EmberBroker) -> None:
    missing = ask(broker, "GET", "health/checks/protocol-listener/mqtt")
    assert missing.status == 503 and missing.json["missing"] == "mqtt" and missing.json["protocols"]
    both = ask(broker, "GET", "health/checks/protocol-listener/amqp,mqtt").json
    assert (both["status"], both["missing"]) == ("failed", ["mqtt"]) and both["reason"]
    port = ask(broker, "GET", "health/checks/port-listener/1")
    assert port.status == 503 and port.json["missing"] == 1 and port.json["reason"]
