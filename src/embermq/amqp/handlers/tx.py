"""Class tx: publishes and acknowledgements of a channel take effect together, at commit."""

from __future__ import annotations

import heapq
from itertools import chain, islice
from operator import attrgetter

from embermq.amqp.channel.bulk_settle import (
    count_of,
    discard_pieces,
    give_back,
    give_back_pieces,
    in_pieces,
    settle_pieces,
)
from embermq.amqp.channel.channel import BLOCK_COUNT, Blocks, Channel
from embermq.amqp.channel.transaction import Transaction
from embermq.broker.incremental_work import Pieces
from embermq.broker.queue.level import Entry
from embermq.errors import PreconditionFailed
from embermq.wire import methods

AT_ONCE_MAX = 1000  # publishes and deliveries of a transaction
PIECE_COUNT = 256

by_tag = attrgetter("delivery_tag")


def on_tx_select(channel: Channel, method: methods.TxSelect) -> None:
    if channel.confirming:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(methods.TxSelectOk())


def on_tx_commit(channel: Channel, method: methods.TxCommit) -> None:
    transaction = begin_anew(channel)
    channel.turned_away = False
    work = len(transaction.publishes) + len(transaction.delayed) + count_of(transaction.held_blocks())
    pieces = commit(channel, transaction)
    if work > AT_ONCE_MAX:
        in_pieces(channel, pieces, lambda: committed(channel))
    else:
        finish(pieces)
        committed(channel)


def commit(channel: Channel, transaction: Transaction) -> Pieces:
    work = 0
    transaction.publishes.reverse()
    while transaction.publishes:
        message, queues, bits = transaction.publishes.pop()
        channel.publish(message, tuple(queue for queue in queues if not queue.deleted), bits)
        work += 1 + len(queues)
        if work >= PIECE_COUNT:
            work = 0
            yield
    for message, due_ms, keys in transaction.delayed:
        channel.vhost.delays.publish(message, due_ms, keys)
        yield
    yield from settle_pieces(channel, transaction.acks)
    for blocks, requeue in transaction.rejects:
        yield from give_back_pieces(channel, blocks) if requeue else discard_pieces(channel, blocks)


def committed(channel: Channel) -> None:
    if channel.turned_away and not channel.closing:  # a full queue would not have one of the messages
        error = PreconditionFailed("partial tx completion")
        channel.connection.close_channel(channel, error, methods.TxCommit.ID)
        return
    if channel.connection.broker.storage is None:
        channel.send(methods.TxCommitOk())
        return
    # Behind the returns of this transaction and before anything that comes later on the connection.
    channel.unsafe = False
    channel.connection.hold_output()
    channel.send(methods.TxCommitOk())
    channel.connection.turn.after_safe(channel.connection.release_output, with_acks=True)


def on_tx_rollback(channel: Channel, method: methods.TxRollback) -> None:
    """Publishes are forgotten; deliveries are unacknowledged again, in the order of their tags."""
    blocks = begin_anew(channel).held_blocks()
    if blocks:
        blocks += channel.take_all()
        pieces = hold_again(channel, blocks)
        if count_of(blocks) > AT_ONCE_MAX:
            in_pieces(channel, pieces)
        else:
            finish(pieces)
    channel.send(methods.TxRollbackOk())


def hold_again(channel: Channel, blocks: Blocks) -> Pieces:
    runs: list[list[Entry]] = []  # each in the order of the tags
    entries = chain.from_iterable(blocks)  # whatever was settled one by one is a block of one
    while piece := list(islice(entries, PIECE_COUNT)):
        piece.sort(key=by_tag)
        if not runs or runs[-1][-1].delivery_tag > piece[0].delivery_tag:
            runs.append([])
        runs[-1] += piece
        yield
    ordered = heapq.merge(*runs, key=by_tag)
    again: list[dict[int, Entry]] = []
    while block := {entry.delivery_tag: entry for entry in islice(ordered, BLOCK_COUNT)}:
        again.append(block)
        yield
    if channel.closing:
        give_back(channel, [block.values() for block in again])  # it ended meanwhile
    else:
        channel.hold_again(again)


def finish(pieces: Pieces) -> None:
    for _ in pieces:
        pass


def begin_anew(channel: Channel) -> Transaction:
    """The transaction so far; the next one begins at once (002: there is always one)."""
    transaction = channel.transaction
    if transaction is None:
        raise PreconditionFailed("channel is not transactional")
    channel.transaction = Transaction()
    return transaction
