"""Transactions: publishes and acknowledgements that happen at commit or not at all."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.model import drain, exchange, fill, no_exchange, numbered, round_trip, unknown_tag
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

select = rule(
    "001", "1.9.2.1", "tx.select", "tx.select makes the channel transactional; saying it twice is no error"
)
not_selected = rule("001", "1.9.2.3", "tx.commit/transacted", "Commit on a channel without transactions: 406")
not_selected_rollback = rule("001", "1.9.2.5", "tx.rollback/transacted", "Rollback likewise: 406")
publishes = rule(
    "001", "1.9.2.3", "tx.commit/publishes", "Messages are seen by nobody before commit, by all after"
)
acks = rule("001", "1.9.2.3", "tx.commit/acks", "Acknowledgements take effect at commit")
next_one = rule("001", "1.9.2.3", "tx/next", "A new transaction starts after each commit and rollback")
rollback = rule("001", "1.9.2.5", "tx.rollback", "Rollback abandons the publishes and acknowledgements since")
no_redelivery = rule(
    "001", "1.9.2.5", "tx.rollback/no-redelivery", "Rollback does not redeliver messages by itself"
)
atomic = rule("001", "1.9", "tx/atomic", "A commit that affects a single queue is atomic", "SHOULD")
counted = rule("001", "1.1", "message-count/committed", "Uncommitted messages are not counted")
modes = rule(
    "004", "confirms", "confirm/tx", "A channel is transactional or in confirm mode, never both: 406"
)
returns = rule(
    "004", "tx", "tx/mandatory", "An unroutable mandatory message of a transaction is returned at commit"
)


@pytest.fixture
def tx(channel: RawChannel) -> RawChannel:
    """A transactional channel."""
    channel.call(spec.Tx.Select())
    return channel


def commit(channel: RawChannel) -> None:
    channel.call(spec.Tx.Commit())


def roll_back(channel: RawChannel) -> None:
    channel.call(spec.Tx.Rollback())


@select
def test_selecting_twice(tx: RawChannel) -> None:
    tx.call(spec.Tx.Select())


@not_selected
@not_selected_rollback
@pytest.mark.parametrize("request_", [spec.Tx.Commit(), spec.Tx.Rollback()], ids=["commit", "rollback"])
def test_channel_without_transactions(channel: RawChannel, request_: Any) -> None:
    channel.call_fails(request_, 406, "PRECONDITION_FAILED - channel is not transactional")


@select
def test_transactions_belong_to_one_channel(client: RawClient, tx: RawChannel) -> None:
    second = client.channel(2)
    queue = second.declare()
    fill(second, queue, [b"x"])
    assert drain(second, queue) == [b"x"]
    second.call_fails(spec.Tx.Commit(), 406)
    commit(tx)


@publishes
@counted
def test_messages_appear_at_commit(client: RawClient, tx: RawChannel) -> None:
    observer = client.channel(2)
    queue = tx.declare()
    fill(tx, queue, numbered(5))
    round_trip(tx)
    observer.call(spec.Queue.Declare(queue=queue, passive=True), message_count=0)
    assert observer.get(queue) is None
    assert tx.get(queue) is None, "not even the transaction itself sees them"
    commit(tx)
    assert drain(observer, queue) == numbered(5)


@publishes
@atomic
@rule("002", "4.4", "visibility/commit", "What was committed is visible to everybody once commit-ok is here")
def test_committed_messages_are_visible_at_commit_ok(
    connect: Callable[..., RawClient], tx: RawChannel
) -> None:
    queue = tx.declare(exclusive=False)
    observer = connect().channel()
    for number in range(1, 11):
        fill(tx, queue, numbered(number))
        commit(tx)
        assert drain(observer, queue) == numbered(number)
    tx.call(spec.Queue.Delete(queue=queue))


@publishes
def test_consumers_get_messages_after_commit(client: RawClient, tx: RawChannel) -> None:
    consumer = client.channel(2)
    queue = tx.declare()
    consumer.consume(queue, no_ack=True)
    fill(tx, queue, numbered(3))
    client.expect_silence()
    tx.send(spec.Tx.Commit())
    # commit-ok and the deliveries belong to different channels: their order is not promised.
    bodies, confirmed = [], False
    while len(bodies) < 3 or not confirmed:
        value = client.next_frame().value
        if isinstance(value, spec.Tx.CommitOk):
            confirmed = True
        else:
            bodies.append(consumer.read_content(value).body)
    assert bodies == numbered(3)


@publishes
def test_commit_covers_several_exchanges_and_queues(tx: RawChannel) -> None:
    name, queues = exchange(tx, "fanout"), [tx.declare() for _ in range(3)]
    for queue in queues:
        tx.bind(queue, name)
    tx.publish(b"to all", exchange=name)
    fill(tx, queues[0], [b"to one"])
    commit(tx)
    assert [drain(tx, queue) for queue in queues] == [[b"to all", b"to one"], [b"to all"], [b"to all"]]


@rollback
@next_one
def test_messages_vanish_at_rollback(tx: RawChannel) -> None:
    queue = tx.declare()
    fill(tx, queue, [b"abandoned"])
    roll_back(tx)
    assert tx.get(queue) is None
    fill(tx, queue, [b"kept"])
    commit(tx)
    fill(tx, queue, [b"abandoned again"])
    roll_back(tx)
    commit(tx)
    assert drain(tx, queue) == [b"kept"]


@rollback
def test_messages_vanish_with_the_channel(client: RawClient, tx: RawChannel) -> None:
    observer = client.channel(2)
    queue = tx.declare()
    fill(tx, queue, numbered(3))
    tx.close()
    assert drain(observer, queue) == []


@acks
def test_acknowledgements_count_at_commit(tx: RawChannel) -> None:
    queue = tx.declare()
    fill(tx, queue, numbered(4))
    commit(tx)
    for _ in range(4):
        tx.get(queue, no_ack=False)
    tx.ack(1)
    tx.ack(3)
    commit(tx)
    tx.close()
    tx.open()
    assert drain(tx, queue) == [b"message 1", b"message 3"]


@acks
@rollback
@pytest.mark.parametrize("ending", ["rollback", "close"])
def test_acknowledgements_without_commit(tx: RawChannel, ending: str) -> None:
    queue = tx.declare()
    fill(tx, queue, numbered(3))
    commit(tx)
    for _ in range(3):
        tx.get(queue, no_ack=False)
    tx.ack(2, multiple=True)
    if ending == "rollback":
        roll_back(tx)
    tx.close()
    tx.open()
    assert drain(tx, queue) == numbered(3), "nothing was acknowledged"


@acks
@rollback
def test_messages_can_be_acknowledged_again_after_rollback(tx: RawChannel) -> None:
    queue = tx.declare()
    fill(tx, queue, numbered(2))
    commit(tx)
    for _ in range(2):
        tx.get(queue, no_ack=False)
    tx.ack(2, multiple=True)
    roll_back(tx)
    tx.ack(1)
    tx.send(spec.Basic.Reject(delivery_tag=2, requeue=True))
    commit(tx)
    assert drain(tx, queue) == [b"message 1"]


@no_redelivery
def test_rollback_redelivers_nothing(tx: RawChannel) -> None:
    queue = tx.declare()
    fill(tx, queue, numbered(2))
    commit(tx)
    tx.consume(queue)
    deliveries = tx.deliveries(2)
    tx.ack(deliveries[0].delivery_tag)
    roll_back(tx)
    tx.client.expect_silence()
    # An explicit recover does.
    tx.call(spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)
    assert [message.body for message in tx.deliveries(2)] == numbered(2)


@acks
@pytest.mark.parametrize("requeue", [True, False])
def test_rejections_count_at_commit(client: RawClient, tx: RawChannel, requeue: bool) -> None:
    observer = client.channel(2)
    queue = tx.declare()
    fill(tx, queue, [b"x"])
    commit(tx)
    tx.get(queue, no_ack=False)
    tx.send(spec.Basic.Nack(delivery_tag=1, requeue=requeue))
    round_trip(tx)
    assert observer.get(queue) is None
    commit(tx)
    assert drain(observer, queue) == ([b"x"] if requeue else [])


@acks
def test_consume_transform_publish(connect: Callable[..., RawClient], tx: RawChannel) -> None:
    """What transactions are for: take a message, publish its successor, both or none."""
    source, target = tx.declare(), tx.declare()
    fill(tx, source, numbered(3))
    commit(tx)
    for decision in (roll_back, commit):
        message = tx.get(source, no_ack=False)
        assert message is not None
        tx.publish(message.body + b"!", routing_key=target)
        tx.ack(message.delivery_tag)
        decision(tx)
    tx.close()
    tx.open()
    assert drain(tx, source) == [b"message 0", b"message 2"]
    assert drain(tx, target) == [b"message 1!"]


@acks
def test_unknown_tag_in_a_transaction(tx: RawChannel) -> None:
    tx.call_fails(spec.Basic.Ack(delivery_tag=9), 406, unknown_tag(9))


@acks
def test_acknowledging_twice_in_a_transaction(tx: RawChannel) -> None:
    queue = tx.declare()
    fill(tx, queue, [b"x"])
    commit(tx)
    tx.get(queue, no_ack=False)
    tx.ack(1)
    tx.call_fails(spec.Basic.Ack(delivery_tag=1), 406, unknown_tag(1))


@publishes
def test_missing_exchange_in_a_transaction(tx: RawChannel) -> None:
    name = unique()
    tx.publish(b"x", exchange=name)
    tx.expect_close(404, no_exchange(name), spec.Basic.Publish)


@returns
def test_returns_come_with_the_commit(tx: RawChannel) -> None:
    for number in range(3):
        tx.publish(b"%d" % number, routing_key=unique(), mandatory=True)
    tx.client.expect_silence()
    tx.send(spec.Tx.Commit())
    assert [tx.returned(reply_code=312, reply_text="NO_ROUTE").body for _ in range(3)] == [b"0", b"1", b"2"]
    tx.expect(spec.Tx.CommitOk)


@returns
@rollback
def test_rolled_back_messages_are_not_returned(tx: RawChannel) -> None:
    tx.publish(b"x", routing_key=unique(), mandatory=True)
    roll_back(tx)
    commit(tx)


@next_one
def test_empty_transactions(tx: RawChannel) -> None:
    for ending in (commit, roll_back, roll_back, commit):
        ending(tx)


@publishes
def test_queue_deleted_before_commit(client: RawClient, tx: RawChannel) -> None:
    queue, other = tx.declare(), tx.declare()
    fill(tx, queue, [b"lost"])
    fill(tx, other, [b"kept"])
    tx.call(spec.Queue.Delete(queue=queue))
    commit(tx)
    assert drain(tx, other) == [b"kept"]


@publishes
@rule(
    "002",
    "4.6",
    "synchronisation/bind-tx",
    "A binding concerns messages published after it, not committed after it",
)
def test_messages_are_routed_where_they_were_published(tx: RawChannel) -> None:
    name, early, late = exchange(tx, "fanout"), tx.declare(), tx.declare()
    tx.bind(early, name)
    tx.publish(b"before", exchange=name)
    tx.bind(late, name)
    tx.publish(b"after", exchange=name)
    commit(tx)
    assert drain(tx, early) == [b"before", b"after"]
    assert drain(tx, late) == [b"after"]


@acks
def test_prefetch_window_opens_at_commit(tx: RawChannel) -> None:
    queue = tx.declare()
    fill(tx, queue, numbered(3))
    commit(tx)
    tx.qos(1)
    tx.consume(queue)
    first = tx.delivery()
    tx.ack(first.delivery_tag)
    tx.send(spec.Tx.Commit())
    tx.expect(spec.Tx.CommitOk)
    assert tx.delivery().body == b"message 1"


@modes
def test_confirm_after_tx(tx: RawChannel) -> None:
    text = "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    tx.call_fails(spec.Confirm.Select(), 406, text)


@modes
def test_tx_after_confirm(channel: RawChannel) -> None:
    channel.confirm_select()
    text = "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    channel.call_fails(spec.Tx.Select(), 406, text)
