"""rabbitmqadmin, RabbitMQ's own command line for its HTTP API, as Debian's package ships it.

The same commands judge EmberMQ and, with EMBERMQ_TEST_TARGET=rabbitmq, RabbitMQ itself. A definitions file
goes from one to the other and back where RabbitMQ is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.support.management import Management
from tools.brokers import Broker, EmberBroker, RabbitBroker

PLUGINS = Path("/usr/lib/rabbitmq/lib")
SCRIPT = "priv/www/cli/rabbitmqadmin"
SETTLE_S = 60.0


def script_text() -> str | None:
    """The script out of RabbitMQ's management plugin, which is a directory or an archive."""
    for found in sorted(PLUGINS.glob(f"*/plugins/rabbitmq_management-*/{SCRIPT}")):
        return found.read_text()
    for archive in sorted(PLUGINS.glob("*/plugins/rabbitmq_management-*.ez")):
        with zipfile.ZipFile(archive) as plugin:
            for name in plugin.namelist():
                if name.endswith(SCRIPT):
                    return plugin.read(name).decode()
    return None


pytestmark = pytest.mark.skipif(script_text() is None, reason="RabbitMQ's management plugin is not installed")


class Admin:
    """Runs the script against a broker."""

    def __init__(self, script: Path, broker: Broker) -> None:
        self.script = script
        self.broker = broker

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        address = ["--host", self.broker.host, "--port", str(self.broker.http_port)]
        return subprocess.run(
            [sys.executable, str(self.script), *address, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self("--format", "raw_json", *arguments))

    def names(self, kind: str, *options: str) -> list[str]:
        return [thing["name"] for thing in self.json(*options, "list", kind, "name")]


def managed(target: str) -> Broker:
    return RabbitBroker(management=True) if target == "rabbitmq" else EmberBroker()


def wait_for_management(broker: Broker) -> None:
    """RabbitMQ opens the port of its management later than that of AMQP."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        try:
            urllib.request.urlopen(f"{broker.http_url}/api/overview", timeout=60)
        except urllib.error.HTTPError:
            return  # that it wants to know who we are is answer enough
        except OSError:
            assert time.monotonic() < deadline, "management does not answer"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def managed_broker(target: str) -> Iterator[Broker]:
    with managed(target) as broker:
        wait_for_management(broker)
        yield broker


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rabbitmqadmin") / "rabbitmqadmin"
    path.write_text(script_text() or "")
    return path


@pytest.fixture
def admin(script: Path, managed_broker: Broker) -> Admin:
    return Admin(script, managed_broker)


def eventually(answer: Callable[[], object], expected: object) -> None:
    """RabbitMQ's numbers come from statistics that lag behind by seconds."""
    deadline = time.monotonic() + SETTLE_S
    while answer() != expected:
        assert time.monotonic() < deadline, f"{answer()!r} instead of {expected!r}"
        time.sleep(0.2)


def test_show_overview(admin: Admin) -> None:
    shown = admin("show", "overview")
    for column in ("rabbitmq_version", "cluster_name", "queue_totals.messages", "object_totals.queues"):
        assert column in shown


def test_a_queue_is_declared_listed_and_deleted(admin: Admin, queue_name: str) -> None:
    assert admin("declare", "queue", f"name={queue_name}", "durable=true").strip() == "queue declared"
    assert queue_name in admin.names("queues")
    assert queue_name in admin("list", "queues", "name", "durable")
    assert admin("delete", "queue", f"name={queue_name}").strip() == "queue deleted"
    assert queue_name not in admin.names("queues")


def test_a_queue_that_is_different_is_refused(admin: Admin, queue_name: str) -> None:
    admin("declare", "queue", f"name={queue_name}", "durable=true")
    again = admin.run("declare", "queue", f"name={queue_name}", "durable=false")
    assert again.returncode == 1
    assert "inequivalent arg 'durable'" in again.stdout + again.stderr
    admin("delete", "queue", f"name={queue_name}")


def test_what_is_not_there_is_not_found(admin: Admin) -> None:
    missing = admin.run("delete", "queue", "name=there-is-no-such-queue")
    assert missing.returncode == 1
    assert "Not found" in missing.stdout + missing.stderr


def test_publish_get_purge(admin: Admin, queue_name: str) -> None:
    admin("declare", "queue", f"name={queue_name}", "durable=false")
    assert admin("publish", f"routing_key={queue_name}", "payload=hello").strip() == "Message published"
    assert admin("publish", "routing_key=nobody", "payload=x").strip() == "Message published but NOT routed"
    admin(
        "publish",
        f"routing_key={queue_name}",
        'properties={"delivery_mode":2,"type":"t"}',
        stdin="from stdin",
    )
    kept = admin.json("get", f"queue={queue_name}", "count=5", "ackmode=ack_requeue_true")
    assert [message["payload"] for message in kept] == ["hello", "from stdin"]
    assert kept[1]["properties"] == {"delivery_mode": 2, "type": "t"}
    taken = admin.json("get", f"queue={queue_name}", "ackmode=ack_requeue_false")
    assert [(m["payload"], m["redelivered"], m["message_count"]) for m in taken] == [("hello", True, 1)]
    assert admin("purge", "queue", f"name={queue_name}").strip() == "queue purged"
    assert admin.json("get", f"queue={queue_name}") == []
    admin("delete", "queue", f"name={queue_name}")


def test_get_into_a_file(admin: Admin, queue_name: str, tmp_path: Path) -> None:
    admin("declare", "queue", f"name={queue_name}", "durable=false")
    admin("publish", f"routing_key={queue_name}", "payload=for the file")
    admin("get", f"queue={queue_name}", f"payload_file={tmp_path / 'payload'}", "ackmode=ack_requeue_false")
    assert (tmp_path / "payload").read_text() == "for the file"
    admin("delete", "queue", f"name={queue_name}")


def test_exchanges_and_bindings(admin: Admin, queue_name: str, exchange_name: str) -> None:
    admin("declare", "queue", f"name={queue_name}", "durable=false")
    admin("declare", "exchange", f"name={exchange_name}", "type=topic")
    admin("declare", "exchange", f"name={exchange_name}-2", "type=fanout")
    admin("declare", "binding", f"source={exchange_name}", f"destination={queue_name}", "routing_key=a.#")
    admin(
        "declare",
        "binding",
        f"source={exchange_name}",
        f"destination={exchange_name}-2",
        "destination_type=exchange",
        "routing_key=b",
        'arguments={"x":1}',
    )
    assert exchange_name in admin.names("exchanges")
    bindings = [b for b in admin.json("list", "bindings") if b["source"] == exchange_name]
    assert sorted((b["destination"], b["routing_key"], b["destination_type"]) for b in bindings) == sorted(
        [(queue_name, "a.#", "queue"), (f"{exchange_name}-2", "b", "exchange")]
    )
    admin("publish", f"exchange={exchange_name}", "routing_key=a.b.c", "payload=routed")
    assert [m["payload"] for m in admin.json("get", f"queue={queue_name}")] == ["routed"]
    for binding in bindings:
        admin(
            "delete",
            "binding",
            f"source={exchange_name}",
            f"destination={binding['destination']}",
            f"destination_type={binding['destination_type']}",
            f"properties_key={binding['properties_key']}",
        )
    assert [b for b in admin.json("list", "bindings") if b["source"] == exchange_name] == []
    for name in (exchange_name, f"{exchange_name}-2"):
        admin("delete", "exchange", f"name={name}")
    admin("delete", "queue", f"name={queue_name}")


def test_virtual_hosts_users_and_permissions(admin: Admin, fresh_name: Callable[[str], str]) -> None:
    vhost, user = fresh_name("vhost"), fresh_name("user")
    admin("declare", "vhost", f"name={vhost}")
    admin("declare", "user", f"name={user}", "password=secret", "tags=management")
    admin("declare", "permission", f"vhost={vhost}", f"user={user}", "configure=.*", "write=.*", "read=.*")
    assert vhost in admin.names("vhosts") and user in admin.names("users")
    permissions = [p for p in admin.json("list", "permissions") if p["user"] == user]
    assert permissions == [{"user": user, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}]
    as_user = ("--username", user, "--password", "secret", "--vhost", vhost)
    admin(*as_user, "declare", "queue", "name=mine")
    assert admin.names("queues", *as_user) == ["mine"]
    refused = admin.run(*as_user[:4], "list", "users")
    assert refused.returncode == 1 and "Access refused" in refused.stdout + refused.stderr
    admin("delete", "permission", f"vhost={vhost}", f"user={user}")
    admin("delete", "user", f"name={user}")
    admin("delete", "vhost", f"name={vhost}")
    assert vhost not in admin.names("vhosts") and user not in admin.names("users")


def test_policies_and_parameters(admin: Admin, fresh_name: Callable[[str], str]) -> None:
    name = fresh_name("policy")
    definition = '{"max-length": 5}'
    admin(
        "declare", "policy", f"name={name}", "pattern=^never$", f"definition={definition}", "apply-to=queues"
    )
    [policy] = [p for p in admin.json("list", "policies") if p["name"] == name]
    assert (policy["pattern"], policy["definition"], policy["apply-to"]) == (
        "^never$",
        {"max-length": 5},
        "queues",
    )
    admin("declare", "operator_policy", f"name={name}", "pattern=^never$", f"definition={definition}")
    assert name in admin.names("operator_policies")
    refused = admin.run("declare", "policy", f"name={name}", "pattern=(", f"definition={definition}")
    assert refused.returncode == 1 and "regular expression" in refused.stdout + refused.stderr
    parameters = [p for p in admin.json("list", "parameters") if p["name"] == name]
    assert [p["component"] for p in parameters] == ["operator_policy"]
    admin("delete", "policy", f"name={name}")
    admin("delete", "operator_policy", f"name={name}")
    assert name not in admin.names("policies") + admin.names("operator_policies")


@pytest.mark.parametrize(
    "kind", ["nodes", "parameters", "policies", "operator_policies", "vhost_limits", "consumers", "channels"]
)
def test_lists_that_are_mostly_empty(admin: Admin, kind: str) -> None:
    assert isinstance(admin.json("list", kind), list)


def test_connections_channels_and_consumers(admin: Admin, queue_name: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(admin.broker.url))
    channel = connection.channel()
    channel.queue_declare(queue_name, exclusive=True)
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume(queue_name, lambda *delivery: None, consumer_tag="the-consumer")
    connection.process_data_events(0)
    eventually(lambda: len(admin.json("list", "connections")), 1)
    [shown] = admin.json("list", "connections")
    assert shown["user"] == "guest" and shown["vhost"] == "/"
    eventually(lambda: [c["number"] for c in admin.json("list", "channels")], [1])
    [consumer] = admin.json("list", "consumers")
    assert (consumer["consumer_tag"], consumer["prefetch_count"]) == ("the-consumer", 7)
    assert consumer["queue"] == {"name": queue_name, "vhost": "/"}
    assert consumer["channel_details"]["connection_name"] == shown["name"]
    admin("close", "connection", f"name={shown['name']}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(10)
    assert closed.value.reply_code == 320
    eventually(lambda: admin.json("list", "connections"), [])


def topology(document: dict[str, Any], vhost: str) -> dict[str, list[str]]:
    """What both brokers understand, in an order of its own."""
    ours = document.get("embermq", {})  # users whose password RabbitMQ could not check
    found = {
        kind: [thing for thing in [*document[kind], *ours.get(kind, [])] if thing["vhost"] == vhost]
        for kind in ("queues", "exchanges", "bindings", "permissions")
    }
    return {kind: sorted(json.dumps(thing, sort_keys=True) for thing in found[kind]) for kind in found}


def make_a_world(admin: Admin, vhost: str, user: str) -> None:
    admin("declare", "vhost", f"name={vhost}")
    admin("declare", "user", f"name={user}", "password=secret", "tags=monitoring")
    for name in (user, "guest"):
        admin("declare", "permission", f"vhost={vhost}", f"user={name}", "configure=^a", "write=.*", "read=")
    admin("declare", "permission", f"vhost={vhost}", "user=guest", "configure=.*", "write=.*", "read=.*")
    inside = ("--vhost", vhost)
    admin(*inside, "declare", "queue", "name=orders", 'arguments={"x-message-ttl":60000}')
    admin(*inside, "declare", "queue", "name=lazy", "durable=true", 'arguments={"x-queue-mode":"lazy"}')
    admin(*inside, "declare", "exchange", "name=in", "type=topic")
    admin(*inside, "declare", "exchange", "name=out", "type=headers", "internal=true")
    admin(*inside, "declare", "binding", "source=in", "destination=orders", "routing_key=order.*")
    match = 'arguments={"x-match":"all","kind":"big"}'
    admin(*inside, "declare", "binding", "source=out", "destination=lazy", match)
    through = ("source=in", "destination=out", "destination_type=exchange", "routing_key=#")
    admin(*inside, "declare", "binding", *through)


def test_definitions_are_exported_and_imported(
    admin: Admin, fresh_name: Callable[[str], str], tmp_path: Path
) -> None:
    vhost, user, file = fresh_name("vhost"), fresh_name("user"), tmp_path / "definitions.json"
    make_a_world(admin, vhost, user)
    admin("export", str(file))
    exported = json.loads(file.read_text())
    assert len(topology(exported, vhost)["bindings"]) == 3
    admin("delete", "vhost", f"name={vhost}")
    admin("delete", "user", f"name={user}")
    admin("import", str(file))
    admin("export", str(tmp_path / "again.json"))
    assert topology(json.loads((tmp_path / "again.json").read_text()), vhost) == topology(exported, vhost)
    login = ("--username", user, "--password", "secret")  # the password came along as its hash
    assert vhost in admin.names("vhosts", *login)
    admin("--vhost", vhost, "export", str(tmp_path / "one.json"))
    assert {queue["name"] for queue in json.loads((tmp_path / "one.json").read_text())["queues"]} == {
        "orders",
        "lazy",
    }
    admin("delete", "vhost", f"name={vhost}")
    admin("delete", "user", f"name={user}")


@pytest.mark.slow
def test_definitions_travel_from_rabbitmq_and_back(
    script: Path, fresh_name: Callable[[str], str], tmp_path: Path, target: str
) -> None:
    if target == "rabbitmq":
        pytest.skip("needs both brokers; runs with the target embermq")
    vhost, user = fresh_name("vhost"), fresh_name("user")
    with RabbitBroker(management=True) as rabbit, EmberBroker() as ember:
        wait_for_management(rabbit)
        ours, theirs = Admin(script, ember), Admin(script, rabbit)
        make_a_world(theirs, vhost, user)
        theirs("export", str(tmp_path / "rabbitmq.json"))
        ours("import", str(tmp_path / "rabbitmq.json"))
        login = ("--username", user, "--password", "secret")
        assert vhost in ours.names("vhosts", *login)
        ours("declare", "user", "name=made-here", "password=secret", "tags=management")
        ours("export", str(tmp_path / "embermq.json"))
        # Who has logged in here has a hash that RabbitMQ cannot check, and comes to it without a password.
        fit = Management(ember).get("definitions?for=rabbitmq")
        assert fit["users_without_password"] == sorted([user, "made-here"])
        assert "guest" not in {known["name"] for known in fit["users"]}, "RabbitMQ has its own"
        (tmp_path / "fit.json").write_text(json.dumps(fit))
        theirs("delete", "vhost", f"name={vhost}")
        theirs("import", str(tmp_path / "fit.json"))
        theirs("export", str(tmp_path / "back.json"))
        assert vhost in theirs.names("vhosts")
    documents = [
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("rabbitmq", "embermq", "back")
    ]
    theirs_first, ours_then, back = (topology(document, vhost) for document in documents)
    assert theirs_first == ours_then
    assert {**back, "permissions": None} == {**ours_then, "permissions": None}
