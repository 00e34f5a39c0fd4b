"""A delayed message, and its codec as the payload of a record.

    0  8  number: of messages due at the same time the lower one goes first
    8  4  how often consumers gave it back
   12  8  when it first came to the queue it goes back to; 0: it comes from a publisher
   20  2  how many keys
   22     destination, the keys (each: 2 bytes of length, text), then the message as queues write it

The record's timestamp is the time the message is due. Destinations are `e:<exchange>` (routed when due, by
the message's own routing key and the further keys), `q:<queue>` (published through the default exchange) and
`r:<queue>` (given back by a consumer; the key is the queue's id, which a queue declared anew does not have).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from embermq.broker.message.record import message_of, record_parts
from embermq.store.log.record import PERSISTENT

if TYPE_CHECKING:
    from embermq.broker.delayed.schedule import Part
    from embermq.broker.message.message import Message
    from embermq.store.log.record import Record

_HEAD = struct.Struct("<QIQH")
_NUMBER = struct.Struct("<Q")
_LENGTH = struct.Struct("<H")
LENGTH_MAX = 0xFFFF
DESTINATION_AT = _HEAD.size
OBJECT_BYTES = 400  # about what a waiting message costs in memory beside its content


class Delayed:
    __slots__ = (
        "destination",
        "due_ms",
        "keeps",
        "keys",
        "message",
        "number",
        "part",
        "payload",
        "returns",
        "sequence",
        "since_ms",
    )

    def __init__(
        self,
        due_ms: int,
        destination: str,
        message: Message,
        keys: tuple[str, ...] = (),
        returns: int = 0,
        since_ms: int = 0,
        keeps: bool = True,
    ) -> None:
        self.due_ms = due_ms
        self.number = 0  # given by the schedule
        self.destination = destination
        self.message = message
        self.keys = keys
        self.returns = returns
        self.since_ms = since_ms
        self.keeps = keeps  # survives a restart
        self.part: Part | None = None  # of the schedule, where the record is
        self.sequence = 0
        self.payload: tuple[bytes, ...] | None = None

    @property
    def size(self) -> int:
        """About what it costs in memory."""
        return self.message.size + OBJECT_BYTES

    def record(self) -> tuple[bytes, ...]:
        """The payload of its record, in parts; made once, though it may be written twice."""
        if self.payload is not None:
            return self.payload
        keys = self.keys
        head = _HEAD.pack(self.number, self.returns, self.since_ms, len(keys))
        names = packed(self.destination)
        if keys:
            names += b"".join(map(packed, keys))
        self.payload = (head, names, *record_parts(self.message))
        return self.payload

    @classmethod
    def of(cls, record: Record) -> Delayed:
        payload = record.payload
        number, returns, since_ms, key_count = _HEAD.unpack_from(payload, 0)
        names = []
        at = DESTINATION_AT
        for _ in range(1 + key_count):
            end = at + 2 + _LENGTH.unpack_from(payload, at)[0]
            names.append(payload[at + 2 : end].decode("utf-8", "surrogateescape"))
            at = end
        keeps = record.flags & PERSISTENT != 0
        message = message_of(payload[at:], record.flags)
        delayed = cls(record.timestamp_ms, names[0], message, tuple(names[1:]), returns, since_ms, keeps)
        delayed.number = number
        return delayed


def number_and_destination(payload: bytes) -> tuple[int, str]:
    """The little of a record that a restart looks at."""
    begin = DESTINATION_AT + _LENGTH.size
    end = begin + _LENGTH.unpack_from(payload, DESTINATION_AT)[0]
    return _NUMBER.unpack_from(payload, 0)[0], payload[begin:end].decode("utf-8", "surrogateescape")


def packed(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return _LENGTH.pack(len(data)) + data


def usable_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """The routing keys that can be written; no binding is for one so long that it cannot."""
    fitting = [key for key in keys if len(key.encode("utf-8", "surrogateescape")) <= LENGTH_MAX]
    return tuple(fitting[:LENGTH_MAX])


def destination_of(exchange: str, routing_key: str) -> str:
    return f"e:{exchange}" if exchange else f"q:{routing_key}"
