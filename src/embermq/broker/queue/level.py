"""One priority level of a queue: the head in memory, the rest in a log.

    ring (entries in memory, a bounded window)  |  paged_from .. next_sequence (only in the log)
    <- leaves here                                                                    arrives here ->

Persistent messages of a durable queue are in the log whether or not they are in the ring. A level whose ring
is full pages: from then on every message, transient ones too, goes to the log only, and the ring is filled
again from there, in order, as it empties. So depth costs no memory, and order does not depend on persistence.
Records without the persistent flag are forgotten when the log is opened again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embermq.broker.definitions import queue_label
from embermq.broker.interfaces import Logged
from embermq.broker.message.message import NO_TTL, Message, expiry_of
from embermq.broker.message.record import META, message_of
from embermq.broker.message.rewrite import with_delivery_count
from embermq.broker.queue.loss import have_left, recount
from embermq.broker.queue.requeue import Runs, bring, by_sequence, forget_all
from embermq.broker.queue.ring import Ring
from embermq.broker.turn import Turn
from embermq.store.log.log import Log
from embermq.store.log.retention import is_alive

if TYPE_CHECKING:
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
        "unread",
        "unweighed_below",
    )

    def __init__(self, queue: Queue, turn: Turn, durable: bool, storage: Storage | None, log_id: str) -> None:
        super().__init__(log_id)  # its log is opened by the first message that needs it
        self.queue = queue
        self.turn = turn
        self.durable = durable
        self.storage = storage
        self.held: set[int] | None = None  # behind `paged_from`, but taken out (see withdrawal)
        self.keeps_place = False  # the log's last sequence must be known after any crash
        self.ring = Ring()
        self.ring_bytes = 0
        self.returned: Runs | None = None  # many that came back, and wait beside the ring
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
        self.unweighed_below = 0  # the sizes of recovered messages are known once they are read
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
            self.meta = META.pack(message.header_size, message.priority)
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

    def label(self) -> bytes:
        return queue_label(self.queue)

    def mark(self) -> int:
        """The log has something to write at the end of the turn."""
        if not self.dirty:
            self.dirty = True
            self.turn.add_log(self)
        return 0

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
        """`front`, but nobody waits: None, too, while the entry is on its way from the disk (`fetching`)."""
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
            bring(self)
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
            if record.sequence < self.unweighed_below:
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
            have_left(self, 0)  # damage, which the log has reported

    def entry_of(self, record: Any) -> Entry:
        message = message_of(record.payload, record.flags)
        returns = self.returns.pop(record.sequence, record.flags >> 1)  # see return_counts
        if returns:
            message = with_delivery_count(message, returns)
        redelivered = returns > 0 or record.sequence < self.redelivered_below
        entry = Entry(message, self, record.sequence, True, redelivered)
        entry.returns = returns
        entry.expires_ms = expiry_of(message, self.ttl_of(record.sequence), record.timestamp_ms)
        return entry

    def records_lost(self) -> None:
        """Somebody has found damage in the log."""
        recount(self)

    def head_expiry_ms(self) -> int:
        """When the message that leaves next expires; 0: never, or there is none. Moves nothing."""
        if self.ring.count:
            entry: Entry = self.ring.front()
            return entry.expires_ms
        if self.paged_count == 0:
            return 0
        if self.fetching:
            return 1  # nobody knows yet: look again soon
        assert self.log is not None
        records = self.log.new_reader().read(self.paged_from, PEEK_BYTES)
        if not records:
            return 0
        message = message_of(records[0].payload, records[0].flags)
        return expiry_of(message, self.ttl_of(records[0].sequence), records[0].timestamp_ms)

    # -- what messages here live

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

    def may_expire(self) -> bool:
        """Is there a message that expires, or may there be one on disk?"""
        behind = self.paged_count > 0 or self.returned is not None
        return behind or any(entry.expires_ms for entry in self.ring)

    def forget(self, entry: Entry) -> int:
        """A message is done with: so is its record."""
        if entry.stored and self.log is not None:
            self.log.ack(entry.sequence)
            if not self.dirty:
                self.mark()
        return 0

    # -- the whole

    def recover(self, delivered_up_to: int | None) -> int:
        """Take over what the log holds; how many messages. None: nobody knows which were delivered."""
        log = self.open_log()
        self.held = {held for held in self.held or () if is_alive(log, held)} or None  # by leases
        self.paged_count = log.count - len(self.held or ())
        self.paged_from = log.first_sequence
        self.unweighed_below = log.next_sequence
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
        if self.returned is not None:
            self.turn.incremental_work.begin(forget_all(self, self.returned), about=self.queue)
            self.returned = None
