"""pyrabbit2, a library for RabbitMQ's HTTP API that other people wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.request import HTTPBasicAuthHandler, HTTPPasswordMgr, build_opener

import pytest
from pyrabbit2.api import Client
from pyrabbit2.http import HTTPError

from tests.interop.test_rabbitmqadmin import managed, wait_for_management
from tools.brokers import Broker


@pytest.fixture(scope="module")
def managed_broker(target: str) -> Iterator[Broker]:
    with managed(target) as broker:
        wait_for_management(broker)
        yield broker


@pytest.fixture
def client(managed_broker: Broker) -> Client:
    return Client(f"{managed_broker.host}:{managed_broker.http_port}", "guest", "guest", timeout=60)


def test_the_broker_is_alive(client: Client) -> None:
    assert client.is_alive()
    assert client.get_whoami()["name"] == "guest"
    assert client.get_overview()["object_totals"]["connections"] == 0
    assert len(client.get_nodes()) == 1
    assert client.get_cluster_name()["name"]


def test_passwords_that_are_for_one_realm(managed_broker: Broker) -> None:
    """As Nagios' check_rabbitmq_* have them: the password is sent when asked for, and by this name alone."""
    address = f"http://{managed_broker.host}:{managed_broker.http_port}/api/whoami"
    passwords = HTTPPasswordMgr()
    passwords.add_password("RabbitMQ Management", address, "guest", "guest")
    with build_opener(HTTPBasicAuthHandler(passwords)).open(address, timeout=60) as answer:
        assert json.load(answer)["name"] == "guest"


def test_a_message_goes_through_an_exchange(client: Client, queue_name: str, exchange_name: str) -> None:
    assert client.create_exchange("/", exchange_name, "topic")
    client.create_queue("/", queue_name, durable=True, auto_delete=False)
    client.create_binding("/", exchange_name, queue_name, rt_key="a.*")
    assert client.publish("/", exchange_name, "a.b", "hello", properties={"delivery_mode": 2})
    assert not client.publish("/", exchange_name, "b.a", "lost")
    [message] = client.get_messages("/", queue_name, requeue=True)
    assert (message["payload"], message["properties"]) == ("hello", {"delivery_mode": 2})
    assert queue_name in [queue["name"] for queue in client.get_queues("/")]
    client.purge_queue("/", queue_name)
    assert client.get_messages("/", queue_name) == []
    client.delete_binding("/", exchange_name, queue_name, "a.*")
    assert [binding["source"] for binding in client.get_queue_bindings("/", queue_name)] == [""]
    client.delete_queue("/", queue_name)
    client.delete_exchange("/", exchange_name)
    with pytest.raises(HTTPError) as missing:
        client.get_queue("/", queue_name)
    assert missing.value.status == 404


def test_virtual_hosts_users_and_permissions(client: Client) -> None:
    client.create_vhost("pyrabbit")
    client.create_user("ada", "secret", tags="management")
    client.set_vhost_permissions("pyrabbit", "ada", "^$", ".*", "")
    permission = {"user": "ada", "vhost": "pyrabbit", "configure": "^$", "read": ".*", "write": ""}
    assert client.get_permission("pyrabbit", "ada") == permission
    assert "pyrabbit" in client.get_vhost_names()
    assert {"queues", "exchanges", "bindings", "users", "vhosts"} <= client.get_definitions().keys()
    client.delete_permission("pyrabbit", "ada")
    client.delete_user("ada")
    client.delete_vhost("pyrabbit")
    assert "ada" not in [user["name"] for user in client.get_users()]
