"""queue.purge and queue.delete, and what consumers hear of a deletion."""

from collections.abc import Callable

from tests.conformance.model import drain, exchange, fill, no_queue, numbered, queue_exists, round_trip
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

purge = rule(
    "001", "1.7.2.7", "queue.purge", "Purging removes all messages that do not wait for acknowledgement"
)
unacked = rule("001", "1.7.2.7", "queue.purge/unacked", "Messages sent but not acknowledged are not purged")
delete = rule("001", "1.7.2.9", "queue.delete", "Deleting a queue removes it, its messages and its bindings")
if_unused = rule(
    "001", "1.7.2.9.3", "queue.delete.if-unused", "With if-unused a queue with consumers stays: 406"
)
if_empty = rule("001", "1.7.2.9.4", "queue.delete.if-empty", "With if-empty a queue with messages stays: 406")
notify = rule(
    "004",
    "consumer cancel notification",
    "basic.cancel/notify",
    "Consumers that announced consumer_cancel_notify get basic.cancel when their queue is deleted",
)


@purge
def test_purge_empties_the_queue_and_counts(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.call(spec.Queue.Purge(queue=queue), message_count=0)
    fill(channel, queue, numbered(7))
    channel.call(spec.Queue.Purge(queue=queue), message_count=7)
    assert drain(channel, queue) == []
    fill(channel, queue, [b"later"])
    assert drain(channel, queue) == [b"later"]


@unacked
def test_purge_spares_unacknowledged_messages(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(4))
    taken = channel.get(queue, no_ack=False)
    assert taken is not None
    channel.call(spec.Queue.Purge(queue=queue), message_count=3)
    channel.send(spec.Basic.Reject(delivery_tag=taken.delivery_tag, requeue=True))
    assert drain(channel, queue) == [b"message 0"]


@unacked
@rule("002", "4.6", "synchronisation/purge", "Purge removes what was sent before it and nothing sent after")
def test_purge_beside_a_consumer(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.qos(2)
    channel.consume(queue)
    fill(channel, queue, numbered(5))
    deliveries = channel.deliveries(2)
    channel.call(spec.Queue.Purge(queue=queue), message_count=3)
    fill(channel, queue, [b"after"])
    channel.ack(deliveries[-1].delivery_tag, multiple=True)
    assert channel.delivery().body == b"after"


@rule("001", "1.7.2.7.2", "queue.purge.queue/existence", "A missing queue cannot be purged: 404")
def test_purging_a_missing_queue(channel: RawChannel) -> None:
    name = unique()
    channel.call_fails(spec.Queue.Purge(queue=name), 404, no_queue(name))


@rule("001", "1.1", "no-wait/queue.purge", "With no-wait queue.purge has no reply, but the work is done")
def test_purge_without_waiting(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(3))
    channel.send(spec.Queue.Purge(queue=queue, nowait=True))
    assert drain(channel, queue) == []


@delete
def test_delete_counts_the_messages_lost(channel: RawChannel) -> None:
    queue = channel.declare(unique("queue"), exclusive=False)
    fill(channel, queue, numbered(5))
    channel.call(spec.Queue.Delete(queue=queue), message_count=5)
    assert not queue_exists(channel, queue)
    # Declared again it is a new, empty queue.
    channel.call(spec.Queue.Declare(queue=queue, exclusive=True), message_count=0)


@rule(
    "001",
    "1.7.2.9",
    "queue.delete/dead-letter",
    "The server SHOULD hold the messages of a deleted queue in a dead-letter queue",
    "SHOULD",
)
@rabbitmq_differs("drops them")
def test_messages_of_a_deleted_queue_become_dead_letters(channel: RawChannel) -> None:
    letters, queue = channel.declare(), unique()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
    channel.call(spec.Queue.Declare(queue=queue, arguments=arguments))
    fill(channel, queue, numbered(3))
    channel.call(spec.Queue.Delete(queue=queue), message_count=3)
    assert drain(channel, letters) == numbered(3)


@delete
def test_deleted_queue_gets_no_more_messages(channel: RawChannel) -> None:
    name, queue = exchange(channel, "fanout", auto_delete=False), channel.declare()
    channel.bind(queue, name)
    channel.call(spec.Queue.Delete(queue=queue))
    channel.publish(b"x", exchange=name, mandatory=True)
    channel.returned(reply_code=312, reply_text="NO_ROUTE")
    channel.publish(b"x", routing_key=queue, mandatory=True)
    channel.returned(reply_code=312, reply_text="NO_ROUTE")
    channel.call(spec.Exchange.Delete(exchange=name))


@rule(
    "004",
    "queue.delete",
    "queue.delete/idempotent",
    "Deleting a missing queue succeeds (404 in the documents; RabbitMQ's clients rely on the success)",
)
def test_deleting_a_missing_queue_succeeds(channel: RawChannel) -> None:
    channel.call(spec.Queue.Delete(queue=unique()), message_count=0)
    channel.call(spec.Queue.Delete(queue=unique(), if_unused=True, if_empty=True), message_count=0)


@if_unused
def test_queue_with_a_consumer_is_not_deleted_if_unused(channel: RawChannel, client: RawClient) -> None:
    queue = channel.declare()
    channel.consume(queue)
    second = client.channel(2)
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"
    second.call_fails(spec.Queue.Delete(queue=queue, if_unused=True), 406, text)
    fill(channel, queue, [b"still there"])
    assert channel.delivery().body == b"still there"


@if_empty
def test_queue_with_messages_is_not_deleted_if_empty(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(2))
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"
    channel.call_fails(spec.Queue.Delete(queue=queue, if_empty=True), 406, text)
    channel.open()
    assert drain(channel, queue) == numbered(2)


@if_unused
@if_empty
def test_unused_and_empty_queue_is_deleted(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.cancel(channel.consume(queue))
    channel.call(spec.Queue.Delete(queue=queue, if_unused=True, if_empty=True), message_count=0)
    assert not queue_exists(channel, queue)


@rule("001", "1.1", "no-wait/queue.delete", "With no-wait queue.delete has no reply, but the work is done")
def test_delete_without_waiting(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.send(spec.Queue.Delete(queue=queue, nowait=True))
    channel.call_fails(spec.Queue.Declare(queue=queue, passive=True), 404, no_queue(queue))


@notify
def test_consumers_hear_of_a_deleted_queue(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    queue = channel.declare(unique("queue"), exclusive=False)
    consumer = connect().channel()
    tags = {consumer.consume(queue, tag) for tag in ("one", "two")}
    channel.call(spec.Queue.Delete(queue=queue))
    told = {consumer.expect(spec.Basic.Cancel, nowait=True).consumer_tag for _ in tags}
    assert told == tags
    # The channel goes on, and the tags are free again.
    consumer.consume(consumer.declare(), "one")


@notify
def test_other_consumers_hear_nothing(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    queue, kept = channel.declare(unique("queue"), exclusive=False), channel.declare(exclusive=False)
    silent = connect(properties={"product": "a client of the plain standard"}).channel()
    silent.consume(queue)
    bystander = connect().channel()
    bystander.consume(kept)
    channel.call(spec.Queue.Delete(queue=queue))
    silent.client.expect_silence()
    round_trip(silent)
    bystander.client.expect_silence()
    channel.call(spec.Queue.Delete(queue=kept))


@rule("001", "1.8.3.5", "basic.cancel/queue-gone", "Cancelling a consumer whose queue is gone is no error")
def test_cancel_after_the_queue_is_gone(connect: Callable[..., RawClient]) -> None:
    channel = connect(properties={}).channel()
    queue = channel.declare()
    tag = channel.consume(queue)
    channel.call(spec.Queue.Delete(queue=queue))
    channel.call(spec.Basic.Cancel(consumer_tag=tag), consumer_tag=tag)


@delete
def test_acknowledging_messages_of_a_deleted_queue(channel: RawChannel) -> None:
    queue = channel.declare()
    fill(channel, queue, numbered(3))
    tags = [
        message.delivery_tag for message in (channel.get(queue, no_ack=False) for _ in range(3)) if message
    ]
    channel.call(spec.Queue.Delete(queue=queue))
    channel.ack(tags[0])
    channel.send(spec.Basic.Reject(delivery_tag=tags[1], requeue=True))
    channel.send(spec.Basic.Nack(delivery_tag=tags[2], requeue=False))
    round_trip(channel)
