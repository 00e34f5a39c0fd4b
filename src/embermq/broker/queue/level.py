"""A level: the messages of one priority in a queue. The head is in memory, the rest in a log.

    ring (entries in memory, a bounded window)  |  paged_from .. next_sequence (only in the log)
    <- leaves here                                                                    arrives here ->

Persistent messages of a durable queue are in the log whether or not they are in the ring. A level whose ring
is full pages: from then on every message, transient ones too, goes to the log only, and the ring is filled
again from there, in order, as it empties. So depth costs no memory, and order does not depend on persistence.
Records without the persistent flag are forgotten when the log is opened again.

Beside the ring:
- `returned`: sorted runs of deliveries that came back. While there are any, the ring is not empty, and its
  first message comes before all of theirs.
- `held`: sequences behind `paged_from` that a lease, a transfer or a selecting consumer has taken: `refill`
  passes over them.
- `came_back`: those behind `paged_from` that were delivered and came back to stay on disk only.
- `unmeasured_below`: bodies of recovered messages below this sequence are not in `queue.ready_bytes` yet.
  They are added when they are read, be it to deliver or to measure them (in pieces, from the end to the
  head).
- `returns`: how often consumers gave a message on disk back. In the log it is a note beside the record
  (`store.log.ack_note`); of a message that waited elsewhere, in the flags of the record, above the first bit.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from embermq.broker.interfaces import Logged
from embermq.broker.message.message import NO_TTL, Message, expiry_of
from embermq.broker.message.record import PAYLOAD_BYTES_MIN, body_size, message_of, pack_meta, record_parts
from embermq.broker.message.rewrite import with_delivery_count
from embermq.broker.queue.ring import Ring
from embermq.broker.queue.runs import ENDLESS, SortedRuns, body_bytes_of, by_sequence
from embermq.broker.turn import Turn
from embermq.store.log.ack_note import note
from embermq.store.log.log import Log
from embermq.store.log.peek import record_previews
from embermq.store.log.record import RECORD_HEADER_SIZE
from embermq.store.log.retention import is_alive
from embermq.store.log.segment_file import SEGMENT_HEADER_SIZE

if TYPE_CHECKING:
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.queue.consumer import Consumer
    from embermq.broker.queue.queue import Queue
    from embermq.broker.storage import Storage

WINDOW_COUNT = 32_768  # messages of a level kept in memory
WINDOW_BYTES = 32 * 1024 * 1024
TIGHT_COUNT = 1024  # the same while memory is tight
TIGHT_BYTES = 256 * 1024
REFILL_COUNT = 1024  # fill the ring again when fewer are left
REFILL_BYTES = 512 * 1024
PEEK_BYTES = 8 * 1024  # to see the first message; those before it that are gone are read over
READ_BYTES = 512 * 1024  # of the log in one go, by `messages`
MEASURED_BYTES = 128 * 1024  # of the log in one piece
BESIDE_BODY_BYTES = RECORD_HEADER_SIZE + PAYLOAD_BYTES_MIN
MERGED_COUNT = 1024  # returned messages that the ring gets at a time
RETURNS_IN_FLAGS_MAX = 127
TTL_HISTORY_MAX = 100  # changes of x-message-ttl that are remembered
PERSISTENT = 1
TRANSIENT = 0


class Entry:
    """One message's place in one queue."""

    __slots__ = (
        "consumer",
        "delivery_tag",
        "expires_ms",
        "level",
        "message",
        "redelivered",
        "returns",
        "sequence",
        "stored",
    )

    def __init__(
        self, message: Message, level: Level, sequence: int, stored: bool, redelivered: bool
    ) -> None:
        self.message = message
        self.level = level
        self.sequence = sequence
        self.stored = stored  # has a record in the log that must be acked one day
        self.redelivered = redelivered
        self.consumer: Consumer | None = None
        self.delivery_tag = 0
        self.expires_ms = 0  # when; 0: never
        self.returns = 0  # how often consumers gave it back

    @property
    def queue(self) -> Queue:
        return self.level.queue


class Level(Logged):
    __slots__ = (
        "came_back",
        "delivered_up_to",
        "durable",
        "fetching",
        "held",
        "keeps_place",
        "meta",
        "meta_header_size",
        "meta_priority",
        "next_sequence",
        "paged_count",
        "paged_from",
        "queue",
        "redelivered_below",
        "returned",
        "returns",
        "ring",
        "ring_bytes",
        "storage",
        "ttl_history",
        "ttl_ms",
        "turn",
        "unmeasured_below",
        "unread",
    )

    def __init__(self, queue: Queue, turn: Turn, durable: bool, storage: Storage | None, log_id: str) -> None:
        super().__init__(log_id)  # its log is opened by the first message that needs it
        self.queue = queue
        self.turn = turn
        self.durable = durable
        self.storage = storage
        self.held: set[int] | None = None  # behind `paged_from`, but taken out
        self.came_back: set[int] | None = None  # behind `paged_from`, and delivered before
        self.keeps_place = False  # the log's last sequence must be known after any crash
        self.ring = Ring()
        self.ring_bytes = 0
        self.returned: SortedRuns | None = None  # deliveries that came back and wait beside the ring
        self.paged_count = 0
        self.paged_from = 0
        self.fetching = False  # what comes next is on its way from the disk
        self.unread = False  # reading has failed: not once more before it must be
        self.next_sequence = 1
        self.redelivered_below = 0  # recovered messages up to here may have been delivered before
        self.delivered_up_to = 0
        self.ttl_ms = NO_TTL  # of messages that come here: the queue's x-message-ttl
        self.ttl_history: list[tuple[int, int]] = []  # before it changed: (below which sequence, what)
        self.returns: dict[int, int] = {}  # of messages that are on disk since before the start
        self.unmeasured_below = 0  # the sizes of recovered messages are known once they are read
        self.meta = b""
        self.meta_header_size = -1
        self.meta_priority = -1

    # -- in

    def append(self, message: Message, expires_ms: int) -> int:
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        keep = self.durable and message.persistent and self.storage is not None
        if self.storage is None or (
            self.paged_count == 0
            and self.ring.count < WINDOW_COUNT
            and self.ring_bytes < WINDOW_BYTES
            and not (self.turn.tight and self.pages())
        ):
            if keep:
                self.store(sequence, message, PERSISTENT)
            entry = Entry.__new__(Entry)  # without __init__, which would cost as much as the rest
            entry.message = message
            entry.level = self
            entry.sequence = sequence
            entry.stored = keep
            entry.redelivered = False
            entry.consumer = None
            entry.delivery_tag = 0
            entry.expires_ms = expires_ms
            entry.returns = 0
            self.ring.push_back(entry)
            self.ring_bytes += message.size
            return 0
        self.store(sequence, message, PERSISTENT if keep else TRANSIENT)
        if self.paged_count == 0:
            self.paged_from = sequence
        self.paged_count += 1
        return 0

    def append_returned(self, message: Message, since_ms: int, returns: int) -> int:
        """A message that came at `since_ms`, was given back and waited elsewhere goes to the end.

        Answers when it expires; 0: never.
        """
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        expires_ms = expiry_of(message, self.ttl_ms, since_ms)
        keep = bool(self.durable and message.persistent and self.storage is not None)
        pages = self.pages()
        if keep or pages:
            log = self.log or self.open_log()
            flags = (PERSISTENT if keep else TRANSIENT) | min(returns, RETURNS_IN_FLAGS_MAX) << 1
            log.append(sequence, since_ms, flags, record_parts(message))
            if returns > RETURNS_IN_FLAGS_MAX:
                note(log, sequence, returns)
            self.mark()
        if pages:
            if self.paged_count == 0:
                self.paged_from = sequence
            self.paged_count += 1
            if returns > RETURNS_IN_FLAGS_MAX:
                self.returns[sequence] = returns
        else:
            entry = Entry(with_delivery_count(message, returns), self, sequence, keep, True)
            entry.returns = returns
            entry.expires_ms = expires_ms
            self.ring.push_back(entry)
            self.ring_bytes += entry.message.size
        return expires_ms

    def append_record(self, message: Message) -> int:
        """A message of a stream, which is in the log only."""
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        return self.store(sequence, message, PERSISTENT)

    def append_spans(
        self, prefix: bytes, buf: bytearray, header_at: int, header_stop: int, body_at: int, body_stop: int
    ) -> bool:
        """The same from the buffer that it was read into. False: not done, because the log has no room."""
        log = self.log
        if log is None or not log.append_spans(
            self.next_sequence,
            self.turn.now_ms,
            PERSISTENT,
            prefix,
            buf,
            header_at,
            header_stop,
            body_at,
            body_stop,
        ):
            return False
        self.next_sequence += 1
        return True

    def pages(self) -> bool:
        """Does what comes now go to the log only? (`append` asks the same, mostly without a call.)"""
        if self.storage is None or self.paged_count:
            return self.storage is not None
        if self.turn.tight:
            return self.ring.count >= TIGHT_COUNT or self.ring_bytes >= TIGHT_BYTES
        return self.ring.count >= WINDOW_COUNT or self.ring_bytes >= WINDOW_BYTES

    def store(self, sequence: int, message: Message, flags: int) -> int:
        log = self.log
        if log is None:
            log = self.open_log()
        if message.header_size != self.meta_header_size or message.priority != self.meta_priority:
            self.meta_header_size = message.header_size
            self.meta_priority = message.priority
            self.meta = pack_meta(message.header_size, message.priority)
        log.append(sequence, self.turn.now_ms, flags, (self.meta, message.names, message.content))
        if not self.dirty:
            self.mark()
        return 0

    def open_log(self) -> Log:
        assert self.storage is not None
        log = self.log = self.storage.open_log(self.log_id, keep_place=self.keeps_place)
        log.in_order = True
        log.owner = self
        return log

    def use_log(self, log: Log) -> None:
        """Of a stream, which opens it itself."""
        self.log = log
        self.next_sequence = log.next_sequence

    def label(self) -> bytes:
        return self.queue.label()

    def mark(self) -> int:
        """The log has something to write at the end of the turn."""
        if not self.dirty:
            self.dirty = True
            self.turn.add_log(self)
        return 0

    # -- back

    def put_back(self, entries: list[Entry]) -> None:
        """Entries that were taken out return, each to its original place."""
        if self.held is not None:
            entries = self.leave_on_disk(entries)
        run = sorted(entries, key=by_sequence)
        if not run:
            return
        if self.ring.count <= MERGED_COUNT or run[-1].sequence > self.delivered_up_to:
            self.insert(run)
            return
        if self.returned is None:
            self.returned = SortedRuns()
        self.returned.add(run)
        self.merge_returned()

    def leave_on_disk(self, entries: list[Entry]) -> list[Entry]:
        """Those that stand among others that are on disk only need no place in memory; the rest."""
        rest: list[Entry] = []
        for entry in entries:
            if not self.stays_on_disk(entry.sequence):
                self.release((entry.sequence,))
                rest.append(entry)
                continue
            self.release((entry.sequence,))
            self.paged_count += 1
            self.remember_returns(entry)
            if entry.redelivered:
                self.came_back = self.came_back or set()
                self.came_back.add(entry.sequence)
            if entry.sequence < self.unmeasured_below:
                self.queue.correct(0, entry.message.header_size - entry.message.size)  # it will count
        return rest

    def is_on_disk_only(self, sequence: int) -> bool:
        """Could it be ready, and on disk only?"""
        return self.paged_count > 0 and sequence >= self.paged_from and not self.is_held(sequence)

    def stays_on_disk(self, sequence: int) -> bool:
        """Is it held, among others that are on disk only? Where there are none, what came meanwhile is in the
        ring."""
        return self.is_held(sequence) and self.paged_count > 0 and sequence >= self.paged_from

    def take_back(self, runs: SortedRuns) -> None:
        """Unacknowledged deliveries are ready again."""
        self.queue.ready_again(self, runs.first)
        self.queue.correct(runs.count, runs.body_bytes, -runs.count, -runs.body_bytes)
        self.delivered_up_to = max(self.delivered_up_to, runs.last)
        if self.returned is None:
            self.returned = runs
        else:
            self.returned.merge(runs)
        self.merge_returned()

    def merge_returned(self) -> None:
        """If the ring has come to where the messages beside it begin, let it have the first of them."""
        runs, ring = self.returned, self.ring
        while runs is not None and runs.heap and (ring.count == 0 or runs.first < ring.front().sequence):
            # No more than find their places near its beginning.
            below = ring.at(MERGED_COUNT).sequence if ring.count > MERGED_COUNT else ENDLESS
            self.insert(runs.take(MERGED_COUNT, below))
        if runs is not None and not runs.heap:
            self.returned = None

    def insert(self, entries: list[Entry]) -> None:
        """Put entries, which are in order, into their places in the ring."""
        last = entries[-1].sequence
        ring = self.ring
        for entry in entries:
            self.ring_bytes += entry.message.size
        while ring.count and ring.front().sequence < last:
            entries.append(ring.pop_front())
        entries.sort(key=by_sequence)
        for entry in reversed(entries):
            ring.push_front(entry)

    def count_return(self, entry: Entry) -> None:
        """A consumer gave the message back: count it, on disk as well."""
        entry.returns += 1
        entry.message = with_delivery_count(entry.message, entry.returns)
        if entry.stored and self.log is not None and note(self.log, entry.sequence, entry.returns):
            self.mark()

    def remember_returns(self, entry: Entry) -> None:
        """The entry goes, and its record will be read again: with as many returns."""
        if entry.returns:
            self.returns[entry.sequence] = entry.returns

    # -- taken by their sequences

    def remove(self, sequences: set[int]) -> None:
        """Take entries out of memory, wherever they are there."""
        if not sequences:
            return
        if self.returned is not None:
            self.returned.remove(sequences)
        kept = Ring()
        for entry in self.ring:
            if entry.sequence in sequences:
                self.ring_bytes -= entry.message.size
            else:
                kept.push_back(entry)
        self.ring = kept
        self.merge_returned()

    def take_at(self, sequence: int) -> Entry | None:
        """Take the entry with that sequence out of memory; None: it is not there."""
        ring, index = self.ring, self.index_from(sequence)
        entry: Entry | None = ring.at(index) if index < ring.count else None
        if entry is not None and entry.sequence == sequence:
            ring.take_at(index)
            self.ring_bytes -= entry.message.size
        else:
            entry = None if self.returned is None else self.returned.take_one(sequence)
        if entry is not None:
            if sequence > self.delivered_up_to:
                self.delivered_up_to = sequence
            self.merge_returned()
        return entry

    def take_from_log(self, record: Any) -> Entry:
        """Take a ready message that is on disk only."""
        entry = self.entry_of(record)
        self.take_record(record.sequence)
        if record.sequence > self.delivered_up_to:
            self.delivered_up_to = record.sequence
        return entry

    def hold(self, sequences: Iterable[int]) -> None:
        """Pass over these records from now on."""
        if self.held is None:
            self.held = set()
        self.held.update(sequences)

    def take_record(self, sequence: int) -> None:
        """A ready message that is on disk only is not ready any more."""
        self.hold((sequence,))
        self.paged_count -= 1

    def release(self, sequences: Iterable[int]) -> None:
        """They are not held any more."""
        if self.held is not None:
            self.held.difference_update(sequences)
            self.held = self.held or None

    def is_held(self, sequence: int) -> bool:
        return self.held is not None and sequence in self.held

    def stay_on_disk(self, first: int, count: int) -> None:
        """So many that were held, from this one on behind `paged_from`, are ready again."""
        self.paged_count += count
        self.queue.ready_again(self, first)

    def begin_behind(self, sequence: int) -> None:
        """What is on disk only begins behind this one: the entries up to it are elsewhere."""
        self.paged_from = sequence + 1

    # -- out

    def front(self) -> Entry | None:
        """The entry that leaves next; it stays. Reads from the log when memory has run out."""
        while self.ring.count == 0:
            if self.paged_count == 0:
                return None
            self.refill()
            self.unread = False
        entry: Entry = self.ring.front()
        return entry

    def front_at_hand(self) -> Entry | None:
        """`front`, without waiting: None, too, while the entry is on its way from the disk (`fetching`)."""
        if self.ring.count == 0 and (self.paged_count == 0 or not self.is_at_hand()):
            return None
        return self.front()

    def is_at_hand(self) -> bool:
        """Can `refill` go on without waiting for the disk? If not, the queue is marked when it can."""
        if not self.fetching:
            assert self.log is not None
            self.fetching = not self.log.at_hand(self.paged_from, REFILL_BYTES, self.fetched)
        return not self.fetching

    def fetched(self) -> None:
        self.fetching = False
        self.queue.mark()

    def take(self) -> Entry:
        """The entry that `front` answered."""
        if (
            self.paged_count
            and self.ring.count <= REFILL_COUNT
            and self.ring_bytes < WINDOW_BYTES
            and not self.unread
            and self.is_at_hand()
        ):
            try:
                self.refill()
            except OSError:
                # Too many open files, perhaps. `front` needs it, and tells; here an entry is on its way out.
                self.unread = True
        entry: Entry = self.ring.pop_front()
        self.ring_bytes -= entry.message.size
        if entry.sequence > self.delivered_up_to:
            self.delivered_up_to = entry.sequence
        elif self.returned is not None:  # all that came back has been delivered, and so has what is before it
            self.merge_returned()
        return entry

    def refill(self) -> None:
        """Read the next block of the log into the ring."""
        log = self.log
        assert log is not None
        while self.held is not None and self.paged_from in self.held:
            self.paged_from += 1
        records = log.read(self.paged_from, REFILL_BYTES)
        found_bytes = 0
        passed_over = 0
        for record in records:
            if self.held is not None and record.sequence in self.held:
                passed_over += 1
                continue
            entry = self.entry_of(record)
            if record.sequence < self.unmeasured_below:
                found_bytes += entry.message.size - entry.message.header_size
            if entry.expires_ms:
                self.queue.expects_expiry(entry.expires_ms)
            self.ring.push_back(entry)
            self.ring_bytes += entry.message.size
        if found_bytes:
            self.queue.correct(0, found_bytes)
        if records:
            self.paged_from = records[-1].sequence + 1
            self.paged_count -= len(records) - passed_over
        else:
            self.have_left(0)  # damage, which the log has reported

    def entry_of(self, record: Any) -> Entry:
        message = message_of(record.payload, record.flags)
        returns = self.returns.pop(record.sequence, record.flags >> 1)
        if returns:
            message = with_delivery_count(message, returns)
        entry = Entry(message, self, record.sequence, True, self.was_delivered(record.sequence, returns))
        if self.came_back is not None:
            self.came_back.discard(record.sequence)
        entry.returns = returns
        entry.expires_ms = expiry_of(message, self.ttl_of(record.sequence), record.timestamp_ms)
        return entry

    def was_delivered(self, sequence: int, returns: int) -> bool:
        """May this message, which is on disk only, have been delivered before?"""
        if returns > 0 or sequence < self.redelivered_below:
            return True
        return self.came_back is not None and sequence in self.came_back

    def head_expiry_ms(self) -> int:
        """When the message that leaves next expires; 0: never, or there is none. Moves nothing."""
        if self.ring.count:
            entry: Entry = self.ring.front()
            return entry.expires_ms
        if self.paged_count == 0:
            return 0
        if self.fetching:
            return 1  # not known yet: check again soon
        assert self.log is not None
        records = self.log.new_reader().read(self.paged_from, PEEK_BYTES)
        if not records:
            return 0
        message = message_of(records[0].payload, records[0].flags)
        return expiry_of(message, self.ttl_of(records[0].sequence), records[0].timestamp_ms)

    def forget(self, entry: Entry) -> int:
        """A message is done with: so is its record."""
        if entry.stored and self.log is not None:
            if self.held is not None:
                self.held.discard(entry.sequence)
            self.log.ack(entry.sequence)
            if not self.dirty:
                self.mark()
        return 0

    # -- the ready messages, left where they are

    def entries(self, first: int = 0) -> Iterator[Entry]:
        """Those in memory in order, from a sequence on."""
        if self.returned is None:
            return self.ring_from(first)
        return heapq.merge(self.ring_from(first), self.returned.in_order(first), key=by_sequence)

    def ring_from(self, first: int) -> Iterator[Entry]:
        ring = self.ring
        return (ring.at(index) for index in range(self.index_from(first), ring.count))

    def index_from(self, first: int) -> int:
        """Where in the ring those from a sequence on begin."""
        ring = self.ring
        low, high = 0, ring.count
        while low < high:
            middle = (low + high) // 2
            entry: Entry = ring.at(middle)
            if entry.sequence < first:
                low = middle + 1
            else:
                high = middle
        return low

    def messages(self) -> Iterator[Message]:
        for entry in self.entries():
            yield entry.message
        sequence, left = self.paged_from, self.paged_count
        while left:
            assert self.log is not None
            records = self.log.new_reader().read(sequence, READ_BYTES)
            for record in records:
                sequence = record.sequence + 1
                if not self.is_held(record.sequence):
                    yield message_of(record.payload, record.flags)
                    left -= 1
            if not records:
                return

    # -- time to live

    def set_ttl(self, ttl_ms: int) -> None:
        """From now on; messages that are here keep the time that they had, on disk as in memory."""
        if ttl_ms == self.ttl_ms:
            return
        if self.next_sequence > 1:
            first = self.log.first_sequence if self.log is not None else self.next_sequence
            self.ttl_history = [(below, ttl) for below, ttl in self.ttl_history if below > first]
            self.ttl_history.append((self.next_sequence, self.ttl_ms))
            del self.ttl_history[:-TTL_HISTORY_MAX]
        self.ttl_ms = ttl_ms

    def ttl_of(self, sequence: int) -> int:
        for below, ttl_ms in self.ttl_history:
            if sequence < below:
                return ttl_ms
        return self.ttl_ms

    def restore_ttl_history(self, history: list[list[int]]) -> None:
        self.ttl_history = [(below, ttl_ms) for below, ttl_ms in history]

    def may_expire(self) -> bool:
        """Is there a message that expires, or may there be one on disk?"""
        behind = self.paged_count > 0 or self.returned is not None
        return behind or any(entry.expires_ms for entry in self.ring)

    # -- records that the disk has lost

    def records_lost(self) -> None:
        """The log has found damage; some of the lost may have been in memory, too, or out with consumers."""
        if self.paged_count and self.log is not None:
            held = sum(1 for sequence in self.held or () if sequence >= self.paged_from)
            left = max(alive_from(self.log, self.paged_from) - held, 0)
            if left != self.paged_count:
                self.have_left(left)

    def have_left(self, count: int) -> None:
        """So many of the messages that are on disk only: limits must not count those that are lost.

        Their sizes are unknown: what is on disk is measured anew, as after a start.
        """
        queue = self.queue
        lost = self.paged_count - count
        self.paged_count = count
        queue.correct(-lost, sum(level.memory_bytes() for level in queue.levels) - queue.ready_bytes)
        for level in queue.levels:
            level.measure_anew()
        if queue.rules is not None:
            queue.rules.schedule_check(queue.turn.now_ms)

    # -- bytes of bodies

    def memory_bytes(self) -> int:
        return body_bytes_of(self.ring) + (0 if self.returned is None else self.returned.body_bytes)

    def has_unmeasured(self) -> bool:
        return self.log is not None and self.paged_count > 0 and self.paged_from < self.unmeasured_below

    def unmeasured_bytes(self) -> int:
        """An estimate: as if all were as large as the last ones."""
        if not self.has_unmeasured():
            return 0
        assert self.log is not None
        last = self.log.segments[-1]
        bytes_each = (last.size - SEGMENT_HEADER_SIZE) // max(last.count, 1) - BESIDE_BODY_BYTES
        unmeasured, all_paged = self.unmeasured_below - self.paged_from, self.next_sequence - self.paged_from
        return max(bytes_each, 0) * (self.paged_count * unmeasured // all_paged)

    def measure_anew(self) -> None:
        self.unmeasured_below = self.next_sequence if self.paged_count else 0

    def measure_pieces(self) -> Pieces:
        """Whatever happens to the level between two pieces."""
        while self.has_unmeasured():
            self.measure_last()
            yield
        self.unmeasured_below = 0

    def measure_last(self) -> None:
        """The last piece of what is not measured."""
        log, below, held = self.log, self.unmeasured_below, self.held or ()
        assert log is not None
        count = max(MEASURED_BYTES // max(log.bytes_on_disk // max(log.count, 1), 1), 1)
        first = max(self.paged_from, below - count) if below > count else self.paged_from
        body_bytes = 0
        for seen in record_previews(log, first, MEASURED_BYTES, reports_damage=True):
            if seen is not None and seen.sequence >= below:
                break
            if seen is not None and seen.sequence not in held:
                body_bytes += body_size(seen)
        if self.unmeasured_below != below:
            return  # damage was found: all is to be measured again
        self.unmeasured_below = first
        self.queue.correct(0, body_bytes)

    # -- the whole

    def keep_place(self, keeps: bool) -> None:
        """Must the log's last sequence be known after any crash?"""
        self.keeps_place = keeps

    def take_settings(self, other: Level) -> None:
        """Those of another level of the queue."""
        self.ttl_ms = other.ttl_ms
        self.keeps_place = other.keeps_place

    def recover(self, delivered_up_to: int | None) -> int:
        """Take over what the log holds; how many messages. None: which were delivered is unknown."""
        log = self.open_log()
        self.held = {held for held in self.held or () if is_alive(log, held)} or None  # by leases
        self.paged_count = log.count - len(self.held or ())
        self.paged_from = log.first_sequence
        self.unmeasured_below = log.next_sequence
        self.returns = log.recovery.notes
        self.next_sequence = max(log.next_sequence, (delivered_up_to or 0) + 1)
        self.redelivered_below = self.next_sequence if delivered_up_to is None else delivered_up_to + 1
        self.delivered_up_to = self.redelivered_below - 1
        return self.paged_count

    def clear(self) -> int:
        """Forget all that is ready; what is out with consumers keeps its record. How many went."""
        count = self.ring.count + self.paged_count
        if self.returned is not None:
            count += self.returned.count
        for entry in self.ring:
            self.forget(entry)
        if self.paged_count:
            assert self.log is not None
            if self.held is None:
                self.log.purge_from(self.paged_from)
            else:
                self.log.ack_many(set(range(self.paged_from, self.next_sequence)) - self.held)
            self.mark()
        self.empty()
        return count

    def drop(self) -> None:
        log, self.log = self.log, None
        if log is not None:
            log.drop()
        self.empty()

    def empty(self) -> None:
        """Let go of what is in memory."""
        self.ring.clear()
        self.ring_bytes = self.paged_count = 0
        self.came_back = None
        if self.returned is not None:
            self.turn.incremental_work.begin(forget_all(self, self.returned), about=self.queue)
            self.returned = None


def alive_from(log: Log, first: int) -> int:
    """Records that are not acked, from a sequence on."""
    count = 0
    for segment in log.segments:
        if segment.first >= first:
            count += segment.live.count
        elif segment.last >= first:
            count += sum(segment.live.has(sequence) for sequence in range(first, segment.last + 1))
    return count


def forget_all(level: Level, runs: SortedRuns) -> Pieces:
    """Entries that are not needed any more, in memory or on disk."""
    while runs.heap:
        for entry in runs.heap.pop()[1]:
            level.forget(entry)
        yield
