"""Scan of segment and ack files: every record is checked before it counts.

`Walk.walk` is the loop over one segment's bytes. Nothing here changes a file: recovery and `check` both build
on `scan_segment`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from zlib import crc32

from embermq.store.disk.filesystem import FileSystem
from embermq.store.log.bitmap import Bitmap
from embermq.store.log.record import PERSISTENT, RECORD_HEADER_SIZE, Header, Record
from embermq.store.log.segment import Segment, find_record
from embermq.store.log.segment_file import (
    ACK_ENTRY,
    ACK_ENTRY_SIZE,
    ACK_HEADER_SIZE,
    ACK_RANGE,
    NOTE,
    SEGMENT_HEADER_SIZE,
    SEQUENCE_MAX,
    SEQUENCE_SPAN_MAX,
    is_ack_header,
    is_segment_header,
)
from embermq.store.log.segment_index import index_path
from embermq.store.recovery.salvage import salvage_all


@dataclass
class AckScan:
    """What an ack file says."""

    present: bool = False
    ranges: list[tuple[int, int]] = field(default_factory=list)  # (first sequence, count)
    notes: dict[int, int] = field(default_factory=dict)  # sequence -> number noted last
    last: int = -1  # the highest sequence acked or noted
    sound_size: int = 0  # where the last sound entry ends; 0 if there is none
    size: int = 0
    entries_damaged: int = 0  # before the last sound entry
    header_damaged: bool = False
    unreadable: bool = False  # not all of it could be read

    @property
    def damaged(self) -> bool:
        if not (self.ranges or self.notes):
            return self.unreadable
        return self.header_damaged or self.entries_damaged > 0 or self.unreadable


@dataclass
class Scan:
    """What a segment file holds. `gaps` are the byte ranges in which no sound record begins."""

    segment: Segment
    size: int
    header_sound: bool
    acks: AckScan
    stop: int  # the first sequence behind it; SEQUENCE_MAX if unknown
    gaps: list[tuple[int, int]] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)  # per gap: between which sequences
    forgotten: int = 0  # transient records
    live_bytes: int = 0  # payload of the records alive
    unreadable: int = 0  # bytes that the disk could not give back
    room: int = 0  # zeros at the end of the last gap, to the end of the file: nothing was written there

    @property
    def torn_tail(self) -> bool:
        """Only the end is missing, as after a crash in the middle of a write."""
        if self.unreadable or not self.header_sound:
            return False
        return len(self.gaps) == 1 and self.gaps[0][1] == self.size

    @property
    def sound(self) -> bool:
        return self.header_sound and not self.gaps and not self.unreadable

    @property
    def bytes_lost(self) -> int:
        header = 0 if self.header_sound else min(self.size, SEGMENT_HEADER_SIZE)
        return header + sum(end - begin for begin, end in self.gaps)

    @property
    def misses_something(self) -> bool:
        """There was more in it once: what is left is neither a record nor room for one."""
        return not self.header_sound or self.bytes_lost > self.room

    @property
    def unborn(self) -> bool:
        """At the end of a log: a crash kept it from its first sound record."""
        if self.segment.count or self.unreadable:
            return False
        return self.header_sound or self.size - self.room <= SEGMENT_HEADER_SIZE


class Walk:
    """The state of going through one segment's bytes."""

    __slots__ = ("data", "forgotten", "gone", "high", "keep_transient", "live_bytes", "low", "segment")

    def __init__(
        self, segment: Segment, data: bytes, low: int, high: int, gone: Bitmap | None, keep_transient: bool
    ) -> None:
        self.segment = segment
        self.data = data
        self.low = low  # the smallest sequence the next record may have
        self.high = high  # and the first that is too large
        self.gone = gone
        self.keep_transient = keep_transient
        self.forgotten = 0
        self.live_bytes = 0

    def walk(self, position: int) -> int:
        """Account every sound record from `position` on; answer where the first unsound one begins."""
        segment = self.segment
        live = segment.live
        seed = segment.seed
        data = self.data
        header = Header()
        low = self.low
        high = self.high
        gone = self.gone
        keep_transient = self.keep_transient
        count = 0
        while True:
            end = header.load(data, position, seed, low, high)
            if end == 0:
                break
            sequence = header.sequence
            if position >= segment.index_at:
                segment.add_index(sequence, position)
            if header.timestamp_ms > segment.time_max:
                segment.time_max = header.timestamp_ms
            if not (header.flags & PERSISTENT or keep_transient):
                self.forgotten += 1
            elif gone is None or not gone.has(sequence):
                live.add(sequence)
                self.live_bytes += header.length
            count += 1
            low = sequence + 1
            position = end
        if count:
            segment.count += count
            segment.last = low - 1
            self.low = low
        return position


def scan_acks(filesystem: FileSystem, path: str, segment: Segment) -> AckScan:
    """Read an ack file; entries that do not check out are left out, which can only bring a message back."""
    scan = AckScan()
    if not filesystem.exists(path):
        return scan
    data, unreadable = salvage_all(filesystem, filesystem.open(path, writable=False))
    scan.present = True
    scan.size = len(data)
    scan.unreadable = unreadable > 0
    scan.header_damaged = not is_ack_header(data, path, segment.first, segment.identity)
    damaged = 0
    sequence_stop = segment.first + SEQUENCE_SPAN_MAX
    for position in range(ACK_HEADER_SIZE, len(data) - ACK_ENTRY_SIZE + 1, ACK_ENTRY_SIZE):
        first, count, checksum = ACK_ENTRY.unpack_from(data, position)
        noted = count & NOTE
        if noted:
            number, count = count ^ NOTE, 1
        if (
            crc32(data[position : position + ACK_RANGE.size], segment.seed) != checksum
            or count < 1
            or first < segment.first
            or first + count > sequence_stop
        ):
            damaged += 1
            continue
        if noted:
            scan.notes[first] = number
        else:
            scan.ranges.append((first, count))
        scan.last = max(scan.last, first + count - 1)
        scan.sound_size = position + ACK_ENTRY_SIZE
        scan.entries_damaged = damaged
    return scan


def scan_segment(
    filesystem: FileSystem, directory: str, segment: Segment, low: int, high: int, keep_transient: bool
) -> Scan:
    """Read a segment file and its ack file into a fresh `segment`. Sequences must lie in [low, high)."""
    acks = scan_acks(filesystem, os.path.join(directory, segment.ack_name), segment)
    gone: Bitmap | None = None
    if acks.ranges:
        gone = Bitmap(segment.first)
        for first, count in acks.ranges:
            gone.add_range(first, count)
    path = os.path.join(directory, segment.name)
    data, unreadable = salvage_all(filesystem, filesystem.open(path, writable=False))
    header_sound = is_segment_header(data, path, segment.first, segment.identity)
    span_end = segment.first + SEQUENCE_SPAN_MAX
    scan = Scan(segment, len(data), header_sound, acks, high if high <= span_end else SEQUENCE_MAX)
    scan.unreadable = unreadable
    high = min(high, span_end)
    walk = Walk(segment, data, max(low, segment.first), high, gone, keep_transient)
    walk_all(walk, scan)
    scan.forgotten = walk.forgotten
    scan.live_bytes = walk.live_bytes
    segment.size = segment.written = len(data)
    segment.created = True
    segment.ack_written = acks.size
    return scan


def walk_all(walk: Walk, scan: Scan) -> None:
    """Walk over all sound records of a segment, and note the gaps between them."""
    data = walk.data
    if len(data) < SEGMENT_HEADER_SIZE:
        scan.lost.append((walk.low, scan.stop))
        return
    position = walk.walk(SEGMENT_HEADER_SIZE)
    end = len(data.rstrip(b"\0")) if position < len(data) else position
    while position < len(data):
        # The length of a record that failed its checksum is not trusted: look at every byte behind it.
        found = -1
        if position < end:
            found = find_record(data, position + 1, walk.segment.seed, walk.low, walk.high)
        if found < 0:
            scan.room = len(data) - max(position, end)
            scan.gaps.append((position, len(data)))
            scan.lost.append((walk.low, scan.stop))
            break
        scan.gaps.append((position, found))
        header = Header()
        header.peek(data, found)
        scan.lost.append((walk.low, header.sequence))
        position = walk.walk(found)


def live_records(data: bytes, scan: Scan) -> Iterator[Record]:
    """The sound live records of a segment file that was scanned."""
    segment, header, gaps = scan.segment, Header(), dict(scan.gaps)
    position = SEGMENT_HEADER_SIZE
    while position < len(data):
        if position in gaps:
            position = gaps[position]
            continue
        end = header.load(data, position, segment.seed, segment.first, segment.last + 1)
        assert end, "the file has changed since it was scanned"
        if segment.live.has(header.sequence):
            payload = data[position + RECORD_HEADER_SIZE : end]
            yield Record(header.sequence, header.timestamp_ms, header.flags, payload)
        position = end


def lost_while_running(filesystem: FileSystem, path: str, segment: Segment) -> Scan:
    """Look again at a segment that was sound once; forget the records of it that cannot be read any more."""
    data = b""
    if segment.created:
        # If nothing of it can be read, the disk has gone rather than a sector, and may come back: an error.
        data = salvage_all(filesystem, filesystem.open(path, writable=False)).data
    data = data[: segment.written].ljust(segment.written, b"\0") + segment.unwritten()
    fresh = Segment(segment.first, segment.identity)
    scan = Scan(fresh, len(data), True, AckScan(), segment.last + 1)
    walk_all(Walk(fresh, data, segment.first, segment.last + 1, None, True), scan)
    if segment.indexed:
        # Its index says that all is well: the next start must not believe that.
        scan.forgotten = segment.count - fresh.count
        segment.indexed = False
        with contextlib.suppress(OSError):
            filesystem.unlink(index_path(os.path.dirname(path), segment))
        segment.live = fresh.live
        segment.index_sequences = fresh.index_sequences
        segment.index_positions = fresh.index_positions
        segment.index_times = fresh.index_times
        return scan
    for sequence in range(segment.first, segment.last + 1):
        if segment.live.has(sequence) and not fresh.live.has(sequence):
            segment.live.remove(sequence)
            scan.forgotten += 1
    return scan
