"""A stream: a queue that is a log. Messages do not leave it; each consumer reads at an offset of its own.

A message's sequence in the log is its offset, counted from 0, and never means another message: nothing is
delivered before it is safe on disk (`safe_end`), and no segment goes before a later one is safe. Retention
lets go of whole segments, oldest first.

`basic.get` and `queue.purge` are refused with RabbitMQ's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from embermq.broker.message.message import FLAGS_AT, HEADERS_FLAG, Message
from embermq.broker.message.record import message_of
from embermq.broker.message.rewrite import rewritten, typed_headers
from embermq.broker.queue.arguments import refuse_arguments
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.level import Entry, Level
from embermq.broker.queue.queue import KEEPS_ALL, Declared, HasFailed, Queue, describe, failed
from embermq.broker.stream.arguments import (
    OFFSET_MAX,
    STREAM,
    Place,
    check_forms,
    check_group,
    end_from,
    place_from,
)
from embermq.broker.stream.consumer_group import Groups
from embermq.broker.stream.cursor import Cursor
from embermq.broker.stream.filter import Filters, choice_from, value_of
from embermq.broker.stream.retention import StreamRetention
from embermq.broker.turn import Turn
from embermq.errors import PreconditionFailed
from embermq.store.log.retention import Block, sequence_at_time

if TYPE_CHECKING:
    from embermq.broker.storage import Storage
    from embermq.broker.vhost import VirtualHost
    from embermq.store.log.segment import Segment

OFFSET_HEADER = "x-stream-offset"
TIME_HEADER = "x-stream-timestamp"


def prepared(message: Message) -> Message:
    """The message without what another stream that it came from said of it: it will get that of its own."""
    content = message.content
    if content[FLAGS_AT] & HEADERS_FLAG and (
        content.find(b"\x0fx-stream-offset", 0, message.header_size) >= 0
        or content.find(b"\x12x-stream-timestamp", 0, message.header_size) >= 0
    ):
        headers = [field for field in typed_headers(message) if field[0] not in (OFFSET_HEADER, TIME_HEADER)]
        return rewritten(message, message.names, message.properties, headers)
    return message


CURSOR_BUDGET = 512 * 1024  # bytes that one consumer gets in one turn
STREAM_BUDGET = 2 * 1024 * 1024  # and all of a stream together
READ_BYTES = 256 * 1024
# The same under names of this module, where they are C numbers.
KEPT_ALWAYS = KEEPS_ALL


class Stream(Queue):
    __slots__ = (
        "block",
        "cursors",
        "filters",
        "first_cursor",
        "groups",
        "log",
        "low",
        "noted_segment",
        "retention",
        "safe_end",
        "storage",
        "syncing",
        "unwritten",
    )

    def __init__(
        self,
        vhost: VirtualHost,
        name: str,
        turn: Turn,
        *,
        storage: Storage | None = None,
        **declared: Unpack[Declared],
    ) -> None:
        super().__init__(vhost, name, turn, **declared)
        assert self.durable and not self.auto_delete and self.owner is None
        if storage is None:
            raise PreconditionFailed(f"{describe(self)} needs a disk: streams do not live in memory")
        self.storage = storage
        self.keeps = KEPT_ALWAYS
        self.messages_leave = False
        self.low = Level(self, turn, True, storage, self.id)
        self.levels = [self.low]
        self.retention = StreamRetention(self)
        self.log = storage.open_log(self.id, self.retention.limits.segment_bytes, indexed=True)
        self.log.owner = self
        self.low.use_log(self.log)
        self.filters = Filters(self.log)
        self.noted_segment: Segment | None = None  # has a message without headers
        self.ready_count = self.log.count
        self.ready_bytes = self.log.bytes_on_disk
        self.cursors: list[Cursor] = []
        self.groups = Groups(self)
        self.first_cursor = 0  # the one that is served first in the next turn
        self.block: Block | None = None  # the one read last, for other cursors at the same place
        self.safe_end = self.log.next_sequence  # the first offset that a power cut might take
        self.unwritten = False  # something is to be synced that no sync under way covers
        self.syncing = False

    # -- messages in

    def append(self, message: Message) -> int:
        if message.content[FLAGS_AT] & HEADERS_FLAG:
            message = prepared(message)
            self.low.append_record(message)
            self.filters.add(value_of(message))
        else:
            self.low.append_record(message)
            if self.log.active is not self.noted_segment:
                self.filters.add(None)  # once is enough
                self.noted_segment = self.log.active
        self.ready_count += 1
        self.published_count += 1
        if not self.unwritten:
            self.unwritten = True
            self.turn.after_write(self.written)
        return 0

    def append_spans(
        self, prefix: bytes, buf: bytearray, header_at: int, header_stop: int, body_at: int, body_stop: int
    ) -> bool:
        """For a message without headers; the first of a turn, or of a segment, goes by way of `append`.

        `prefix` is what stands before the content header in a record (`message.record`).
        """
        level = self.low
        if not (self.unwritten and level.dirty and self.log.active is self.noted_segment):
            return False
        if not level.append_spans(prefix, buf, header_at, header_stop, body_at, body_stop):
            return False
        self.ready_count += 1
        self.published_count += 1
        return True

    def records_lost(self) -> None:
        """Damage was found in the log."""
        self.ready_count = self.log.count

    def written(self) -> None:
        """The log has been written: have it synced, and let go of what is too much."""
        if self.deleted or self.syncing:
            return  # one after the other: the next sync covers it all
        self.unwritten = False
        self.syncing = True
        end = self.log.next_sequence
        self.storage.when_safe(lambda: self.on_safe(end))

    def on_safe(self, end: int) -> None:
        self.syncing = False
        if self.deleted:
            return
        self.safe_end = end
        self.filters.write()
        self.log.write_indexes(end)
        self.retention.retain()
        self.mark()
        if self.unwritten:
            # Not now: what has come since the last turn stands in no file yet.
            self.turn.after_write(self.written)

    # -- look-up

    @property
    def first_offset(self) -> int:
        return min(self.log.first_sequence, self.safe_end)

    def offset_at(self, place: Place) -> int:
        """The offset that a place stands for now."""
        if place.name == "first":
            return self.first_offset
        if place.name == "next":
            return self.safe_end
        if place.name == "last":
            return max(self.safe_end, self.first_offset + 1) - 1  # never below 0, which C would not tell
        if place.name == "offset":
            return max(place.offset, self.first_offset)
        return min(sequence_at_time(self.log, place.timestamp_ms), self.safe_end)

    def messages(self) -> Iterator[Message]:
        reader = self.log.new_reader()
        sequence = self.first_offset
        while True:
            records: Iterable[Any] = reader.read(sequence, READ_BYTES)
            if not records:
                return
            for record in records:
                yield message_of(record.payload, record.flags)
                sequence = record.sequence + 1

    # -- messages out

    def mark(self) -> int:
        if not self.dirty and self.cursors:
            self.dirty = True
            self.turn.add_queue(self)
        return 0

    def drain(self) -> bool:
        """Each consumer gets its share, another one first each time; True when some of them could go on."""
        budget = STREAM_BUDGET
        count = len(self.cursors)
        more = done = False
        for step in range(count):
            cursor = self.cursors[(self.first_cursor + step) % count]
            share = min(CURSOR_BUDGET, budget)
            used = cursor.deliver(share, self.safe_end)
            self.delivered_count += cursor.delivered
            if cursor.consumer.no_ack:
                self.no_ack_count += cursor.delivered
            budget -= used
            more = more or used >= share
            done = done or cursor.offset >= cursor.end
            if budget <= 0:
                self.first_cursor = (self.first_cursor + step + 1) % count
                break
        if done:
            self.end_ranges()
        return more

    def end_ranges(self) -> None:
        """Consumers that have got all they asked for are done."""
        for cursor in [cursor for cursor in self.cursors if cursor.done]:
            consumer = cursor.consumer
            self.remove_consumer(consumer)
            consumer.range_delivered()

    def settle(self, entry: Entry) -> int:
        self.acked_count += 1
        if self.groups.cursors:
            self.groups.settled(entry)
        return 0

    def requeue(self, entries: list[Entry], has_failed: HasFailed = failed) -> None:
        """Given back: the messages never left. One with a name gets them when it comes again."""
        for entry in entries:
            self.groups.settled(entry, unread=True)

    def receive(self, entries: list[Entry], has_failed: HasFailed = failed) -> list[Entry]:
        self.requeue(entries)
        return []

    def discard(self, entries: list[Entry]) -> None:
        """Rejected for good: this consumer is done with them; the stream keeps them for the others."""
        for entry in entries:
            self.groups.settled(entry)

    # -- consumers

    def check_consumer(self, arguments: Mapping[str, object], no_ack: bool, prefetch_count: int) -> None:
        """Credit comes from acks and a prefetch. Only a consumer of a range may do without: it has an end."""
        refuse_arguments(describe(self), arguments, ("x-priority",), STREAM)
        if not ("x-stream-end-offset" in arguments and no_ack):
            if arguments.get("x-stream-blocks") is True:
                raise PreconditionFailed(
                    f"'x-stream-blocks' for {describe(self)} needs 'x-stream-end-offset' and no_ack"
                )
            if not prefetch_count:
                raise PreconditionFailed(f"consumer prefetch count is not set for '{describe(self)}'")
            if no_ack:
                raise self.cannot("automatic acknowledgement")
        self.plan(arguments)

    def plan(self, arguments: Mapping[str, object]) -> tuple[Place, int]:
        """Where a consumer with these arguments begins and ends; PreconditionFailed for nonsense."""
        what = describe(self)
        end = end_from(what, arguments.get("x-stream-end-offset"))
        check_group(what, arguments)
        check_forms(what, arguments)
        if choice_from(what, arguments) is not None and arguments.get("x-stream-blocks") is True:
            raise PreconditionFailed(f"'x-stream-blocks' gives {what} as it is: there are no filters with it")
        place = place_from(what, arguments.get("x-stream-offset", "next"), self.turn.now_ms)
        return place, OFFSET_MAX if end is None else end

    def add_consumer(self, consumer: Consumer) -> None:
        arguments = consumer.arguments
        place, end = self.plan(arguments)
        cursor = Cursor(self, consumer, self.offset_at(place), end)
        cursor.choice = choice_from(describe(self), arguments)
        cursor.blocks = arguments.get("x-stream-blocks") is True
        cursor.timed = arguments.get("x-stream-timestamps") is True
        self.consumers.append(consumer)
        self.cursors.append(cursor)
        name = arguments.get("x-stream-consumer", "")
        single_active = "x-single-active-consumer"
        if name or arguments.get(single_active) is True or self.effective.get(single_active) is True:
            assert isinstance(name, str)
            self.groups.add(name, cursor)
        self.mark()

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self.cursors = [cursor for cursor in self.cursors if cursor.consumer is not consumer]
        self.first_cursor = 0
        if self.groups.remove(consumer):
            self.mark()
        if not self.cursors:
            self.block = None

    def restore_offset(self, consumer_name: str, offset: int) -> None:
        self.groups.named(consumer_name).left_at = offset

    # -- the whole

    def offset_facts(self, time_ms: int | None = None) -> dict[str, object]:
        facts: dict[str, object] = {
            "first_offset": self.first_offset,
            "next_offset": self.safe_end,
            "segments": len(self.log.segments),
        }
        if time_ms is not None:
            facts["offset_at"] = self.offset_at(Place("timestamp", timestamp_ms=time_ms))
        return facts

    def effective_changed(self, effective: dict[str, object]) -> None:
        self.effective = effective
        self.turn.after_write(self.retention.retain)

    def recover(self, delivered_up_to: dict[str, int] | None) -> None:
        """The log was opened with the stream; some of it may be too old by now."""
        self.turn.after_write(self.recovered)  # when all that was recovered is synced, not before

    def recovered(self) -> None:
        self.log.write_indexes(self.safe_end, everywhere=True)
        self.retention.retain()

    def drop(self) -> None:
        self.groups.forget()
        self.cursors = []
        self.block = None
        super().drop()
