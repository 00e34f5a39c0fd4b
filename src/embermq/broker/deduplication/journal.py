"""Journal of the identities that a queue has taken: a log `<queue id>.ids` beside its messages.

Each record is for one message and is written in the same group commit:

    0  16  hash of the identity
   16   8  sequence of the message in the log of its level, little-endian; 0: it is in none
   24   2  number of the level: 0 the lower or only one, 1-255 that of a priority, 65535 the higher one
   26   8  of an identity in a series, whose name was hashed (see id_series): its part
   34   8  and its number

A record with a hash of zeros says that everything of a level up to a sequence is safe. It is written when
that is so, and only after it is safe itself do the logs of the levels let go of files: until then they keep
even those in which all is acked.

A power cut may keep any of these records without the others. So a start believes an identity if its message
is declared safe, is there, or is acked; it takes back (acks) the others, whose sequences will be used again;
and it asks the messages not declared safe for their identities themselves. Then it declares what is left.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from embermq.broker.interfaces import Logged
from embermq.store.disk.layout import IDENTITIES_PART

if TYPE_CHECKING:
    from embermq.broker.deduplication.series import SeriesTable
    from embermq.broker.deduplication.table import IdTable
    from embermq.broker.queue.level import Level
    from embermq.broker.queue.queue import Queue
    from embermq.broker.storage import Storage
    from embermq.store.log.log import Log
    from embermq.store.log.record import Record

PERSISTENT = 1
HIGHER = 65535
READ_BYTES = 1024 * 1024
SAFE = bytes(16)  # in place of a hash
EVERYTHING = (1 << 64) - 1

_RECORD = struct.Struct("<16sQH")
_RECORD_IN_HALVES = struct.Struct("<QQQH")
_RECORD_IN_SERIES = struct.Struct("<16sQHQQ")


def number_of(queue: Queue, level: Level) -> int:
    suffix = level.log_id[len(queue.id) :]
    if not suffix:
        return 0
    return int(suffix[2:]) if suffix.startswith(".p") else HIGHER


def is_known(log: Log, acked_firsts: list[int], sequence: int) -> bool:
    """Is the message with that sequence here, or acked? `acked_firsts`: where the acked ranges begin."""
    if sequence == 0:
        return True
    segment = log.segment_from(sequence)
    if segment is not None and segment.first <= sequence and segment.live.has(sequence):
        return True
    place = bisect_right(acked_firsts, sequence) - 1
    if place < 0:
        return False
    first, count = log.recovery.acked[place]
    return sequence < first + count


class IdJournal(Logged):
    def __init__(self, queue: Queue, storage: Storage) -> None:
        super().__init__(queue.id + IDENTITIES_PART)
        self.queue = queue
        self.turn = queue.vhost.turn
        self.storage = storage
        self.dropped = False
        self.declaring = False
        self.declared_in: object = None  # the file of the log in which that was done last
        self.looked_in: object = None  # and the one in which it was asked what can be forgotten
        self.level_numbers: dict[Level, int] = {}
        for level in queue.levels:
            level.keep_place(True)
            if level.log is not None:
                level.log.removable_below = 0

    def opened(self) -> Log:
        if self.log is None:
            self.log = self.storage.open_log(self.log_id)
        return self.log

    def note(
        self, hash: bytes, time_ms: int, level: Level, sequence: int, part: int = -1, number: int = -1
    ) -> None:
        log = self.opened()
        level_number = self.level_numbers.get(level)
        if level_number is None:
            level_number = self.level_numbers[level] = number_of(self.queue, level)
        if part < 0:
            payload = _RECORD.pack(hash, sequence, level_number)
        else:
            payload = _RECORD_IN_SERIES.pack(hash, sequence, level_number, part, number)
        log.append(max(log.next_sequence, 1), time_ms, PERSISTENT, (payload,))
        if not self.dirty:
            self.dirty = True
            self.turn.add_log(self)
            if not self.declaring and (log.active is not self.declared_in or self.has_finished()):
                self.declaring, self.declared_in = True, log.active
                self.turn.after_write(self.declare_when_safe)

    def has_finished(self) -> bool:
        """Would the logs of the levels like to let go of files?"""
        return any(level.log is not None and level.log.finished for level in self.queue.levels)

    def declare_when_safe(self) -> None:
        logs = [(level, level.log) for level in self.queue.levels if level.log is not None]
        reached = [(level, log, log.next_sequence - 1) for level, log in logs if log.next_sequence]

        def let_go() -> None:
            self.declaring = False
            for _, log, sequence in reached:
                if not self.dropped:
                    log.removable_below = max(log.removable_below, sequence)

        def declare() -> None:
            if self.queue.deleted or self.dropped:
                return
            for level, _, sequence in reached:
                self.note(SAFE, self.turn.now_ms, level, sequence)
            self.turn.after_safe(let_go)

        self.storage.when_safe(declare)

    def forget_before(self, oldest_ms: Callable[[], int]) -> None:
        """Whole files of identities that are older go; asked once for each file: it may take a while."""
        log = self.log
        if log is None or log.active is self.looked_in or len(log.segments) < 2:
            return
        self.looked_in, time_ms = log.active, oldest_ms()
        while len(log.segments) > 1 and log.segments[0].time_max < time_ms:
            log.remove(log.segments[0])

    def drop(self) -> None:
        """Nothing is to be remembered any more."""
        self.dropped = True
        for level in self.queue.levels:
            level.keep_place(False)
            if level.log is not None:
                level.log.removable_below = EVERYTHING
        if self.log is None and self.storage.has_log(self.log_id):
            self.opened()
        if self.log is not None:
            self.log.drop()
            self.log = None

    # -- at start

    def load(
        self, table: IdTable, series: SeriesTable, count_max: int, levels: Mapping[int, Level]
    ) -> dict[int, int]:
        """Believe what can be believed, into the tables; up to where each level is declared safe."""
        log, safe = self.opened(), dict.fromkeys(levels, 0)
        logs = {number: level.log for number, level in levels.items() if level.log is not None}
        firsts = {number: [first for first, _ in log.recovery.acked] for number, log in logs.items()}
        doubtful: list[tuple[int, int, Record]] = []  # level, sequence of the message, record

        def believe(record: Record) -> None:
            payload = record.payload
            if len(payload) == _RECORD.size:
                first, second, _, _ = _RECORD_IN_HALVES.unpack(payload)
                table.add(first, second, record.timestamp_ms)
            else:
                name, _, _, part, number = _RECORD_IN_SERIES.unpack(payload)
                series.add(name, part, number, record.timestamp_ms)

        reader, at = log.new_reader(), log.first_sequence
        while records := reader.read(at, READ_BYTES):
            for record in records:
                first, second, sequence, number = _RECORD_IN_HALVES.unpack_from(record.payload)
                if first == second == 0:
                    safe[number] = max(safe.get(number, 0), sequence)
                    for of_level, known, kept in doubtful:
                        if known <= safe[number] and of_level == number:
                            believe(kept)
                    doubtful = [known for known in doubtful if known[1] > safe[known[0]]]
                elif sequence <= safe.get(number, 0) or (
                    number in logs and is_known(logs[number], firsts[number], sequence)
                ):
                    believe(record)
                else:
                    safe.setdefault(number, 0)
                    doubtful.append((number, sequence, record))
            while table.count > count_max:
                table.drop_oldest()
            at = records[-1].sequence + 1
        log.ack_many(record.sequence for _, _, record in doubtful)
        return safe

    def declare_all(self) -> None:
        """What is here now is all there is."""
        for level in self.queue.levels:
            if level.log is not None and level.log.next_sequence:
                self.note(SAFE, self.turn.now_ms, level, level.log.next_sequence - 1)
        self.opened().write()
