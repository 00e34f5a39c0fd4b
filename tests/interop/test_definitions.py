"""Definitions go from RabbitMQ to EmberMQ and back; what both understand is not changed on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.support.management import Management
from tools.brokers import EmberBroker, RabbitBroker

NEWER = Path(__file__).with_name("definitions-4.x.json")
KINDS = (
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "policies",
    "queues",
    "exchanges",
    "bindings",
)
ALL = {"configure": ".*", "write": ".*", "read": ".*"}

# What is put into RabbitMQ: method, path, body.
ORDERS: list[tuple[str, str, Any]] = [
    ("PUT", "vhosts/shop", {"description": "The shop", "tags": "production,eu"}),
    ("PUT", "users/clerk", {"password": "clerk", "tags": "management"}),
    ("PUT", "users/robot", {"password_hash": "", "tags": ""}),
    ("PUT", "permissions/shop/guest", ALL),
    ("PUT", "permissions/shop/clerk", {"configure": "^$", "write": "^orders", "read": ".*"}),
    ("PUT", "topic-permissions/shop/clerk", {"exchange": "amq.topic", "write": "^a", "read": ".*"}),
    ("PUT", "queues/shop/orders", {"durable": True}),
    ("PUT", "queues/shop/quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
    ("PUT", "queues/shop/log", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
    (
        "PUT",
        "queues/shop/%C3%BC%20ber%2Fall",
        {
            "durable": True,
            "arguments": {
                "x-message-ttl": 60000,
                "x-max-length": 10,
                "x-overflow": "reject-publish",
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "orders",
                "x-max-priority": 5,
            },
        },
    ),
    ("PUT", "exchanges/shop/in", {"type": "topic", "durable": True}),
    (
        "PUT",
        "exchanges/shop/out",
        {"type": "headers", "durable": True, "arguments": {"alternate-exchange": "in"}},
    ),
    ("PUT", "exchanges/shop/hidden", {"type": "fanout", "durable": True, "internal": True}),
    ("POST", "bindings/shop/e/in/q/orders", {"routing_key": "order.#"}),
    ("POST", "bindings/shop/e/in/e/out", {"routing_key": "*.paid"}),
    (
        "POST",
        "bindings/shop/e/out/q/orders",
        {"routing_key": "", "arguments": {"x-match": "all", "paid": True, "sum": 5}},
    ),
    (
        "PUT",
        "policies/shop/limits",
        {"pattern": "^orders", "definition": {"max-length": 1000}, "priority": 3, "apply-to": "queues"},
    ),
    ("PUT", "operator-policies/shop/guard", {"pattern": ".*", "definition": {"expires": 3600000}}),
    ("PUT", "vhost-limits/shop/max-queues", {"value": 50}),
    ("PUT", "user-limits/clerk/max-channels", {"value": 7}),
    ("PUT", "global-parameters/colour", {"value": {"name": "red", "shades": [1, 2]}}),
]


@pytest.fixture(scope="module")
def ember() -> Iterator[Management]:
    with EmberBroker() as broker:
        yield Management(broker)


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """What both understand, in an order of its own."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        things = []
        for thing in map(dict, [*document[kind], *document.get("embermq", {}).get(kind, [])]):
            thing.pop("metadata", None)  # repeats what stands beside it, and more in newer versions
            if kind == "users":
                thing["limits"] = thing.get("limits") or {}
                if thing["name"] == "guest":  # who logs in here is hashed anew, by a slower algorithm
                    del thing["password_hash"], thing["hashing_algorithm"]
            if kind == "vhosts":  # RabbitMQ 3.10 exports their names only
                thing = {"name": thing["name"]}
            things.append(thing)
        found[kind] = sorted(things, key=lambda thing: json.dumps(thing, sort_keys=True))
    names = ("cluster_name", "internal_cluster_id")  # of the cluster that the document came from
    found["global"] = sorted(
        json.dumps(p, sort_keys=True) for p in document["global_parameters"] if p["name"] not in names
    )
    return found


@pytest.mark.skipif(not RabbitBroker.installed(), reason="rabbitmq-server is not installed")
def test_there_and_back(ember: Management) -> None:
    with RabbitBroker(management=True) as broker:
        rabbit = Management(broker)
        for method, path, body in ORDERS:
            status, answer = rabbit.ask(method, path, body)
            assert status in (201, 204), (path, status, answer)
        original = rabbit.get("definitions")
        status, answer = ember.ask("POST", "definitions", original)
        assert status in (201, 204), answer
        assert comparable(ember.get("definitions")) == comparable(original)
        assert ember.ask("PUT", "users/native", {"password": "secret", "tags": "management"})[0] == 201
        assert ember.ask("PUT", "permissions/shop/native", ALL)[0] == 201
        logins_go_on_working(ember, rabbit)
        passed_on = ember.get("definitions?for=rabbitmq")
        assert passed_on["users_without_password"] == ["native"], "made here: RabbitMQ cannot check its hash"
        left_out = {user["name"] for user in original["users"]} - {
            user["name"] for user in passed_on["users"]
        }
        assert left_out == {"guest"}, "who has logged in here has a password that RabbitMQ cannot check"

        for path in ("vhosts/shop", "users/clerk", "users/robot", "global-parameters/colour"):
            assert rabbit.ask("DELETE", path)[0] == 204
        assert comparable(rabbit.get("definitions")) != comparable(original)
        status, answer = rabbit.ask("POST", "definitions", passed_on)
        assert status in (201, 204), answer
        native = rabbit.get("users/native")
        assert (native["password_hash"], native["tags"]) == ("", ["management"])
        assert [found["vhost"] for found in rabbit.get("users/native/permissions")] == ["shop"]
        assert rabbit.ask("DELETE", "users/native")[0] == 204
        assert rabbit.ask("PUT", "permissions/shop/guest", ALL)[0] in (201, 204)
        assert comparable(rabbit.get("definitions")) == comparable(original)

        shop = ember.get("definitions/shop")
        assert rabbit.ask("PUT", "vhosts/copy", {})[0] == 201
        status, answer = rabbit.ask("POST", "definitions/copy", shop)
        assert status in (201, 204), answer
        copied = {queue["name"] for queue in rabbit.get("definitions/copy")["queues"]}
        assert copied == {queue["name"] for queue in shop["queues"]}


def logins_go_on_working(ember: Management, rabbit: Management) -> None:
    """The plain document: users come with a password that RabbitMQ can check, or not at all."""
    assert rabbit.ask("PUT", "users/native", {"password": "theirs", "tags": "management"})[0] == 201
    assert rabbit.ask("DELETE", "users/clerk")[0] == 204
    plain = ember.get("definitions")
    assert [user["name"] for user in plain["embermq"]["users"]] == ["guest", "native"]
    status, answer = rabbit.ask("POST", "definitions", plain)
    assert status in (201, 204), answer
    for name, password in (("guest", "guest"), ("native", "theirs"), ("clerk", "clerk")):
        assert rabbit.ask("GET", "whoami", login=f"{name}:{password}")[0] == 200, name
    clerk = pika.PlainCredentials("clerk", "clerk")
    where = pika.ConnectionParameters(rabbit.broker.host, rabbit.broker.port, "shop", clerk)
    pika.BlockingConnection(where).close()


def test_a_file_of_a_newer_version(ember: Management) -> None:
    document = json.loads(NEWER.read_text())
    status, answer = ember.ask("POST", "definitions", document)
    assert status in (201, 204), answer
    exported = ember.get("definitions")
    names = {(queue["vhost"], queue["name"]) for queue in exported["queues"]}
    assert {(queue["vhost"], queue["name"]) for queue in document["queues"]} <= names
    policies = {policy["name"]: policy for policy in exported["policies"]}
    assert policies["long"]["apply-to"] == "quorum_queues"
    assert ember.ask("POST", "definitions", exported)[0] in (201, 204), "ours comes in again"
