"""Sequential reading of a log: one large read of the file per call, not one per message.

A reader remembers where it stopped, so that paging through a log costs one `pread` per block. Every consumer
of a stream has its own reader; a queue has one.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from embermq.store.disk.page_cache import Callback
from embermq.store.log.record import RECORD_HEADER_SIZE, Header, Record
from embermq.store.log.segment import Segment, find_record, parse_records
from embermq.store.log.segment_file import SEGMENT_HEADER_SIZE
from embermq.store.log.segment_index import position_before, position_before_time
from embermq.store.recovery.recovery import damage_read
from embermq.store.recovery.salvage import salvage_span

if TYPE_CHECKING:
    from embermq.store.log.log import Log

logger = logging.getLogger("embermq.store")

AHEAD_BYTES = 2 * 1024 * 1024  # that the disk is asked for before they are needed
RECENT_BYTES = 64 * 1024  # of the last segment: what was written last is in memory


class Reader:
    """A place in a log. Reading on from there is cheap; from elsewhere it costs an index look-up."""

    __slots__ = ("asked", "asked_in", "cuts", "fetched", "log", "position", "segment", "sequence")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.segment: Segment | None = None
        self.position = 0
        self.cuts = 0  # of the segment, when that was true
        self.sequence = 0  # every record of the segment before `position` has a smaller one
        # How far the disk was asked to read ahead of us, if it ever had to (`_keep_ahead`); and the place,
        # by sequence and position, that we waited for last.
        self.asked_in: Segment | None = None
        self.asked = 0
        self.fetched = (0, 0)

    def read(self, sequence: int, bytes_max: int) -> list[Record]:
        """The live records from `sequence` on, in order: about `bytes_max`, at least one if any is left."""
        records: list[Record] = []
        segment = self._go_to(sequence)
        if segment is None:
            return records
        while True:
            self._read_segment(segment, sequence, bytes_max, records)
            if records:
                self.sequence = records[-1].sequence + 1
                return records
            following = self.log.segment_after(segment)
            if following is None:
                self.sequence = max(sequence, segment.last + 1)
                return records
            segment = following
            self._seek(segment, segment.first)

    def raw_block(self, sequence: int, bytes_max: int) -> tuple[Segment, bytes] | None:
        """Records as they stand in a segment, from `sequence` or a bit before it on, also such that are not
        alive; None if nothing is there or behind. The last one may be cut off, or even the first: then, and
        where it is damaged, only `read` helps."""
        segment = self._go_to(sequence)
        while segment is not None and (self.position >= segment.size or segment.live.count == 0):
            segment = self.log.segment_after(segment)
            if segment is not None:
                self._seek(segment, segment.first)
        return None if segment is None else (segment, self._block(segment, self.position, bytes_max))

    def read_on(self, size: int, sequence: int) -> None:
        """So many bytes of a raw block are done with; `sequence` will be asked for next."""
        self.position += size
        self.sequence = sequence

    def at_hand(self, sequence: int, bytes_max: int, done: Callback) -> bool:
        """Can `read` answer without waiting for the disk? If not, `done` is called when it can."""
        segment = self._go_to(sequence)
        while segment is not None and (self.position >= segment.size or segment.live.count == 0):
            segment = self.log.segment_after(segment)
            if segment is not None:
                self._seek(segment, segment.first)
        return segment is None or self._is_cached(segment, bytes_max + RECORD_HEADER_SIZE, done)

    def _is_cached(self, segment: Segment, size: int, done: Callback) -> bool:
        """Can it go on in the segment without waiting for the disk? If not, the disk is asked, and `done` is
        called when it has answered; after that it is read, whatever the answer was."""
        log, position = self.log, self.position
        if position >= segment.written - (RECENT_BYTES if segment is log.active else 0):
            return True
        size = min(size, segment.written - position)
        place = (segment.first, position)
        if self.fetched == place:
            self._keep_ahead(segment, position + size)
            return True
        path = os.path.join(log.directory, segment.name)
        try:
            file = log.disk.open_file(path)
        except OSError:
            return True  # reading meets that again, and reports it
        if log.disk.cache.has(file, size, position):
            if self.asked_in is not None:
                self._keep_ahead(segment, position + size)
            return True
        self.fetched = place
        if self.asked_in is None or self.asked_in not in (segment, log.segment_after(segment)):
            self.asked_in, self.asked = segment, position + size
        if not log.disk.cache.fetch(path, size, position, done):
            return True
        self._keep_ahead(segment, position + size)
        return False

    def _keep_ahead(self, segment: Segment, position: int) -> None:
        """Have the disk read what comes next while this is delivered."""
        log, asked_in = self.log, self.asked_in
        assert asked_in is not None
        if asked_in.first > segment.first:
            return  # of this one all is under way
        begin = max(self.asked, position) if asked_in is segment else position
        if begin - position > AHEAD_BYTES // 2:
            return  # there is enough under way
        wanted: Segment | None = segment
        if begin >= segment.size:
            wanted, begin = log.segment_after(segment), 0
        if wanted is not None and begin < wanted.written:
            log.disk.cache.expect(os.path.join(log.directory, wanted.name), AHEAD_BYTES, begin)
            self.asked_in, self.asked = wanted, min(begin + AHEAD_BYTES, wanted.size)

    def _go_to(self, sequence: int) -> Segment | None:
        """Be where `sequence` is, or a bit before; None if nothing is there or behind."""
        segment = self.segment
        if segment is None or segment.removed or not segment.first <= sequence or sequence > segment.last:
            segment = self.log.segment_from(sequence)
            if segment is not None:
                self._seek(segment, sequence)
        elif sequence < self.sequence or segment.cuts != self.cuts:
            self._seek(segment, sequence)
        else:
            # Forward in the same segment: whichever is closer, where we stopped or an index entry.
            self.position = max(self.position, self._position_before(segment, sequence))
        return segment

    def _position_before(self, segment: Segment, sequence: int) -> int:
        return position_before(self.log.disk.filesystem, self.log.directory, segment, sequence)

    def _seek(self, segment: Segment, sequence: int) -> None:
        self.segment = segment
        self.cuts = segment.cuts
        self.position = self._position_before(segment, sequence)
        self.sequence = sequence

    def _read_segment(self, segment: Segment, sequence: int, bytes_max: int, records: list[Record]) -> None:
        """Read block after block until something alive turns up or the segment ends."""
        if segment.live.count == 0:
            self.position = segment.size
            return
        while self.position < segment.size and not records:
            block = self._block(segment, self.position, bytes_max + RECORD_HEADER_SIZE)
            done = parse_records(block, 0, segment, sequence, bytes_max, records)
            if done == 0:
                block = self._one_record(segment, block)
                done = parse_records(block, 0, segment, sequence, bytes_max, records)
                if done == 0:
                    self._skip_damage(segment)
                    continue
            self.position += done

    def _block(self, segment: Segment, position: int, size: int) -> bytes:
        """Bytes at `position`, out of the file or, behind what is written, out of the buffer."""
        if position >= segment.written:
            begin = position - segment.written
            return bytes(segment.buffer[begin : min(begin + size, segment.fill)])
        log = self.log
        file = log.disk.open_file(os.path.join(log.directory, segment.name))
        return salvage_span(log.disk.filesystem, file, min(size, segment.written - position), position).data

    def _one_record(self, segment: Segment, block: bytes) -> bytes:
        """The record at our position, too large for the block; it may reach from file into buffer."""
        position = self.position
        if len(block) < RECORD_HEADER_SIZE:
            block += self._block(segment, position + len(block), RECORD_HEADER_SIZE - len(block))
        end = position + Header().peek(block, 0)
        if end == position or end > segment.size:
            return block
        while position + len(block) < end:
            more = self._block(segment, position + len(block), end - position - len(block))
            if not more:
                return block
            block += more
        return block[: end - position]

    def _skip_damage(self, segment: Segment) -> None:
        """The file was sound when it was opened or written, and is not any more: go on behind the damage."""
        begin = self.position
        rest = b""
        while begin + len(rest) < segment.size:
            more = self._block(segment, begin + len(rest), segment.size)
            if not more:
                break
            rest += more
        found = find_record(rest, 1, segment.seed, segment.first, segment.last + 1)
        end = segment.size if found < 0 else begin + found
        forget_damaged(self.log, segment)
        self.position = end


def forget_damaged(log: Log, segment: Segment) -> None:
    """A reader met damage in a segment that was sound: forget what is lost, keep the file for people."""
    damage = damage_read(log.disk.filesystem, log.directory, segment)
    if damage is None:
        return  # another reader has met it before
    log.count -= damage.records_lost
    if segment.live.count == 0 and segment.sealed:
        log.finished.append(segment)
    log.recovery.damages.append(damage)
    logger.error("%s", damage)
    if log.owner is not None:
        log.owner.records_lost()


def first_at_time(reader: Reader, segment: Segment, timestamp_ms: int, bytes_max: int) -> int | None:
    """The sequence of the segment's first live record that is not older than `timestamp_ms`."""
    reader.segment = segment
    reader.position = position_before_time(
        reader.log.disk.filesystem, reader.log.directory, segment, timestamp_ms
    )
    sequence = segment.first
    assert reader.position >= SEGMENT_HEADER_SIZE
    while True:
        records: list[Record] = []
        reader._read_segment(segment, sequence, bytes_max, records)
        for record in records:
            if record.timestamp_ms >= timestamp_ms:
                return record.sequence
        if not records:
            return None
        sequence = records[-1].sequence + 1
