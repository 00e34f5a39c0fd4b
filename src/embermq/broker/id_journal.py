"""The identities that a queue has taken, on disk beside its messages: a log `<queue id>.ids`.

Each record is for one message and is written in the same group commit:

    0  16  hash of the identity
   16   8  sequence of the message in the log of its level, little-endian; 0: it is in none
   24   2  number of the level: 0 the lower or only one, 1-255 that of a priority, 65535 the higher one

A power cut may keep either record without the other, but each log keeps all up to some record. So a start
believes an identity if its message's log reaches that far, and takes back (acks) the others, whose sequences
will be used again; messages behind the last one that the journal knows are asked for their identities
themselves. For this the logs of the levels keep a file with their last sequence, even when everything in it
is acked, until a later sequence is safe.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from embermq.store.layout import IDENTITIES_PART

if TYPE_CHECKING:
    from embermq.broker.id_table import IdTable
    from embermq.broker.level import Level
    from embermq.broker.queue import Queue
    from embermq.broker.storage import Storage
    from embermq.store.log import Log

PERSISTENT = 1
HIGHER = 65535
READ_BYTES = 1024 * 1024
EVERYTHING = (1 << 64) - 1

_RECORD = struct.Struct("<16sQH")
_RECORD_IN_HALVES = struct.Struct("<QQQH")


def level_number(queue: Queue, level: Level) -> int:
    suffix = level.log_id[len(queue.id) :]
    if not suffix:
        return 0
    return int(suffix[2:]) if suffix.startswith(".p") else HIGHER


class IdJournal:
    def __init__(self, queue: Queue, storage: Storage) -> None:
        self.queue = queue
        self.turn = queue.vhost.turn
        self.storage = storage
        self.log_id = queue.id + IDENTITIES_PART
        self.log: Log | None = None
        self.dirty = False
        self.awaits_sync = False
        self.level_numbers: dict[Level, int] = {}
        for level in queue.levels:
            level.keeps_place = True
            if level.log is not None:
                level.log.removable_below = 0

    def opened(self) -> Log:
        if self.log is None:
            self.log = self.storage.open_log(self.log_id)
        return self.log

    def note(self, hash: bytes, time_ms: int, level: Level, sequence: int) -> None:
        log = self.opened()
        number = self.level_numbers.get(level)
        if number is None:
            number = self.level_numbers[level] = level_number(self.queue, level)
        payload = _RECORD.pack(hash, sequence, number)
        log.append(max(log.next_sequence, 1), time_ms, PERSISTENT, (payload,))
        if not self.dirty:
            self.dirty = True
            self.turn.add_log(self)
            if any(level.log is not None and level.log.finished for level in self.queue.levels):
                self.turn.after_write(self.let_go)

    def let_go(self) -> None:
        """Once what is written now is safe, the logs of the levels may forget what lies before."""
        if self.awaits_sync:
            return
        self.awaits_sync = True
        logs = [level.log for level in self.queue.levels if level.log is not None]
        reached = [(log, log.next_sequence - 1) for log in logs]

        def safe() -> None:
            self.awaits_sync = False
            for log, sequence in reached:
                log.removable_below = max(log.removable_below, sequence)

        self.storage.when_safe(safe)

    def forget_before(self, time_ms: int) -> None:
        """Whole files of identities that are older go."""
        log = self.log
        while log is not None and len(log.segments) > 1 and log.segments[0].time_max < time_ms:
            log.remove(log.segments[0])

    def drop(self) -> None:
        """Nothing is to be remembered any more."""
        for level in self.queue.levels:
            level.keeps_place = False
            if level.log is not None:
                level.log.removable_below = EVERYTHING
        if self.log is None and self.storage.has_log(self.log_id):
            self.opened()
        if self.log is not None:
            self.log.drop()
            self.log = None

    # -- at start

    def load(self, table: IdTable, count_max: int, reached: Mapping[int, int]) -> dict[int, int]:
        """Into the table with the last `count_max` whose messages were stored: `reached` is the last sequence
        of each level. The others are taken back. Answers how far each level is noted here."""
        log, noted = self.opened(), dict.fromkeys(reached, 0)
        reader, at = log.new_reader(), log.first_sequence
        while records := reader.read(at, READ_BYTES):
            for record in records:
                first, second, sequence, number = _RECORD_IN_HALVES.unpack(record.payload)
                if sequence > reached.get(number, 0):
                    log.ack(record.sequence)
                    continue
                if sequence > noted[number]:
                    noted[number] = sequence
                table.add(first, second, record.timestamp_ms)
            while table.count > count_max:
                table.drop_oldest()
            at = records[-1].sequence + 1
        return noted

    def write(self) -> None:
        self.opened().write()
