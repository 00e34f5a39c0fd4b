"""Selecting consumers of a queue: which of the ready messages fit which selector, and who gets the next one.

    level     1 2 3 4 5 6 7 8 9 ...                         every ready message, in memory or on disk
    group A       3   5                      | cursor       those that fit A, found up to the cursor
    group B   1       5     8   | cursor                    a group has the consumers with one selector

Each message is looked at once, in order, from where it stands: as it comes in, or in pieces where many wait.
Of those that fit, a group remembers the sequences, a bounded number; then its cursor rests until some have
left. So a delivery costs the same however many messages it passes by, and none of them is kept in memory.

Consumers without a selector are a group that everything fits: its next message is the head of the queue.
A message goes to one of the groups that it fits; messages are offered in the order of the queue. Between the
groups that a message fits, and within a group, consumers take turns, those of a higher `x-priority` first.

What is remembered may have left by another way (basic.get, expiry, a lease): that shows when it is its turn.
What comes back is looked at again (`came_back`, `rewind`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from embermq.broker.message.record import content_at, header_size_at, message_of, names_at
from embermq.broker.message.rewrite import with_delivery_count
from embermq.broker.queue.consumer import NO_CONNECTION, Consumer
from embermq.broker.queue.level import Entry, Level
from embermq.broker.queue.runs import ENDLESS
from embermq.broker.selector.selector_set import SelectorSet
from embermq.store.log.reader import Reader
from embermq.store.log.record import RECORD_HEADER_SIZE, Header, Record
from embermq.store.log.retention import is_alive
from embermq.store.log.segment import Segment

if TYPE_CHECKING:
    from embermq.broker.incremental_work import Pieces
    from embermq.broker.message.message import Message
    from embermq.broker.queue.classic import ClassicQueue
    from embermq.broker.selector.selector import Selector
    from embermq.store.log.log import Log

DRAIN_BYTES_MAX = 512 * 1024  # what one queue may hand out in one turn
MATCHES_MAX = 4096  # sequences that a group remembers of a level
PIECE_COUNT = 256  # messages looked at in one go
PIECE_BYTES = 64 * 1024  # of the log, in one go
RECORD_BYTES_MIN = 4 * 1024  # read of the log for one delivery ...
RECORD_BYTES_MAX = 256 * 1024  # ... and where the next ones are close by
RECORD_HEADER_BYTES = RECORD_HEADER_SIZE  # the same as a C number
IDLE_MAX = 32  # groups without consumers that are remembered


class Matches:
    """What a group has found in one level."""

    __slots__ = ("cursor", "found", "is_full")

    def __init__(self) -> None:
        self.cursor = 0  # the next sequence to be looked at
        self.found: deque[int] = deque()  # in order, all of them before the cursor
        self.is_full = False  # the cursor rests

    def add(self, sequence: int) -> None:
        """The message at the cursor, or behind it, fits."""
        if len(self.found) < MATCHES_MAX:
            self.found.append(sequence)
        else:
            self.cursor = sequence
            self.is_full = True

    def insert(self, sequences: list[int]) -> None:
        """Messages before the cursor have come back, and fit."""
        found = sorted({*self.found, *sequences})
        if len(found) > MATCHES_MAX:
            self.cursor = found[MATCHES_MAX]
            self.is_full = True
            del found[MATCHES_MAX:]
        self.found = deque(found)

    def rewind(self, first: int) -> None:
        """Look at everything from this sequence on again."""
        if first < self.cursor:
            self.cursor = first
            while self.found and self.found[-1] >= first:
                self.found.pop()
            self.is_full = False

    def leave_head(self) -> bool:
        """True: the cursor, which has rested, goes on."""
        self.found.popleft()
        if self.is_full and len(self.found) <= MATCHES_MAX // 2:
            self.is_full = False
            return True
        return False


class Group:
    """The consumers of a queue with the same selector, in the order in which they get messages."""

    __slots__ = ("consumers", "key", "matches", "no_local_of", "number", "selector")

    def __init__(self, number: int, key: object, selector: Selector | None, no_local_of: int) -> None:
        self.number = number
        self.key = key
        self.selector = selector
        self.no_local_of = no_local_of
        self.consumers: list[Consumer] = []
        self.matches: dict[Level, Matches] = {}

    def in_level(self, level: Level) -> Matches:
        found = self.matches.get(level)
        if found is None:
            found = self.matches[level] = Matches()
        return found

    def fits_publisher(self, publisher: int) -> bool:
        return self.no_local_of == NO_CONNECTION or self.no_local_of != publisher

    def able(self, size: int, single: Consumer | None) -> Consumer | None:
        """The first consumer that can take a message of this size; `single`: it is only about this one."""
        for consumer in self.consumers:
            if (single is None or consumer is single) and consumer.can_take(size):
                return consumer
        return None

    def join(self, consumer: Consumer) -> None:
        """Behind all others of its priority."""
        place = len(self.consumers)
        while place and self.consumers[place - 1].priority < consumer.priority:
            place -= 1
        self.consumers.insert(place, consumer)


class LogAccess:
    """What is read of one level's log: blocks to look at messages, records to deliver them."""

    __slots__ = ("fetching", "log", "reader", "record_bytes", "record_reader", "records", "selection")

    def __init__(self, selection: Selection, log: Log) -> None:
        self.selection = selection
        self.log = log
        self.reader = Reader(log)
        self.record_reader = Reader(log)
        self.record_bytes = RECORD_BYTES_MIN
        self.records: dict[int, Record] = {}  # read, and not yet asked for
        self.fetching = False  # something is on its way from the disk

    def is_at_hand(self, reader: Reader, sequence: int, size: int) -> bool:
        """Can it be read without waiting for the disk? If not, the queue is marked when it can."""
        if not self.fetching:
            self.fetching = not reader.at_hand(sequence, size, self.fetched)
        return not self.fetching

    def fetched(self) -> None:
        self.fetching = False
        self.selection.queue.mark()

    def has_record(self, sequence: int) -> bool:
        """Is the record at hand, or gone?"""
        if sequence in self.records or not is_alive(self.log, sequence):
            return True
        return self.is_at_hand(self.record_reader, sequence, self.record_bytes)

    def take_record(self, sequence: int) -> Record | None:
        """None: it is gone."""
        if not is_alive(self.log, sequence):
            return None
        record = self.records.pop(sequence, None)
        if record is not None:
            self.record_bytes = min(self.record_bytes * 2, RECORD_BYTES_MAX)
            return record
        if self.records:  # the next one is farther away than what was read
            self.record_bytes = max(self.record_bytes // 4, RECORD_BYTES_MIN)
        records = self.record_reader.read(sequence, self.record_bytes)
        self.records = {record.sequence: record for record in records}
        return self.records.pop(sequence, None)


class Selection:
    """The groups of one queue."""

    def __init__(self, queue: ClassicQueue) -> None:
        self.queue = queue
        self.groups: dict[object, Group] = {}  # those with consumers
        self.idle: dict[object, Group] = {}  # those without, the one that lost its last longest ago first
        self.selectors = SelectorSet()
        self.unselecting: list[Group] = []  # no-local consumers without a selector
        self.everything: Group | None = None
        self.number = 0  # of groups so far
        self.served: dict[Consumer, int] = {}  # when each consumer had its last turn
        self.turns = 0
        self.logs: dict[Level, LogAccess] = {}
        self.unseen: dict[Level, int] = {}  # the first sequence that a group wants to look at, if known
        self.scanning = False  # in pieces
        for consumer in queue.consumers:
            self.add(consumer)

    # -- consumers

    def add(self, consumer: Consumer) -> None:
        selector, no_local_of = consumer.selector, consumer.no_local_of
        key = (None if selector is None else selector.text, no_local_of)
        group = self.groups.get(key)
        if group is None:
            group = self.idle.pop(key) if key in self.idle else self.new_group(key, selector, no_local_of)
            self.groups[key] = group
            self.unseen.clear()
            if selector is not None:
                self.selectors.add(selector, group)
            elif no_local_of != NO_CONNECTION:
                self.unselecting.append(group)
            else:
                self.everything = group
        group.join(consumer)
        self.served[consumer] = self.turns

    def new_group(self, key: object, selector: Selector | None, no_local_of: int) -> Group:
        self.number += 1
        return Group(self.number, key, selector, no_local_of)

    def remove(self, consumer: Consumer) -> None:
        if self.served.pop(consumer, None) is None:
            return
        selector = consumer.selector
        group = self.groups[(None if selector is None else selector.text, consumer.no_local_of)]
        group.consumers.remove(consumer)
        if group.consumers:
            return
        del self.groups[group.key]
        if group is self.everything:
            self.everything = None
            return
        if selector is not None:
            self.selectors.remove(group)
        else:
            self.unselecting.remove(group)
        self.idle[group.key] = group
        if len(self.idle) > IDLE_MAX:
            del self.idle[next(iter(self.idle))]

    @property
    def is_used(self) -> bool:
        """Has the queue consumers with a selector now?"""
        return bool(self.selectors.members)

    def is_pressed(self, half: bool) -> bool:
        """Have messages piled up for a group?"""
        most = MATCHES_MAX // 2 if half else MATCHES_MAX
        return any(
            len(matches.found) >= most for group in self.groups.values() for matches in group.matches.values()
        )

    # -- looking at messages

    def look_in_pieces(self) -> Pieces:
        try:
            while not self.queue.deleted and self.look_on():
                self.queue.mark()
                yield
        finally:
            self.scanning = False
            self.queue.mark()

    def look_on(self) -> bool:
        """Look at some messages; False: no more can be looked at now."""
        for level in self.queue.levels:
            first = self.first_unseen(level)
            if first < level.next_sequence:
                access = self.logs.get(level)
                if access is not None and access.fetching:
                    return False
                reached = self.look_from(level, first)
                if reached > first:
                    self.all_seen(level, reached)
                    return True
                return False
        return False

    def first_unseen(self, level: Level) -> int:
        """The first sequence that a group wants to look at."""
        first = self.unseen.get(level, -1)
        if first < 0:
            first = ENDLESS
            for group in self.groups.values():
                matches = group.in_level(level)
                if matches.cursor < first and not matches.is_full and group is not self.everything:
                    first = matches.cursor
            self.unseen[level] = first
        return first

    def all_seen(self, level: Level, reached: int) -> None:
        self.unseen.clear()
        for group in self.groups.values():
            matches = group.in_level(level)
            if matches.cursor < reached and not matches.is_full:
                matches.cursor = reached

    def look_from(self, level: Level, first: int) -> int:
        """Look at the next messages from this sequence on; up to where. `first` itself: it has to wait."""
        ring = level.ring
        if ring.count == 0 and level.paged_count == 0:
            return level.next_sequence
        if ring.count and first <= ring.at(ring.count - 1).sequence:
            return self.look_in_memory(level, first)
        if level.returned is not None and first <= level.returned.last:
            return self.look_in_memory(level, first)
        if level.paged_count == 0:
            return level.next_sequence
        return self.look_in_log(level, max(first, level.paged_from))

    def look_in_memory(self, level: Level, first: int) -> int:
        if level.returned is None:
            ring, index = level.ring, level.index_from(first)
            stop = min(index + PIECE_COUNT, ring.count)
            entries = [ring.at(place) for place in range(index, stop)]
        else:
            entries = list(islice(level.entries(first), PIECE_COUNT))
        for entry in entries:
            self.look_at(level, entry)
        if len(entries) == PIECE_COUNT:
            last: Entry = entries[-1]
            return last.sequence + 1
        end: int = level.paged_from if level.paged_count else level.next_sequence
        return end if end > first else self.look_in_log(level, first)

    def look_at(self, level: Level, entry: Entry) -> None:
        message = entry.message
        fitting = self.selectors.fitting(message, entry.redelivered)
        if fitting or self.unselecting:
            self.note(level, entry.sequence, fitting, message.publisher)

    def note(self, level: Level, sequence: int, fitting: list[Any], publisher: int) -> None:
        """Those groups that have not seen this message remember it."""
        for group in (*fitting, *self.unselecting):
            matches = group.in_level(level)
            if sequence >= matches.cursor and not matches.is_full and group.fits_publisher(publisher):
                matches.add(sequence)

    def look_in_log(self, level: Level, first: int) -> int:
        access = self.access(level)
        if not access.is_at_hand(access.reader, first, PIECE_BYTES):
            return 0
        while (found := access.reader.raw_block(first, PIECE_BYTES)) is not None:
            segment, data = found
            reached, size = self.look_in_block(level, segment, data, first)
            access.reader.read_on(size, reached)
            if reached > first:
                return reached
            if size == 0:
                break
        else:
            return level.next_sequence
        records = access.reader.read(first, PIECE_BYTES)  # a large one, or damage
        for record in records:
            if not level.is_held(record.sequence):
                self.look_at_record(level, record.sequence, record.flags, record.payload)
        return records[-1].sequence + 1 if records else level.next_sequence

    def look_in_block(self, level: Level, segment: Segment, data: bytes, first: int) -> tuple[int, int]:
        """Up to which sequence the block goes, and how many of its bytes that is."""
        header, live, held, selectors = Header(), segment.live, level.held, self.selectors
        fields = selectors.fields
        seed, low, high = segment.seed, segment.first, segment.last + 1
        asks_all = bool(self.unselecting)
        at, reached = 0, first
        while True:
            stop = header.load(data, at, seed, low, high)
            if stop == 0:
                return reached, at
            sequence = header.sequence
            payload_at = at + RECORD_HEADER_BYTES
            at = stop
            if sequence < first:
                continue
            reached = sequence + 1
            if not live.has(sequence) or (held is not None and sequence in held):
                continue
            returns = level.returns.get(sequence, header.flags >> 1) if level.returns else header.flags >> 1
            if returns:
                self.look_at_record(level, sequence, header.flags, data[payload_at:stop])
                continue
            header_size, header_at = header_size_at(data, payload_at), content_at(data, payload_at)
            values = fields.read(
                data,
                names_at(payload_at),
                data,
                header_at,
                header_size,
                stop - header_at - header_size,
                level.was_delivered(sequence, 0),
            )
            fitting = selectors.fitting_values(values)
            if fitting or asks_all:
                self.note(level, sequence, fitting, 0)

    def look_at_record(self, level: Level, sequence: int, flags: int, payload: bytes) -> None:
        """As it would be delivered."""
        message = message_of(payload, flags)
        returns = level.returns.get(sequence, flags >> 1)
        if returns:
            message = with_delivery_count(message, returns)
        fitting = self.selectors.fitting(message, level.was_delivered(sequence, returns))
        self.note(level, sequence, fitting, message.publisher)

    def access(self, level: Level) -> LogAccess:
        log = level.log
        assert log is not None
        access = self.logs.get(level)
        if access is None or access.log is not log:
            access = self.logs[level] = LogAccess(self, log)
        return access

    # -- messages that come back, and the whole queue

    def came_back(self, entries: Iterable[Entry]) -> None:
        back: dict[Matches, list[int]] = {}
        for entry in entries:
            level, sequence, message = entry.level, entry.sequence, entry.message
            for group in self.idle.values():
                group.in_level(level).rewind(sequence)
            for group in (*self.selectors.fitting(message, entry.redelivered), *self.unselecting):
                matches = group.in_level(level)
                if sequence < matches.cursor and group.fits_publisher(message.publisher):
                    back.setdefault(matches, []).append(sequence)
        for matches, sequences in back.items():
            matches.insert(sequences)
        self.unseen.clear()

    def rewind(self, level: Level, first: int) -> None:
        """Messages of the level from this sequence on have come back: too many, or not in memory."""
        for group in (*self.groups.values(), *self.idle.values()):
            group.in_level(level).rewind(first)
        self.unseen.clear()

    def purged(self) -> None:
        self.unseen.clear()
        for group in (*self.groups.values(), *self.idle.values()):
            for level in self.queue.levels:
                matches = group.in_level(level)
                matches.rewind(0)
                matches.cursor = level.next_sequence

    # -- delivering

    def drain(self) -> bool:
        """What `Queue.drain` does, for a queue with selecting consumers."""
        self.look_at_new()
        queue = self.queue
        budget = DRAIN_BYTES_MAX
        overhead = queue.turn.fairness.delivery_bytes
        single = self.single()
        heads: list[tuple[int, int, int, Group]] = []
        for group in self.groups.values():
            self.offer(heads, group, single)
        while heads and budget > 0:
            place, sequence, _, _ = heads[0]
            groups: list[Group] = []
            while heads and heads[0][0] == place and heads[0][1] == sequence:
                groups.append(heapq.heappop(heads)[3])
            level = queue.levels[place]
            if not self.is_at_hand(level, sequence):
                continue  # the others' may be
            entry = self.take(level, sequence)
            for group in groups:
                if group is not self.everything and group.in_level(level).leave_head():
                    self.unseen.clear()
            if entry is not None:
                budget -= self.hand_over(entry, groups, single, overhead)
            for group in groups:
                self.offer(heads, group, single)
        self.look_at_new()
        return bool(heads) and budget <= 0

    def look_at_new(self) -> None:
        """As a rule these are a few; many are looked at in pieces."""
        if not self.scanning and self.look_on() and self.look_on():
            self.scanning = True
            self.queue.turn.incremental_work.begin(self.look_in_pieces(), about=self)

    def single(self) -> Consumer | None:
        """The single active consumer, where there is one."""
        rules = self.queue.rules
        return rules.active if rules is not None and rules.single_active else None

    def offer(self, heads: list[tuple[int, int, int, Group]], group: Group, single: Consumer | None) -> None:
        """Let the group have its next message, if a consumer of it can take one."""
        if group.able(0, single) is None:
            return
        for place, level in enumerate(self.queue.levels):
            sequence = self.head(group, level)
            if sequence:
                heapq.heappush(heads, (place, sequence, group.number, group))
            if sequence is not None:
                return

    def head(self, group: Group, level: Level) -> int | None:
        """The group's next message in this level; None: there is none, 0: that is not known yet."""
        if group is self.everything:
            front = level.front_at_hand()
            if front is not None:
                return front.sequence
            return 0 if level.fetching else None
        matches = group.in_level(level)
        if matches.found:
            return matches.found[0]
        if matches.cursor < level.next_sequence and (level.ring.count or level.paged_count):
            return 0
        return None

    def is_at_hand(self, level: Level, sequence: int) -> bool:
        """Is the message in memory, or gone, or at least read without waiting for the disk?"""
        if not level.is_on_disk_only(sequence):
            return True
        return self.access(level).has_record(sequence)

    def take(self, level: Level, sequence: int) -> Entry | None:
        """Take the message out of the queue; None: it is gone already."""
        entry = level.take_at(sequence)
        if entry is not None:
            self.queue.correct(-1, entry.message.header_size - entry.message.size)
            return entry
        if not level.is_on_disk_only(sequence):
            return None
        record = self.access(level).take_record(sequence)
        if record is None:
            return None
        entry = level.take_from_log(record)
        is_measured = sequence >= level.unmeasured_below
        self.queue.correct(-1, entry.message.header_size - entry.message.size if is_measured else 0)
        return entry

    def hand_over(self, entry: Entry, groups: list[Group], single: Consumer | None, overhead: int) -> int:
        """What it costs the turn."""
        queue, message = self.queue, entry.message
        if entry.expires_ms and entry.expires_ms <= queue.turn.now_ms:
            queue.expire(entry)
            return 16 * overhead  # it may become a dead letter
        taker = self.next_taker(groups, message, single)
        if taker is None:  # it is too large for those that could take one
            queue.put_back([entry])
            groups.clear()
            return overhead
        if queue.vhost.trace is not None:
            queue.vhost.trace.delivered(queue, entry, getattr(taker, "channel", None))
        queue.hand_over(entry, taker)
        return message.size + overhead

    def next_taker(self, groups: list[Group], message: Message, single: Consumer | None) -> Consumer | None:
        best: Consumer | None = None
        chosen: Group | None = None
        for group in groups:
            able = group.able(message.size, single)
            if able is None:
                continue
            if best is None or (-able.priority, self.served[able]) < (-best.priority, self.served[best]):
                best, chosen = able, group
        if best is not None and chosen is not None:
            self.turns += 1
            self.served[best] = self.turns
            chosen.consumers.remove(best)
            chosen.join(best)
        return best
