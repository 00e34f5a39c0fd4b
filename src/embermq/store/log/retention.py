"""Reading and retention of streams: blocks, look-up by time, removal of old segments."""

from __future__ import annotations

from embermq.store.disk.page_cache import Callback
from embermq.store.log.log import READ_BLOCK_BYTES, Log
from embermq.store.log.reader import Reader, first_at_time
from embermq.store.log.record import RECORD_HEADER_SIZE, Header
from embermq.store.log.segment import Segment
from embermq.store.log.segment_index import index_path


class Block:
    """Bytes of one segment from a record's beginning on; what was appended once never changes."""

    __slots__ = ("data", "position", "segment")

    def __init__(self, segment: Segment, position: int, data: bytes) -> None:
        self.segment = segment
        self.position = position
        self.data = data


class BlockReader(Reader):
    """Reads a log as blocks of records that the caller takes apart."""

    __slots__ = ()

    def block(self, sequence: int, bytes_max: int, known: Block | None) -> tuple[Block, int] | None:
        """A block, and where in it to look for `sequence` and what follows; None if nothing follows.

        At least one whole record stands there. `known` is a block that was read already: it is
        answered if it will do.
        """
        while True:
            segment = self._go_to_block(sequence)
            if segment is None:
                return None
            if known is not None and self._is_in(known):
                return known, self.position - known.position
            data = self._block(segment, self.position, max(bytes_max, RECORD_HEADER_SIZE))
            if not whole_record(data, 0):
                data = self._one_record(segment, data)
            if whole_record(data, 0):
                return Block(segment, self.position, data), 0
            self._skip_damage(segment)

    def block_at_hand(self, sequence: int, bytes_max: int, known: Block | None, done: Callback) -> bool:
        """Can `block` answer without waiting for the disk? If not, `done` is called when it can."""
        segment = self._go_to_block(sequence)
        if segment is None or (known is not None and self._is_in(known)):
            return True
        return self._is_cached(segment, bytes_max, done)

    def _go_to_block(self, sequence: int) -> Segment | None:
        """Be where the caller has stopped, or where `sequence` is; None if nothing is there or behind."""
        segment = self.segment
        if segment is None or segment.removed or sequence != self.sequence:
            segment = self._go_to(sequence)
            if segment is None:
                return None
            self.sequence = sequence
        while self.position >= segment.size:
            segment = self.log.segment_after(segment)
            if segment is None:
                return None
            self._seek(segment, segment.first)
            self.sequence = sequence
        return segment

    def _is_in(self, known: Block) -> bool:
        """Does the block have the record that we are at?"""
        at = self.position - known.position
        return known.segment is self.segment and 0 <= at < len(known.data) and whole_record(known.data, at)

    def went_on(self, position: int, sequence: int) -> None:
        """The caller has read up to that position of the segment; it will ask for `sequence` next."""
        self.position = position
        self.sequence = sequence

    def damaged(self, position: int) -> None:
        """The record at that position does not check out: go on behind it."""
        assert self.segment is not None
        self.position = position
        if not self.segment.removed:  # else nothing more of it is wanted, and its file may be gone
            self._skip_damage(self.segment)


def is_alive(log: Log, sequence: int) -> bool:
    """Is there a record with this sequence that is not acked?"""
    segment = log.segment_from(sequence)
    return segment is not None and bool(segment.live.has(sequence))


def whole_record(data: bytes, at: int) -> bool:
    """Does the record that begins there end in the data as well?"""
    return 0 < Header().peek(data, at) <= len(data)


def sequence_at_time(log: Log, timestamp_ms: int) -> int:
    """The sequence of the first record that is not older than `timestamp_ms`; else `next_sequence`."""
    for segment in log.segments:
        if segment.time_max >= timestamp_ms:
            found = first_at_time(log.new_reader(), segment, timestamp_ms, READ_BLOCK_BYTES)
            if found is not None:
                return found
    return log.next_sequence


def retain(
    log: Log,
    now_ms: int,
    bytes_max: int | None = None,
    age_ms_max: int | None = None,
    count_max: int | None = None,
) -> list[Segment]:
    """Let go of the oldest segments while the log is over a limit; those that went.

    Whole segments only, so that `count_max` records are always left if there were as many; and never the last
    segment: a stream keeps its place in the numbering.
    """
    gone: list[Segment] = []
    while len(log.segments) > 1:
        oldest = log.segments[0]
        if not (
            (bytes_max is not None and log.bytes_on_disk > bytes_max)
            or (count_max is not None and log.count - oldest.live.count >= count_max)
            or (age_ms_max is not None and oldest.time_max < now_ms - age_ms_max)
        ):
            break
        log.remove(oldest)
        gone.append(oldest)
        if oldest.indexed:
            path = index_path(log.directory, oldest)
            log.disk.delete_segment(path, path)
    return gone
