"""Previews of the first ready messages of a queue: with the beginnings of their bodies, for the console.

As with `browse`, nothing is taken, counted or marked; but a body of 100 MB is neither copied nor read from
disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from embermq.broker.message.message import Message, expiry_of
from embermq.broker.message.record import body_size, message_of
from embermq.store.log.peek import RecordPreview, record_previews

if TYPE_CHECKING:
    from embermq.broker.queue.level import Level
    from embermq.broker.queue.queue import Queue

BLOCK_BYTES = 32 * 1024


class Preview(NamedTuple):
    message: Message  # of its body the beginning; of a very long header, too
    body_size: int
    sequence: int
    redelivered: bool
    expires_ms: int  # 0: never
    in_memory: bool


def previews(queue: Queue, count: int, body_bytes: int) -> Iterator[Preview | None]:
    """The first so many, or a few more, in the order in which they would leave.

    None: a pause, for other work. What happens meanwhile may be seen in what follows, or not.
    """
    for level in list(queue.levels):
        first = 0
        for entry in list(islice(level.entries(), count)):
            first, message = entry.sequence + 1, entry.message
            yield Preview(
                cut(message, body_bytes),
                message.size - message.header_size,
                entry.sequence,
                bool(entry.redelivered),
                entry.expires_ms,
                True,
            )
            yield None
        if (level.paged_count or not queue.messages_leave) and level.log is not None:
            yield from on_disk(level, max(first, level.paged_from), body_bytes)


def on_disk(level: Level, first: int, body_bytes: int) -> Iterator[Preview | None]:
    assert level.log is not None
    for seen in record_previews(level.log, first, BLOCK_BYTES):
        if seen is None or not level.is_held(seen.sequence):
            yield None if seen is None else from_record(level, seen, body_bytes)


def from_record(level: Level, seen: RecordPreview, body_bytes: int) -> Preview:
    message = message_of(seen.payload, seen.flags, body_bytes)
    returns = level.returns.get(seen.sequence, seen.flags >> 1)
    return Preview(
        message,
        body_size(seen),
        seen.sequence,
        level.was_delivered(seen.sequence, returns),
        expiry_of(message, level.ttl_of(seen.sequence), seen.timestamp_ms),
        False,
    )


def cut(message: Message, body_bytes: int) -> Message:
    if message.size - message.header_size <= body_bytes:
        return message
    return Message(
        message.names,
        message.content[: message.header_size + body_bytes],
        message.header_size,
        message.persistent,
        message.priority,
        message.publisher,
    )
