"""Acking much at once: by segment, not by record."""

from __future__ import annotations

from embermq.store.log import Log


def purge_from(log: Log, sequence: int) -> int:
    """Ack everything from `sequence` on; how many were alive. Costs per segment, but for the first."""
    purged = 0
    for segment in list(log.segments):
        if segment.first >= sequence:
            alive = segment.ack_all(log.may_bury())
            if alive:
                purged += alive
                log.count -= alive
                if segment.ack_count and not segment.ack_dirty:
                    segment.ack_dirty = True
                    log.ack_dirty.append(segment)
                if segment.sealed:
                    log.finished.append(segment)
        elif segment.count and segment.last >= sequence:
            purged += log.ack_many(range(sequence, segment.last + 1))
    log.trim()
    return purged
