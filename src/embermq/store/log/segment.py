"""One segment in memory: the unwritten end of its file, which of its records are alive, a sparse index.

Nothing here touches a disk. `buffer[:fill]` holds what is not written yet, as the very bytes that will stand
in the file behind the first `written` bytes, so that a reader can treat file and buffer alike. There is no
object per record: a bitmap says which records are alive, and one index entry per 64 KiB says where to look.

A record that is done with before it was written is buried where it stands, and taken out of the buffer before
the next write: neither it nor its ack ever reaches the disk.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right

from embermq.store.log.bitmap import Bitmap
from embermq.store.log.record import RECORD_HEADER_SIZE, Header, Record, keep_alive, put_record
from embermq.store.log.segment_file import (
    ACK_HEADER_SIZE,
    ACK_SUFFIX,
    SEGMENT_HEADER_SIZE,
    SEGMENT_SUFFIX,
    checksum_seed,
    encode_ack_entry,
    encode_ack_header,
    encode_segment_header,
    segment_name,
)

INDEX_BYTES = 64 * 1024
ACK_GAP_MAX = 64  # how many dead sequences an ack may skip and still extend the run before it


NO_BUFFER = bytearray()  # stands for "none lent at the moment"; never written to
NO_ENTRIES = array("Q")  # likewise


def new_identity() -> int:
    return int.from_bytes(os.urandom(8), "little")


class Segment:
    """Records [first, last] of a log. `size` is what the file measures once everything is written."""

    __slots__ = (
        "ack_buffer",
        "ack_count",
        "ack_dirty",
        "ack_first",
        "ack_name",
        "ack_written",
        "buffer",
        "buried",
        "count",
        "created",
        "cuts",
        "fill",
        "first",
        "identity",
        "index_at",
        "index_positions",
        "index_sequences",
        "index_times",
        "indexed",
        "last",
        "live",
        "name",
        "pending",
        "pending_at",
        "pending_first",
        "queued",
        "reach",
        "removed",
        "sealed",
        "seed",
        "size",
        "time_max",
        "writes",
        "written",
    )

    def __init__(self, first: int, identity: int) -> None:
        name = segment_name(first, identity)
        self.name = name + SEGMENT_SUFFIX
        self.ack_name = name + ACK_SUFFIX
        self.first = first
        self.last = first  # meaningful once count > 0
        self.identity = identity
        self.seed = checksum_seed(identity)
        self.count = 0
        self.live = Bitmap(first)
        self.written = 0
        self.reach = 0  # how far the file reaches, where that is beyond its records (see room)
        self.writes = 0  # since it was opened or was quiet
        self.size = 0
        self.buffer = NO_BUFFER
        self.fill = 0  # how much of the buffer is taken
        self.pending = 0  # records in the buffer of which no byte is written
        self.pending_at = 0  # where in it they begin
        self.pending_first = 0  # and with which sequence
        self.buried = 0  # how many of them are done with
        self.cuts = 0  # how often that took records out of the buffer: positions behind them have changed
        self.created = False  # whether the file exists
        self.queued = False  # whether the log knows that something is to be written
        self.sealed = False
        self.removed = False
        self.indexed = False  # all of it is alive, and where its records are stands in a file (segment_index)
        self.time_max = 0
        self.index_at = 0
        self.index_sequences = array("Q")
        self.index_positions = array("Q")
        self.index_times = array("Q")  # the latest timestamp before the entry's record
        self.ack_first = 0  # the run of acks that is still growing
        self.ack_count = 0
        self.ack_buffer = bytearray()
        self.ack_written = 0
        self.ack_dirty = False

    def begin(self, created_ms: int) -> None:
        """Start the file of a new segment with its header."""
        self.buffer[0:SEGMENT_HEADER_SIZE] = encode_segment_header(self.first, self.identity, created_ms)
        self.size = self.fill = SEGMENT_HEADER_SIZE

    def borrow_buffer(self, buffer: bytearray) -> None:
        """Something is to be appended; the log knows it until `return_buffer`."""
        self.queued = True
        self.buffer = buffer

    def return_buffer(self) -> bytearray:
        self.queued = False
        self.pending = 0
        buffer, self.buffer = self.buffer, NO_BUFFER
        return buffer

    def must_grow(self) -> bool:
        """Does the file end before what is to be written does (see room)?"""
        return self.written + self.fill > self.reach

    def unwritten(self) -> bytes:
        """What stands behind the written part."""
        return bytes(self.buffer[: self.fill])

    def forget_written(self, size: int) -> None:
        """The first `size` bytes of the buffer stand in the file now."""
        assert self.buried == 0
        self.pending = 0
        self.written += size
        if size < self.fill:
            self.buffer[0 : self.fill - size] = self.buffer[size : self.fill]
        self.fill -= size

    def append(self, sequence: int, timestamp_ms: int, flags: int, parts: tuple[bytes, ...]) -> None:
        """Add a record to the buffer. The caller has made sure that the sequence is larger than the last."""
        fill = put_record(self.buffer, self.fill, self.seed, sequence, timestamp_ms, flags, parts)
        self.appended(sequence, timestamp_ms, fill)

    def appended(self, sequence: int, timestamp_ms: int, fill: int) -> None:
        """A record stands at the end of the buffer, which is taken up to `fill` now."""
        if self.size >= self.index_at:
            self.add_index(sequence, self.size)
        if timestamp_ms > self.time_max:
            self.time_max = timestamp_ms
        if self.pending == 0:
            self.pending_at = self.fill
            self.pending_first = sequence
        self.pending += 1
        self.size += fill - self.fill
        self.fill = fill
        self.count += 1
        self.last = sequence
        self.live.add(sequence)

    # -- what is done with before it was written

    def is_pending(self, sequence: int) -> bool:
        """Is the record, if there is one, still in memory only?"""
        return self.pending > 0 and sequence >= self.pending_first

    def bury(self, sequence: int) -> bool:
        """Note that a pending record is done with; False when it was so already, or never existed."""
        if not self.live.remove(sequence):
            return False
        self.buried += 1
        return True

    def drop_buried(self) -> int:
        """Before a write: take what is buried out of the buffer; how many bytes."""
        size = self.size
        fill = self.pending_at
        if self.buried < self.pending:
            fill = keep_alive(self.buffer, self.pending_at, self.fill, self.live)
        elif not self.created:
            fill = 0  # nothing of it is left: the next record, if any, has a header written before it
        self.size -= self.fill - fill
        self.fill = fill
        self.count -= self.buried
        self.pending -= self.buried
        self.buried = 0
        self.cuts += 1
        self.forget_index_from(self.written + self.pending_at)
        return size - self.size

    # -- acks

    def ack(self, sequence: int) -> bool:
        """Note that a record is done with; False when it was so already, or never existed."""
        if not self.live.remove(sequence):
            return False
        if self.ack_count:
            end = self.ack_first + self.ack_count
            if sequence == end:
                self.ack_count += 1
                return True
            if sequence > end and self._none_alive(end, sequence):
                self.ack_count = sequence + 1 - self.ack_first
                return True
            self.end_ack_run()
        self.ack_first = sequence
        self.ack_count = 1
        return True

    def ack_all(self, burying: bool) -> int:
        """Ack every record at once, or bury those that are pending; how many were alive."""
        alive = self.live.count
        if alive:
            self.end_ack_run()
            self.live.clear()
            if burying:
                self.buried = self.pending
                if not self.created:
                    return alive
            self.ack_first = self.first
            self.ack_count = self.last + 1 - self.first
        return alive

    def end_ack_run(self) -> None:
        """Turn the run that is still growing into an entry of the ack file."""
        if self.ack_count:
            if self.ack_written == 0 and not self.ack_buffer:
                self.ack_buffer += encode_ack_header(self.first, self.identity)
                assert len(self.ack_buffer) == ACK_HEADER_SIZE
            self.ack_buffer += encode_ack_entry(self.ack_first, self.ack_count, self.seed)
            self.ack_count = 0

    def _none_alive(self, begin: int, end: int) -> bool:
        """Whether a run may be drawn over [begin, end): the sequences there are gaps, or acked before."""
        if end - begin > ACK_GAP_MAX:
            return False
        live = self.live
        sequence = begin
        while sequence < end:
            if live.has(sequence):
                return False
            sequence += 1
        return True

    # -- index

    def rest_on_index(self, count: int) -> None:
        """What is said of the segment's records stands in its index file: no need to know it here."""
        self.indexed = True
        self.live.fill(count)
        self.index_sequences = self.index_positions = self.index_times = NO_ENTRIES

    def add_index(self, sequence: int, position: int) -> None:
        self.index_sequences.append(sequence)
        self.index_positions.append(position)
        self.index_times.append(self.time_max)
        self.index_at = position + INDEX_BYTES

    def forget_index_from(self, position: int) -> None:
        """What stands from there on has moved."""
        positions = self.index_positions
        while positions and positions[-1] >= position:
            positions.pop()
            self.index_sequences.pop()
            self.index_times.pop()
        self.index_at = positions[-1] + INDEX_BYTES if positions else 0

    def position_before(self, sequence: int) -> int:
        """Where to start reading forward to find `sequence`; at most an index step too early."""
        at = bisect_right(self.index_sequences, sequence)
        return self.index_positions[at - 1] if at else SEGMENT_HEADER_SIZE

    def position_before_time(self, timestamp_ms: int) -> int:
        """Where to start reading forward to find the first record that is not older than `timestamp_ms`."""
        # index_times never decreases: an entry is early enough if all records before it are older.
        times = self.index_times
        low, high = 0, len(times)
        while low < high:
            middle = (low + high) // 2
            if times[middle] < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return self.index_positions[low - 1] if low else SEGMENT_HEADER_SIZE


def find_record(data: bytes, position: int, seed: int, low: int, high: int) -> int:
    """Where the next sound record begins, at `position` or behind; -1 if there is none."""
    header = Header()
    stop = len(data) - RECORD_HEADER_SIZE
    while position <= stop:
        if header.load(data, position, seed, low, high):
            return position
        position += 1
    return -1


def parse_records(
    data: bytes, position: int, segment: Segment, sequence_min: int, bytes_max: int, records: list[Record]
) -> int:
    """Collect the live records from `position` on up to `bytes_max`; answer the position behind the last one
    looked at. That is `position` itself if no whole, sound record stands there."""
    seed = segment.seed
    live = segment.live
    header = Header()
    low = segment.first
    high = segment.last + 1
    taken = 0
    while True:
        end = header.load(data, position, seed, low, high)
        if end == 0:
            break
        sequence = header.sequence
        if sequence >= sequence_min and live.has(sequence):
            if taken + end - position > bytes_max and taken:
                break
            payload = data[position + RECORD_HEADER_SIZE : end]
            records.append(Record(sequence, header.timestamp_ms, header.flags, payload))
            taken += end - position
        position = end
    return position
