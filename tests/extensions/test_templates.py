"""Queue templates and namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.support.management import Management
from tests.support.pika_client import Client, eventually, unique
from tools.brokers import Broker, EmberBroker

FILE = """
[templates.brief]
x-message-ttl = 1

[templates.jobs]
x-max-length = 2
x-overflow = "reject-publish"
x-namespace = "work"
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    file: Path = tmp_path_factory.mktemp("templates") / "embermq.toml"
    file.write_text(FILE)
    with EmberBroker(config=str(file)) as running:
        yield running


@pytest.fixture
def management(broker: Broker) -> Management:
    return Management(broker)


def declare(client: Client, name: str, durable: bool = False, **arguments: Any) -> str:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return str(client.channel.queue_declare(name, durable=durable, arguments=named).method.queue)


def refusal(client: Client, name: str, **arguments: Any) -> str:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        declare(client, name, **arguments)
    client.channel = client.connection.channel()
    return str(closed.value.reply_text)


def set_template(management: Management, name: str, **arguments: Any) -> tuple[int, Any]:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return management.ask("PUT", f"templates/{name}", {"arguments": named})


def test_from_the_configuration(client: Client, management: Management) -> None:
    queue = declare(client, unique(), x_template="brief")
    client.publish(queue)
    eventually(lambda: client.count(queue) == 0)
    assert management.queue(queue)["effective_arguments"] == {"x-template": "brief", "x-message-ttl": 1}
    assert management.queue(queue)["arguments"] == {"x-template": "brief"}


def test_what_is_said_wins(client: Client, management: Management) -> None:
    queue = declare(client, unique(), x_template="brief", x_message_ttl=600_000)
    assert management.queue(queue)["effective_arguments"]["x-message-ttl"] == 600_000
    declare(client, queue, x_template="brief", x_message_ttl=600_000)
    assert "inequivalent arg 'x-message-ttl'" in refusal(client, queue, x_template="brief")
    assert "inequivalent arg 'x-template'" in refusal(client, queue, x_message_ttl=600_000)


def test_through_the_api(client: Client, management: Management) -> None:
    assert set_template(management, "mine", x_max_length=1)[0] == 201
    queue = declare(client, unique(), x_template="mine")
    assert set_template(management, "mine", x_max_length=3)[0] == 204
    for _ in range(5):
        client.publish(queue)
    assert client.count(queue) == 1  # that of the moment of its declaration
    declare(client, queue, x_template="mine")
    later = declare(client, unique(), x_template="mine")
    for _ in range(5):
        client.publish(later)
    assert client.count(later) == 3
    assert management.get("templates/mine") == {
        "name": "mine",
        "arguments": {"x-max-length": 3},
        "configured": False,
    }
    assert management.ask("DELETE", "templates/mine")[0] == 204
    assert management.ask("GET", "templates/mine")[0] == 404
    declare(client, queue, x_template="mine")  # it is there, and as it was
    assert "no template 'mine'; there are 'brief', 'jobs'" in refusal(client, unique(), x_template="mine")


def test_mistakes(client: Client, management: Management) -> None:
    assert "invalid arg 'x-template'" in refusal(client, unique(), x_template=5)
    for arguments in ({"x_max_length": -1}, {"x_template": "brief"}, {"x_namespace": 5}):
        status, answer = set_template(management, "wrong", **arguments)
        assert status == 400 and "template 'wrong'" in answer["reason"]
    status, answer = set_template(management, "brief", x_max_length=1)
    assert status == 400 and "in the configuration" in answer["reason"]
    assert management.ask("DELETE", "templates/brief")[0] == 400
    assert [template["name"] for template in management.get("templates")] == ["brief", "jobs"]


def test_policies_come_on_top(client: Client, management: Management) -> None:
    set_template(management, "long", x_max_length=100, x_overflow="drop-head")
    queue = declare(client, unique(), x_template="long")
    management.set_policy("p", f"^{queue}$", max_length=1, overflow="reject-publish")
    effective = management.queue(queue)["effective_arguments"]
    assert effective == {"x-template": "long", "x-max-length": 1, "x-overflow": "drop-head"}
    management.delete_policy("p")
    assert management.queue(queue)["effective_arguments"]["x-max-length"] == 100


def test_a_type_by_template(client: Client, management: Management) -> None:
    set_template(management, "safe", x_queue_type="quorum", x_max_priority=5)
    queue = declare(client, unique(), durable=True, x_template="safe")
    assert management.queue(queue)["type"] == "quorum"
    assert "invalid property 'non-durable'" in refusal(client, unique(), x_template="safe")
    for priority in (1, 5, 3):
        client.publish(queue, b"%d" % priority, priority=priority)
    assert client.drain(queue) == [b"5", b"3", b"1"]


def test_namespaces(client: Client, management: Management, connect: Callable[[], Client]) -> None:
    name = unique()
    full = f"private.{name}"
    assert declare(client, name, x_namespace="private") == name
    client.publish(full, b"x")
    assert client.count(name) == client.count(full) == 1
    assert client.drain(name) == [b"x"]
    assert not connect().exists(name) and connect().exists(full)
    assert declare(client, name, x_namespace="private") == name
    assert declare(client, full, x_namespace="private") == full
    declare(client, name)
    client.publish(name, b"plain")
    assert (client.count(full), client.count(name)) == (0, 1)
    assert declare(client, "", x_namespace="private").startswith("private.amq.gen-")
    declare(client, name, x_template="jobs")
    assert client.exists(f"work.{name}")
    assert management.ask("PUT", f"queues/%2F/{name}", {"arguments": {"x-namespace": "http"}})[0] == 201
    assert client.exists(f"http.{name}")


def test_across_a_restart(broker: Broker, management: Management) -> None:
    set_template(management, "lasting", x_max_length=2)
    with Client(broker.port) as client:
        queue = declare(client, unique(), durable=True, x_template="lasting")
        set_template(management, "lasting", x_max_length=1)
    broker.stop()
    broker.start()
    with Client(broker.port) as client:
        declare(client, queue, durable=True, x_template="lasting")
        for _ in range(5):
            client.publish(queue)
        assert client.count(queue) == 2
        assert management.get("templates/lasting")["arguments"] == {"x-max-length": 1}
        assert management.queue(queue)["effective_arguments"] == {"x-template": "lasting", "x-max-length": 2}


def test_a_wrong_template_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "embermq.toml"
    file.write_text("[templates.wrong]\nx-max-length = -1\n")
    with pytest.raises(Exception, match="invalid arg 'x-max-length' for template 'wrong'"):
        EmberBroker(config=str(file)).start()


def test_definitions_carry_templates(client: Client, management: Management) -> None:
    set_template(management, "exported", x_max_length=7)
    queue = declare(client, unique(), durable=True, x_template="exported")
    document = management.get("definitions")
    names = [template["name"] for template in document["templates"]]
    assert {"brief", "exported", "jobs"} <= set(names)
    client.channel.queue_delete(queue)
    management.ask("DELETE", "templates/exported")
    assert management.ask("POST", "definitions", document)[0] == 204
    assert management.queue(queue)["effective_arguments"] == {"x-template": "exported", "x-max-length": 7}
