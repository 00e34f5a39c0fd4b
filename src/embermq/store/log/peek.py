"""Previews of records: of one that is larger than a block only the beginning is read.

A block is read at a time, and the records that are whole in it are checked as always. Of one that is larger
than a block only its beginning is read, and no checksum can be: what it says is good enough to be shown, and
for nothing else. Damage ends the previews; with `reports_damage` it is reported and skipped, as by readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from embermq.store.log.record import RECORD_HEADER_SIZE, Header, Record
from embermq.store.log.segment import parse_records
from embermq.store.log.segment_index import position_before

if TYPE_CHECKING:
    from embermq.store.log.log import Log
    from embermq.store.log.segment import Segment


class RecordPreview(NamedTuple):
    sequence: int
    timestamp_ms: int
    flags: int
    payload: bytes  # or its beginning
    payload_size: int


def record_previews(
    log: Log, sequence: int, block_bytes: int, reports_damage: bool = False
) -> Iterator[RecordPreview | None]:
    """The live records from `sequence` on, in order. None after each block: a pause, for other work.

    Whatever happens to the log between two steps, nothing worse comes of it than an end too early.
    """
    segment = log.segment_from(sequence)
    while segment is not None and not segment.removed:
        if segment.live.count:
            yield from in_segment(log, segment, sequence, block_bytes, reports_damage)
        yield None
        segment = log.segment_after(segment)


def in_segment(
    log: Log, segment: Segment, sequence: int, block_bytes: int, reports_damage: bool
) -> Iterator[RecordPreview | None]:
    position, cuts = position_before(log.disk.filesystem, log.directory, segment, sequence), segment.cuts
    reader = log.new_reader()
    while position < segment.size and not segment.removed and segment.cuts == cuts:
        reader.position = position
        block = reader._block(segment, position, block_bytes)
        records: list[Record] = []
        done = parse_records(block, 0, segment, sequence, block_bytes, records)
        if done == 0 and len(block) < block_bytes:  # perhaps it reaches from the file into the buffer
            if len(block) < RECORD_HEADER_SIZE:
                block += reader._block(segment, position + len(block), RECORD_HEADER_SIZE - len(block))
            if is_small(block, block_bytes):
                block = reader._one_record(segment, block)
                done = parse_records(block, 0, segment, sequence, block_bytes, records)
        for record in records:
            yield RecordPreview(
                record.sequence, record.timestamp_ms, record.flags, record.payload, len(record.payload)
            )
        if done == 0:
            large = beginning(block, segment, position, block_bytes)
            if large is None and reports_damage:
                reader._skip_damage(segment)
                position = reader.position
                continue
            if large is None:
                return
            done = RECORD_HEADER_SIZE + large.payload_size
            if large.sequence >= sequence and segment.live.has(large.sequence):
                yield large
        position += done
        yield None


def is_small(block: bytes, block_bytes: int) -> bool:
    return 0 < Header().peek(block, 0) <= block_bytes


def beginning(block: bytes, segment: Segment, position: int, block_bytes: int) -> RecordPreview | None:
    """Of a record that is too large for a block; None where there seems to be none."""
    header = Header()
    size = header.peek(block, 0)
    if size <= block_bytes or position + size > segment.size:
        return None
    if not segment.first <= header.sequence <= segment.last:
        return None
    payload = block[RECORD_HEADER_SIZE:block_bytes]
    return RecordPreview(header.sequence, header.timestamp_ms, header.flags, payload, header.length)
