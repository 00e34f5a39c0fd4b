"""What a stream does with a log: the sequence is its offset; look-up by time; retention."""

from __future__ import annotations

from embermq.store.log import READ_BLOCK_BYTES, Log
from embermq.store.reader import first_at_time


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
) -> int:
    """Let go of the oldest segments while the log is over a limit; how many records went.

    Whole segments only, so that `count_max` records are always left if there were as many; and never the last
    segment: a stream keeps its place in the numbering.
    """
    before = log.count
    while len(log.segments) > 1:
        oldest = log.segments[0]
        if not (
            (bytes_max is not None and log.bytes_on_disk > bytes_max)
            or (count_max is not None and log.count - oldest.live.count >= count_max)
            or (age_ms_max is not None and oldest.time_max < now_ms - age_ms_max)
        ):
            break
        log.remove(oldest)
    return before - log.count
