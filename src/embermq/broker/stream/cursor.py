"""One consumer's place in a stream: from blocks of the log straight to the consumer's output.

No object is made of a message, and for a consumer that takes blocks not even a frame. The block that is being
read is let go of at the end of the turn unless little of it is left, so that a consumer that waits costs next
to nothing, however far behind it is; those at the same place share one block (`stream.block`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from embermq.broker.message.message import Message
from embermq.broker.message.record import content_at, header_size_at, message_of, names_at
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.level import Entry
from embermq.store.log.record import PERSISTENT, RECORD_HEADER_SIZE, Header
from embermq.store.log.retention import Block, BlockReader, whole_record
from embermq.store.log.segment import Segment
from embermq.wire.delivery_headers import OFFSET_FIELD, TIME_FIELD

if TYPE_CHECKING:
    from embermq.broker.queue.level import Level
    from embermq.broker.stream.consumer_group import Group
    from embermq.broker.stream.filter import Choice, Filters
    from embermq.store.log.log import Log

READ_BYTES_MIN = 8 * 1024
READ_BYTES_MAX = 256 * 1024
READ_BLOCKS_BYTES_MAX = 512 * 1024  # for a consumer that takes blocks
CHOICE_BYTES = 1024  # what looking at a message costs a consumer of its turn, beside its size
KEPT_BYTES_MAX = 16 * 1024  # of a block between two turns
# Stands for the message of a delivery: those of a stream are not requeued, so it is not used.
NOTHING = Message(b"", b"", 0, False, 0, 0)


class Source(Protocol):
    """What is read: a stream, or another log with messages."""

    @property
    def low(self) -> Level: ...

    @property
    def log(self) -> Log: ...

    block: Block | None

    def mark(self) -> object:
        """There may be something to be delivered."""
        ...

    @property
    def filters(self) -> Filters | None:
        """Of its segments, where a cursor has a choice."""
        ...


class Cursor:
    __slots__ = (
        "at",
        "block",
        "blocks",
        "choice",
        "consumer",
        "data",
        "delivered",
        "end",
        "fetching",
        "group",
        "header",
        "level",
        "offset",
        "read_bytes",
        "reader",
        "segment",
        "shift",
        "stream",
        "timed",
        "waits",
    )

    def __init__(self, stream: Source, consumer: Consumer, offset: int, end: int) -> None:
        self.stream = stream
        self.consumer = consumer
        self.offset = offset  # the next one
        self.end = end  # the first that is not wanted
        self.group: Group | None = None  # of those with the same name
        self.waits = False  # while another one of the group reads
        self.choice: Choice | None = None  # if it does not want everything
        self.blocks = False  # many messages in one delivery
        self.timed = False  # deliveries say when the broker took the message
        self.shift = 0  # what deliveries call a message, less its offset
        self.delivered = 0  # messages, in the last turn
        self.fetching = False  # what comes next is on its way from the disk
        self.level = stream.low
        self.reader = BlockReader(stream.log)
        self.block: Block | None = None
        self.segment: Segment | None = None
        self.data = b""
        self.at = 0
        self.header = Header()
        self.read_bytes = READ_BYTES_MIN

    @property
    def done(self) -> bool:
        return bool(self.offset >= self.end and not self.waits)

    def go_to(self, offset: int, end: int) -> None:
        """Read another part of the log, as a rule one not far behind."""
        if self.block is not None:
            self.reader.went_on(self.block.position + self.at, self.offset)
            self.drop_block()
        self.offset = offset
        self.end = end

    def deliver(self, budget: int, safe_end: int) -> int:
        """Deliver up to `safe_end` while there is credit; about how many bytes of `budget` that took."""
        used = self.delivered = 0
        if self.waits:
            return 0
        if self.blocks:
            return self.deliver_blocks(budget, safe_end)
        header = self.header
        limit = min(safe_end, self.end)
        while self.offset < limit and used < budget and self.consumer.can_take(0):
            if self.segment is None and self.choice is not None:
                self.pass_segments_over(limit)
                if self.offset >= limit:
                    break
            if self.segment is None and not self.is_at_hand(budget - used):
                break
            if self.segment is None and not self.read(budget - used):
                self.offset = limit  # damage has taken the rest
                break
            segment = self.segment
            assert segment is not None
            at = self.at
            stop = header.load(self.data, at, segment.seed, segment.first, segment.last + 1)
            if stop == 0:
                self.leave_block()
                continue
            if header.sequence >= limit:
                self.offset = limit  # there is nothing in between
                break
            self.at = stop
            used += stop - at
            if header.sequence >= self.offset:
                self.offset = header.sequence + 1
                self.hand_over(header.sequence, at + RECORD_HEADER_SIZE, stop)
                if self.choice is not None:
                    used += CHOICE_BYTES
        if self.segment is not None:
            self.rest(used)
        return used

    def deliver_blocks(self, budget: int, safe_end: int) -> int:
        """The same, as many records at once as stand in one piece and fit into a frame."""
        used = 0
        limit = min(safe_end, self.end)
        while self.offset < limit and used < budget and self.consumer.can_take(0):
            if self.segment is None and used and budget - used < READ_BYTES_MIN:
                return budget  # what is left is not worth a read
            if self.segment is None and not self.is_at_hand(budget - used):
                break
            if self.segment is None and not self.read(budget - used):
                self.offset = limit  # damage has taken the rest
                break
            used += self.hand_over_block(limit)
        if self.segment is not None:
            self.rest(used)
        return used

    def hand_over_block(self, limit: int) -> int:
        """Deliver what is wanted of the block that is being read, or a frame full of it; how many bytes."""
        header, segment, data = self.header, self.segment, self.data
        assert segment is not None
        at = start = begin = self.at
        first = self.offset
        count = 0
        while True:
            stop = header.load(data, at, segment.seed, segment.first, segment.last + 1)
            if stop == 0 or header.sequence >= limit:
                break
            if header.sequence < first:
                start = at = stop  # before what is wanted
                continue
            if count == 0:
                first = header.sequence
            elif stop - start > self.consumer.block_bytes_max:
                break
            at = stop
            count += 1
            self.offset = header.sequence + 1
        self.at = at
        if count:
            self.delivered += count
            self.consumer.deliver_block(data, start, at, first, count)
        if stop == 0:
            self.leave_block()
        elif header.sequence >= limit:
            self.offset = limit  # there is nothing in between
        return at - begin

    def hand_over(self, offset: int, at: int, stop: int) -> int:
        """Deliver the message whose record's payload (see `level`) stands at `at`."""
        data = self.data
        header_size, header_at = header_size_at(data, at), content_at(data, at)
        if self.choice is not None and not self.choice.wants(data[at:stop]):
            return 0
        self.delivered += 1
        entry: Entry | None = None
        if not self.consumer.no_ack:
            entry = Entry.__new__(Entry)
            entry.message = NOTHING
            entry.level = self.level
            entry.sequence = offset
            entry.stored = False
            entry.redelivered = False
            entry.consumer = self.consumer
            entry.delivery_tag = 0
            entry.expires_ms = 0
            entry.returns = 0
            if self.consumer.counts_bytes:
                entry.message = message_of(data[at:stop], PERSISTENT)
            if self.group is not None:
                self.group.out.append(offset)
        if self.timed:
            time = self.header.timestamp_ms.to_bytes(8, "big")
            self.consumer.field = TIME_FIELD + time + OFFSET_FIELD
        self.consumer.deliver_stored(
            entry, data, names_at(at), header_at, stop, header_size, offset + self.shift
        )
        return 0

    def pass_segments_over(self, limit: int) -> None:
        """Go on behind the segments that have nothing for us."""
        log, filters, choice = self.reader.log, self.stream.filters, self.choice
        assert filters is not None and choice is not None
        while True:
            segment = log.segment_from(self.offset)
            if segment is None or segment is log.active or segment.last >= limit:
                return
            if not filters.passes_over(segment, choice):
                return
            self.offset = segment.last + 1

    def is_at_hand(self, room: int) -> bool:
        """Can `read` go on without waiting for the disk? If not, the stream is marked when it can."""
        if not self.fetching:
            stream = self.stream
            wanted = self.wanted_bytes(room)
            at_hand = self.reader.block_at_hand(self.offset, wanted, stream.block, self.fetched)
            self.fetching = not at_hand
        return not self.fetching

    def fetched(self) -> None:
        self.fetching = False
        self.stream.mark()

    def wanted_bytes(self, room: int) -> int:
        return min(self.read_bytes, max(room, READ_BYTES_MIN))

    def read(self, room: int) -> bool:
        """Fetch the block that the next record is in, no more than this turn takes; False: there is none."""
        stream = self.stream
        found = self.reader.block(self.offset, self.wanted_bytes(room), stream.block)
        if found is None:
            return False
        stream.block = self.block = block = found[0]
        self.segment = block.segment
        self.data = block.data
        self.at = found[1]
        self.read_bytes = min(self.read_bytes * 2, READ_BLOCKS_BYTES_MAX if self.blocks else READ_BYTES_MAX)
        return True

    def leave_block(self) -> None:
        """No whole, sound record stands where we are: read on from there, behind the damage if it is one."""
        assert self.block is not None
        position = self.block.position + self.at
        self.reader.went_on(position, self.offset)
        if whole_record(self.data, self.at):
            self.reader.damaged(position)
        self.drop_block()

    def drop_block(self) -> None:
        self.block = None
        self.segment = None
        self.data = b""

    def rest(self, used: int) -> None:
        """The turn is over for this consumer: keep little, and read next time about what it takes."""
        if len(self.data) > KEPT_BYTES_MAX:
            assert self.block is not None
            self.reader.went_on(self.block.position + self.at, self.offset)
            self.drop_block()
            self.read_bytes = min(max(used, READ_BYTES_MIN), READ_BYTES_MAX)
