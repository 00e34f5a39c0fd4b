"""Notes in ack files: a number kept beside a written record, for example how often it was requeued.

Notes stand in the ack file: they are as safe as acks, the last one counts, and they go with their segment.
`Recovery.notes` has those of the records that are alive.
"""

from __future__ import annotations

from embermq.store.log.log import Log
from embermq.store.log.segment_file import NOTE, encode_ack_entry, encode_ack_header

NOTED_MAX = NOTE - 1


def note(log: Log, sequence: int, number: int) -> bool:
    """Keep a number beside a record; False, and nothing happens, if the record is not alive."""
    assert 0 <= number <= NOTED_MAX
    segment = log.segment_from(sequence)
    if segment is None or not segment.live.has(sequence):
        return False
    segment.end_ack_run()
    if segment.ack_written == 0 and not segment.ack_buffer:
        segment.ack_buffer += encode_ack_header(segment.first, segment.identity)
    segment.ack_buffer += encode_ack_entry(sequence, NOTE | number, segment.seed)
    if not segment.ack_dirty:
        segment.ack_dirty = True
        log.ack_dirty.append(segment)
    return True
