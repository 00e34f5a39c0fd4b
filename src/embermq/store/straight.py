"""Records that go into a log straight out of the buffer that they were read into.

No object is made of such a record, and its bytes are copied once. Only what needs nothing else is done here:
whatever happens once per file or once per write, `Log.append` does.
"""

from __future__ import annotations

from embermq.store.kernel import put_spans
from embermq.store.log import Log
from embermq.store.record import SEQUENCE_SPAN_MAX

SPAN_MAX = SEQUENCE_SPAN_MAX  # the same under a name of this module, where it is a C number


def append_spans(
    log: Log,
    sequence: int,
    timestamp_ms: int,
    flags: int,
    prefix: bytes,
    source: bytearray,
    start_1: int,
    stop_1: int,
    start_2: int,
    stop_2: int,
) -> bool:
    """Append a record of `prefix` and two spans of `source`, if that is all there is to do; was it?"""
    segment = log.active
    if (
        segment is None
        or not segment.queued
        or segment.size >= log.segment_bytes
        or sequence - segment.first >= SPAN_MAX
    ):
        return False
    assert sequence >= log.next_sequence
    fill = segment.fill
    end = put_spans(
        segment.buffer,
        fill,
        segment.seed,
        sequence,
        timestamp_ms,
        flags,
        prefix,
        source,
        start_1,
        stop_1,
        start_2,
        stop_2,
    )
    segment.appended(sequence, timestamp_ms, end)
    log.bytes_on_disk += end - fill
    log.next_sequence = sequence + 1
    log.count += 1
    return True
