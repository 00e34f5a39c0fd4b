"""Deduplication of published messages: x-deduplication on a queue or an exchange.

A publisher writes an identity into a header. A queue that deduplicates remembers the identities of what it
took, for a time and up to a number; a message with one of these is confirmed and not stored again. Identities
are as durable as their messages (see id_journal). Those that number the messages of a batch are kept as
ranges (see id_series).

For an exchange, the queues do it: each that a message reaches through such an exchange remembers what came
from there. So a message that a crash kept from some of its queues gets to just these when it is repeated.

Dead letters are no publishes: whatever carries `x-death` passes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from embermq.broker.deduplication.journal import READ_BYTES, IdJournal, number_of
from embermq.broker.deduplication.series import PREFIX, SeriesTable, split
from embermq.broker.deduplication.table import IdTable
from embermq.broker.message.header_reader import HeaderReader
from embermq.broker.message.message import FLAGS_AT, headers_at
from embermq.broker.message.record import message_of
from embermq.broker.queue.length_limit import ACCEPTED, REFUSED
from embermq.store.disk.layout import IDENTITIES_PART
from embermq.wire.primitive import encode_shortstr

if TYPE_CHECKING:
    from embermq.broker.exchange.exchange import Exchange
    from embermq.broker.message.message import Message
    from embermq.broker.queue.features import QueueRules
    from embermq.broker.queue.level import Level
    from embermq.broker.queue.queue import Queue

DEFAULT_HEADER = "x-deduplication-id"
DEFAULT_WINDOW_MS = 3_600_000
DEFAULT_COUNT = 1_000_000
DEATH = b"\x07x-death"
LONG_STRING = ord("S")
HEADERS_AT_MIN = FLAGS_AT + 2


class Window(NamedTuple):
    """Which header is meant, and how long its values are remembered."""

    header: str
    window_ms: int
    count_max: int
    needle: bytes  # the header's name as it stands in a field table


# Two halves of a hash, the hash, its window in milliseconds; then part and number if it is of a series, whose
# name was hashed.
Identity = tuple[int, int, bytes, int, int, int]
NO_SERIES = -1
GROWTH_MAX = 4  # of what is remembered, by one message: a part and a block, for its queue and its exchange

_HALVES = struct.Struct("<QQ")


def window_from(arguments: Mapping[str, object]) -> Window | None:
    """What the arguments of a queue or an exchange ask for."""
    if arguments.get("x-deduplication") is not True:
        return None
    header = arguments.get("x-deduplication-header", DEFAULT_HEADER)
    window_ms = arguments.get("x-deduplication-window", DEFAULT_WINDOW_MS)
    count = arguments.get("x-deduplication-count", DEFAULT_COUNT)
    assert isinstance(header, str) and isinstance(window_ms, int) and isinstance(count, int)
    return Window(header, window_ms, count, encode_shortstr(header))


def identity_in(message: Message, window: Window, scope: bytes) -> Identity | None:
    """The identity of a message, hashed; None when it has none."""
    content, header_size, needle = message.content, message.header_size, window.needle
    at = content.find(needle, HEADERS_AT_MIN, header_size)
    if at < 0 or content.find(DEATH, HEADERS_AT_MIN, header_size) >= 0:
        return None
    if at == headers_at(content) + 4 and content[at + len(needle)] == LONG_STRING:
        at += len(needle) + 5
        text = content[at : at + int.from_bytes(content[at - 4 : at], "big")]
    else:  # somewhere else, or it only looks like it
        value = reader_of(window.header).read(content, header_size).get(window.header)
        if value is None:
            return None
        text = str(value).encode("utf-8", "surrogateescape")
    if text.startswith(PREFIX) and (found := split(text)) is not None:
        name, part, number = found
        return 0, 0, name_hash(name, scope), window.window_ms, part, number
    hash = blake2b(text, digest_size=16, key=scope).digest()
    first, second = _HALVES.unpack(hash)
    return first, second, hash, window.window_ms, NO_SERIES, NO_SERIES


@lru_cache(1000)
def reader_of(header: str) -> HeaderReader:
    return HeaderReader((header,))


@lru_cache(1000)
def name_hash(name: bytes, scope: bytes) -> bytes:
    """Of a series: many messages have the same."""
    return blake2b(name, digest_size=16, key=scope).digest()


def scope_of(exchange: str) -> bytes:
    """Sets apart what queues remember for an exchange."""
    return blake2b(exchange.encode("utf-8", "surrogateescape"), digest_size=16).digest()


class Deduplication:
    """What one queue remembers, for itself and for exchanges."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.turn = queue.vhost.turn
        self.own: Window | None = None
        self.exchanges: dict[str, tuple[Window, bytes]] = {}  # window and scope by name
        self.window_ms = 0
        self.count_max = 0
        self.table = IdTable()
        self.series = SeriesTable()
        self.duplicate_count = 0
        self.looked_ms = 0  # for what is too old
        storage = queue.vhost.storage
        self.journal = IdJournal(queue, storage) if queue.keeps and storage is not None else None

    def serve_queue(self, window: Window | None) -> None:
        """The queue's own arguments; None: it has none."""
        self.own = window
        self.look_at_windows()

    def serve_exchange(self, name: str, window: Window | None) -> None:
        if window is None:
            self.exchanges.pop(name, None)
        else:
            self.exchanges[name] = (window, scope_of(name))
        self.look_at_windows()

    def look_at_windows(self) -> None:
        windows = [window for window, _ in self.exchanges.values()]
        if self.own is not None:
            windows.append(self.own)
        self.window_ms = max((window.window_ms for window in windows), default=0)
        self.count_max = max((window.count_max for window in windows), default=0)

    @property
    def is_wanted(self) -> bool:
        return self.own is not None or bool(self.exchanges)

    def release(self) -> None:
        """The feature was turned off, but the queue stays."""
        self.queue.vhost.past.duplicates += self.duplicate_count
        self.drop()

    def drop(self) -> None:
        if self.journal is not None:
            self.journal.drop()

    # -- messages

    def append(self, rules: QueueRules, message: Message) -> int:
        """What the rules do with a message, unless it was here before."""
        identities = self.identities_of(message)
        if not identities:
            return rules.take(message)
        now_ms = self.turn.now_ms
        for identity in identities:
            came_ms = self.came_ms(identity)
            if came_ms >= 0 and now_ms - came_ms <= identity[3]:
                self.duplicate_count += 1
                return ACCEPTED
            # Rather than forget the beginning of a batch while its end comes in.
            if identity[4] != NO_SERIES and self.is_too_large(identity):
                return REFUSED
        level = rules.level_for(message)
        sequence = level.next_sequence
        answer = rules.take(message)
        if answer == ACCEPTED:
            if not self.has_room(now_ms):
                self.evict(now_ms, identities)
            for identity in identities:
                self.remember(identity, now_ms)
                if message.persistent and self.journal is not None:
                    self.journal.note(identity[2], now_ms, level, sequence, identity[4], identity[5])
        return answer

    def came_ms(self, identity: Identity) -> int:
        """When it came, or the last of its series; -1: it is not known."""
        first, second, name, _, part, number = identity
        if part == NO_SERIES:
            return self.table.find(first, second)
        return self.series.find(name, part, number)

    def remember(self, identity: Identity, time_ms: int) -> None:
        first, second, name, _, part, number = identity
        if part == NO_SERIES:
            self.table.add(first, second, time_ms)
        else:
            self.series.add(name, part, number, time_ms)

    def is_too_large(self, identity: Identity) -> bool:
        """Is it of a series that all that may be remembered does not suffice for?"""
        _, _, name, _, part, number = identity
        if self.series.size + GROWTH_MAX <= self.count_max:
            return False
        growth = self.series.growth(name, part, number)
        return growth > 0 and self.series.size_of(name) + growth > self.count_max

    def identities_of(self, message: Message) -> list[Identity]:
        """One for the queue, one for the exchange, as far as they ask and the message has them."""
        found = []
        if self.own is not None:
            identity = identity_in(message, self.own, b"")
            if identity is not None:
                found.append(identity)
        if self.exchanges and message.exchange in self.exchanges:
            identity = identity_in(message, *self.exchanges[message.exchange])
            if identity is not None:
                found.append(identity)
        return found

    def has_room(self, now_ms: int) -> bool:
        """Is there nothing to forget, with whatever one message brings?"""
        table, series, since_ms = self.table, self.series, now_ms - self.window_ms
        if table.count + series.size + GROWTH_MAX > self.count_max:
            return False
        if now_ms == self.looked_ms:
            return True  # the clock stands still for a turn
        self.looked_ms = now_ms
        if table.count and table.oldest_ms() < since_ms:
            return False
        return not series.size or series.oldest_ms() >= since_ms

    def evict(self, now_ms: int, more: Iterable[Identity] = ()) -> None:
        """Forget what is too old, or too much with these."""
        table, series = self.table, self.series
        before = table.count + series.size
        while table.count and table.oldest_ms() + self.window_ms < now_ms:
            table.drop_oldest()
        while series.size and series.oldest_ms() + self.window_ms < now_ms:
            series.drop_oldest()
        room = self.count_max
        for _, _, name, _, part, number in more:
            room -= 1 if part == NO_SERIES else self.series.growth(name, part, number)
            if part != NO_SERIES:
                series.touch(name, now_ms)  # what is added to is not what goes
        while table.count + series.size > max(room, 0):
            if table.count and (not series.size or table.oldest_ms() <= series.oldest_ms()):
                table.drop_oldest()
            else:
                series.drop_oldest()
        if self.journal is not None and table.count + series.size < before:
            self.journal.forget_before(lambda: self.oldest_ms(now_ms))

    def oldest_ms(self, now_ms: int) -> int:
        """Since when what is remembered has come."""
        return min(
            self.table.oldest_ms() if self.table.count else now_ms,
            self.series.first_ms() if self.series.size else now_ms,
        )

    @property
    def count(self) -> int:
        """How many identities are known."""
        self.evict(self.turn.now_ms)
        return self.table.count + self.series.count

    # -- across restarts

    def recover(self) -> None:
        """Behind the recovery of the levels: believe what their logs bear out."""
        journal = self.journal
        if journal is None:
            return
        levels = {number_of(self.queue, level): level for level in self.queue.levels}
        for number, sequence in journal.load(self.table, self.series, self.count_max, levels).items():
            if number in levels:
                self.ask_messages(levels[number], sequence + 1, journal)
        journal.declare_all()

    def ask_messages(self, level: Level, sequence: int, journal: IdJournal) -> None:
        """The journal may lack those from a sequence on: they carry their identities themselves."""
        if level.log is None:
            return
        reader = level.log.new_reader()
        while records := reader.read(sequence, READ_BYTES):
            for record in records:
                for identity in self.identities_of(message_of(record.payload, record.flags)):
                    if self.came_ms(identity) >= 0:
                        continue
                    self.remember(identity, record.timestamp_ms)
                    journal.note(
                        identity[2], record.timestamp_ms, level, record.sequence, identity[4], identity[5]
                    )
            sequence = records[-1].sequence + 1


def serve_exchange(queue: Queue, exchange: Exchange) -> None:
    """The queue gets messages of an exchange that deduplicates."""
    if queue.effective.get("x-queue-type") == "stream":
        return
    queue.expects_expiry(0)  # has its rules from here on
    rules = queue.rules
    assert rules is not None
    if rules.deduplication is None:
        rules.deduplication = Deduplication(queue)
    if exchange.name not in rules.deduplication.exchanges:
        rules.deduplication.serve_exchange(exchange.name, exchange.deduplication)


def stop_serving(exchange: Exchange) -> None:
    """The exchange is gone, or wants something else: its queues will hear when they get messages."""
    for queue in exchange.vhost.queues.values():
        present = queue.rules.deduplication if queue.rules is not None else None
        if queue.rules is not None and present is not None and exchange.name in present.exchanges:
            present.serve_exchange(exchange.name, None)
            if exchange.deduplication is None and not present.is_wanted:
                present.release()
                queue.rules.deduplication = None


def recall_exchanges(queue: Queue) -> None:
    """Before recovery: what a queue remembers for exchanges, whether it is bound to them today or was once; a
    power cut may have kept messages and no journal."""
    storage = queue.vhost.storage
    wanting = [exchange for exchange in queue.vhost.exchanges.values() if exchange.deduplication is not None]
    if not wanting or storage is None or not queue.keeps:
        return
    has_journal = storage.has_log(queue.id + IDENTITIES_PART)
    for exchange in wanting:
        if has_journal or leads_to(exchange, queue):
            serve_exchange(queue, exchange)


def leads_to(exchange: Exchange, queue: Queue) -> bool:
    """Is there any way along bindings, whatever their keys?"""
    exchanges = [exchange]
    for passed in exchanges:  # grows while we walk
        for binding in passed.bindings.values():
            if binding.destination is queue:
                return True
            onward: Any = binding.destination
            if binding.destination_kind == "exchange" and onward not in exchanges:
                exchanges.append(onward)
        alternate = passed.vhost.exchanges.get(passed.alternate) if passed.alternate else None
        if alternate is not None and alternate not in exchanges:
            exchanges.append(alternate)
    return False


def deduplication_for(queue: Queue, present: Deduplication | None) -> Deduplication | None:
    """What a queue needs now, by what holds for it; `present` is what it has."""
    window = window_from(queue.effective)
    if present is None:
        if window is None:
            return None
        present = Deduplication(queue)
    present.serve_queue(window)
    if present.is_wanted:
        return present
    present.release()
    return None
