"""Class tx: publishes and acknowledgements of a channel take effect together, at commit."""

from __future__ import annotations

from embermq.amqp.channel import Channel
from embermq.amqp.transaction import Transaction
from embermq.errors import PreconditionFailed
from embermq.wire import methods


def on_tx_select(channel: Channel, method: methods.TxSelect) -> None:
    if channel.confirming:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(methods.TxSelectOk())


def on_tx_commit(channel: Channel, method: methods.TxCommit) -> None:
    transaction = begin_anew(channel)
    for message, queues, bits in transaction.publishes:
        channel.publish(message, tuple(queue for queue in queues if not queue.deleted), bits)
    for message, due_ms, keys in transaction.delayed:
        channel.vhost.delays.publish(message, due_ms, keys)
    channel.settle(transaction.acks)
    for entries, requeue in transaction.rejects:
        if requeue:
            channel.requeue(entries)
        else:
            channel.discard(entries)
    storage = channel.connection.broker.storage
    if storage is None:
        channel.send(methods.TxCommitOk())
        return
    # Behind the returns of this transaction and before anything that comes later on the connection.
    channel.unsafe = False
    channel.connection.hold_output()
    channel.send(methods.TxCommitOk())
    channel.connection.broker.turn.after_write(
        lambda: storage.when_safe(channel.connection.release_output, with_acks=True)
    )


def on_tx_rollback(channel: Channel, method: methods.TxRollback) -> None:
    """Publishes are forgotten; deliveries are unacknowledged again, in the order of their tags."""
    transaction = begin_anew(channel)
    for entry in transaction.held_entries():
        channel.unacked[entry.delivery_tag] = entry
    channel.unacked = dict(sorted(channel.unacked.items()))
    channel.send(methods.TxRollbackOk())


def begin_anew(channel: Channel) -> Transaction:
    """The transaction so far; the next one begins at once (002: there is always one)."""
    transaction = channel.transaction
    if transaction is None:
        raise PreconditionFailed("channel is not transactional")
    channel.transaction = Transaction()
    return transaction
