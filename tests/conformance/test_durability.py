"""What a restart keeps: durable exchanges, queues and bindings, persistent messages, and nothing else."""

from collections.abc import Iterator

import pytest

from tests.conformance.model import drain, exchange_exists, fill, leave, numbered, queue_exists
from tests.conformance.rules import rabbitmq_differs, rule
from tests.conftest import TARGETS
from tests.support.raw_client import RawChannel, RawClient, spec
from tools.brokers import Broker

exchanges = rule(
    "001", "1.6.2.1.5", "exchange.declare.durable", "Durable exchanges survive a restart, transient do not"
)
queues = rule(
    "001", "1.7.2.1.4", "queue.declare.durable/persistence", "A durable queue is there after a restart"
)
transient = rule(
    "001", "1.7.2.1.4", "queue.declare.durable/types", "Durable and transient queues are supported"
)
bindings = rule(
    "001", "1.7.2.3", "queue.bind/durable-exchange", "Bindings of durable queues to durable exchanges survive"
)
messages = rule(
    "001", "1.8", "basic/persistent", "Persistent messages survive a restart in durable queues", "SHOULD"
)
overflow = rule(
    "001", "1.8", "basic/overflow", "Persistent messages are not discarded when a queue grows large"
)
acks = rule("002", "3.1.8", "ack/durable", "Acknowledged messages stay gone over a restart")


@pytest.fixture(scope="module")
def restarted_broker(target: str) -> Iterator[Broker]:
    """One restart for the whole module: it is slow, and the tests only look."""
    with TARGETS[target]() as broker:
        with RawClient(broker.port) as client:
            prepare(client.handshake().channel())
            leave(client)
        broker.stop()
        broker.start()
        yield broker


@pytest.fixture
def channel(restarted_broker: Broker) -> Iterator[RawChannel]:
    with RawClient(restarted_broker.port) as client:
        yield client.handshake().channel()


def prepare(channel: RawChannel) -> None:
    channel.confirm_select()
    for name, durable in (("durable", True), ("transient", False)):
        for kind in ("direct", "fanout", "topic", "headers"):
            declare = spec.Exchange.Declare(exchange=f"{name}.{kind}", exchange_type=kind, durable=durable)
            channel.call(declare)
        channel.declare(f"{name}.queue", durable=durable, exclusive=False)
        channel.declare(f"{name}.exclusive", durable=durable)
    for name in ("mixed", "backlog", "acked", "bound", "unused.auto.delete"):
        channel.declare(name, durable=True, exclusive=False, auto_delete=name.startswith("unused"))
    channel.bind("bound", "durable.topic", "a.*")
    channel.bind("bound", "durable.headers", "", arguments={"x-match": "any", "h": 1, "v": None})
    channel.bind("bound", "transient.fanout", "")
    channel.bind("bound", "amq.direct", "unbound again")
    channel.call(spec.Queue.Unbind(queue="bound", exchange="amq.direct", routing_key="unbound again"))
    channel.call(spec.Exchange.Bind(destination="durable.topic", source="durable.direct", routing_key="a.b"))
    for number, body in enumerate(numbered(30)):
        fill(channel, "mixed", [body], delivery_mode=2 if number % 3 == 0 else 1)
    properties = {"delivery_mode": 2, "headers": {"a": [1, {"b": None}]}, "priority": 4, "message_id": "m"}
    fill(channel, "durable.queue", [b"x" * 300_000], **properties)
    fill(channel, "backlog", numbered(3000), delivery_mode=2)
    fill(channel, "acked", numbered(10), delivery_mode=2)
    fill(channel, "transient.queue", [b"x"], delivery_mode=2)
    await_all(channel, 30 + 1 + 3000 + 10 + 1)
    prepare_changes(channel)
    for _ in range(5):
        channel.get("acked", no_ack=False)
    for tag in (1, 3, 4):
        channel.ack(tag)
    channel.call(spec.Exchange.Declare(exchange="amq.direct", passive=True))


def prepare_changes(channel: RawChannel) -> None:
    """Things that were otherwise before they became what must be found."""
    plain, transacted = channel.client.channel(2), channel.client.channel(3)
    for name in ("transaction", "purged", "deleted.queue", "deleted.and.declared.again", "priorities"):
        plain.declare(name, durable=True, exclusive=False)
        if name not in ("transaction", "priorities"):
            fill(plain, name, numbered(3), delivery_mode=2)
    transacted.call(spec.Tx.Select())
    fill(transacted, "transaction", [b"committed 1", b"committed 2"], delivery_mode=2)
    transacted.call(spec.Tx.Commit())
    fill(transacted, "transaction", [b"rolled back"], delivery_mode=2)
    transacted.call(spec.Tx.Rollback())
    fill(transacted, "transaction", [b"never committed"], delivery_mode=2)
    plain.get("purged", no_ack=False)
    plain.call(spec.Queue.Purge(queue="purged"))
    plain.send(spec.Basic.Reject(delivery_tag=1, requeue=False))
    fill(plain, "purged", [b"after the purge"], delivery_mode=2)
    for name in ("deleted.queue", "deleted.and.declared.again"):
        plain.call(spec.Queue.Delete(queue=name))
    plain.declare("deleted.and.declared.again", durable=True, exclusive=False)
    fill(plain, "deleted.and.declared.again", [b"new"], delivery_mode=2)
    plain.call(spec.Exchange.Declare(exchange="deleted.exchange", durable=True))
    plain.call(spec.Exchange.Delete(exchange="deleted.exchange"))
    for number in range(2):
        for priority, level in ((0, b"low"), (9, b"high")):
            fill(plain, "priorities", [b"%s %d" % (level, number)], delivery_mode=2, priority=priority)
    plain.sync()


def await_all(channel: RawChannel, count: int) -> None:
    """All confirms, in whatever order the broker sends them for persistent and transient messages."""
    outstanding = set(range(1, count + 1))
    while outstanding:
        ack = channel.expect(spec.Basic.Ack)
        outstanding -= (
            {tag for tag in outstanding if tag <= ack.delivery_tag} if ack.multiple else {ack.delivery_tag}
        )


@exchanges
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_exchanges(channel: RawChannel, kind: str) -> None:
    declare = spec.Exchange.Declare(exchange=f"durable.{kind}", exchange_type=kind, durable=True)
    assert exchange_exists(channel, declare.exchange)
    channel.call(declare)
    assert not exchange_exists(channel, f"transient.{kind}")


@queues
@transient
def test_queues(channel: RawChannel) -> None:
    names = ["durable.queue", "mixed", "unused.auto.delete"]
    assert [name for name in names if not queue_exists(channel, name)] == []
    gone = ["transient.queue", "durable.exclusive", "transient.exclusive"]
    assert [name for name in gone if queue_exists(channel, name)] == []


@queues
def test_queues_keep_their_properties(channel: RawChannel) -> None:
    assert queue_exists(channel, "unused.auto.delete")
    channel.call(spec.Queue.Declare(queue="unused.auto.delete", durable=True, auto_delete=True))
    channel.call_fails(spec.Queue.Declare(queue="unused.auto.delete", durable=True), 406)


@bindings
def test_bindings(channel: RawChannel) -> None:
    channel.publish(b"topic", exchange="durable.topic", routing_key="a.c")
    channel.publish(b"over exchanges", exchange="durable.direct", routing_key="a.b")
    for number, headers in enumerate(({"h": 1}, {"v": "any value"}, {"h": 2})):
        properties = spec.Basic.Properties(headers=headers)
        channel.publish(b"headers %d" % number, exchange="durable.headers", properties=properties)
    channel.publish(b"not bound", exchange="amq.direct", routing_key="unbound again")
    channel.publish(b"default", routing_key="bound")
    expected = [b"topic", b"over exchanges", b"headers 0", b"headers 1", b"default"]
    assert drain(channel, "bound") == expected


@messages
def test_persistent_messages_in_order(channel: RawChannel) -> None:
    assert drain(channel, "mixed") == numbered(30)[::3]


@messages
def test_content_of_a_persistent_message(channel: RawChannel) -> None:
    message = channel.get("durable.queue")
    assert message is not None
    assert message.body == b"x" * 300_000
    assert message.properties.headers == {"a": [1, {"b": None}]}
    assert (message.properties.priority, message.properties.message_id) == (4, "m")
    assert (message.method.exchange, message.method.routing_key) == ("", "durable.queue")


@messages
@overflow
def test_backlog(channel: RawChannel) -> None:
    assert drain(channel, "backlog") == numbered(3000)


@acks
@rule(
    "001", "1.1", "redelivered/restart", "What a client had before the restart is marked when it comes again"
)
def test_acknowledged_messages_stay_gone(channel: RawChannel) -> None:
    left = [1, 4, 5, 6, 7, 8, 9]
    messages = [message for message in (channel.get("acked") for _ in range(8)) if message]
    assert [message.body for message in messages] == [b"message %d" % number for number in left]
    # The first five had been delivered.
    assert [message.redelivered for message in messages[:2]] == [True, True]


@queues
def test_server_goes_on_naming_queues(channel: RawChannel) -> None:
    assert queue_exists(channel, channel.declare())


@messages
@rule(
    "001",
    "1.9",
    "tx/durable",
    "Committed persistent messages survive, abandoned ones do not come back",
    "SHOULD",
)
def test_transactions(channel: RawChannel) -> None:
    assert drain(channel, "transaction") == [b"committed 1", b"committed 2"]


@messages
def test_purged_and_discarded_messages_stay_gone(channel: RawChannel) -> None:
    assert drain(channel, "purged") == [b"after the purge"]


@exchanges
def test_deleted_things_stay_deleted(channel: RawChannel) -> None:
    assert not queue_exists(channel, "deleted.queue")
    assert not exchange_exists(channel, "deleted.exchange")


@queues
def test_redeclared_queue_is_a_new_one(channel: RawChannel) -> None:
    assert drain(channel, "deleted.and.declared.again") == [b"new"]


@messages
@rabbitmq_differs("has priorities only on queues declared with x-max-priority")
def test_priorities(channel: RawChannel) -> None:
    assert drain(channel, "priorities") == [b"high 0", b"high 1", b"low 0", b"low 1"]
