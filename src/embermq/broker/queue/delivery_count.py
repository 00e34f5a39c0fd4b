"""How often consumers gave a message back, for queues that have a use for the number; restarts keep it.

On disk it is a note beside the message's record (`store.note`). A message that waited elsewhere and came back
as a new record has it in the flags of that, above the first bit, as far as it fits.
"""

from __future__ import annotations

from embermq.broker.message.message import Message, expiry_of
from embermq.broker.message.record import record_parts
from embermq.broker.message.rewrite import with_delivery_count
from embermq.broker.queue.level import Entry, Level
from embermq.store.log.ack_note import note
from embermq.store.log.record import PERSISTENT

IN_FLAGS_MAX = 127


def count_return(entry: Entry) -> None:
    """A consumer gave the message back, and that is to be remembered."""
    level = entry.level
    entry.returns += 1
    entry.message = with_delivery_count(entry.message, entry.returns)
    if entry.stored and level.log is not None and note(level.log, entry.sequence, entry.returns):
        level.mark()


def append_again(level: Level, message: Message, since_ms: int, returns: int) -> int:
    """A message that came at `since_ms`, was given back and waited elsewhere goes to the end.

    Answers when it expires; 0: never.
    """
    sequence = level.next_sequence
    level.next_sequence = sequence + 1
    expires_ms = expiry_of(message, level.ttl_ms, since_ms)
    keep = bool(level.durable and message.persistent and level.storage is not None)
    pages = level.pages()
    if keep or pages:
        log = level.log or level.open_log()
        flags = PERSISTENT if keep else 0
        log.append(sequence, since_ms, flags | min(returns, IN_FLAGS_MAX) << 1, record_parts(message))
        if returns > IN_FLAGS_MAX:
            note(log, sequence, returns)
        level.mark()
    if pages:
        if level.paged_count == 0:
            level.paged_from = sequence
        level.paged_count += 1
        if returns > IN_FLAGS_MAX:
            level.returns[sequence] = returns
    else:
        entry = Entry(with_delivery_count(message, returns), level, sequence, keep, True)
        entry.returns = returns
        entry.expires_ms = expires_ms
        level.ring.push_back(entry)
        level.ring_bytes += entry.message.size
    return expires_ms
