"""Recovery of a log: opening its directory after a stop, a crash or damage.

    zeros at the end of the last     cut off without a word: room for records that never came (see room)
    torn tail of the last segment    cut off: nothing in it was ever reported safe. Unless the broker had
                                     stopped in order: then it is damage
    damage anywhere else             the file is set aside as `<name>.damaged-<n>`, its sound live records are
                                     written to a fresh segment, and a `Damage` says what was saved and lost
    damaged ack file                 likewise; lost acks bring messages back, they never take one away
    transient records                forgotten
    newer version                    refused before anything is changed

Every step leaves a directory from which recovery can start again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem, write_all
from embermq.store.log.record import RECORD_HEADER_SIZE
from embermq.store.log.segment import NO_BUFFER, Segment, new_identity
from embermq.store.log.segment_file import (
    ACK_SUFFIX,
    NOTE,
    SEGMENT_HEADER_SIZE,
    SEGMENT_SUFFIX,
    SEQUENCE_MAX,
    encode_ack_entry,
    encode_ack_header,
    parse_segment_name,
)
from embermq.store.log.segment_index import delete_stray_indexes, load_from_index
from embermq.store.recovery.salvage import salvage_all
from embermq.store.recovery.scan import AckScan, Scan, live_records, lost_while_running, scan_segment

UNFINISHED_SUFFIX = ".new"


@dataclass(frozen=True)
class Damage:
    """What was wrong with one file; `str()` is the line for the log."""

    path: str
    set_aside: str  # where the file is now; empty if it was only looked at
    records_saved: int
    bytes_lost: int
    # Sequences [first, stop) among which records are missing; SEQUENCE_MAX: their end is unknown.
    lost: tuple[tuple[int, int], ...] = ()
    acks_lost: int = 0  # entries of an ack file that could not be read
    records_lost: int = 0  # live ones, where that is known: of a file that was sound when it was opened

    def __str__(self) -> str:
        aside = f", set aside as {os.path.basename(self.set_aside)}" if self.set_aside else ""
        if self.acks_lost:
            return (
                f"{self.path} is damaged{aside}: {self.acks_lost} ack entries lost, their messages are back"
            )
        places = [
            f"{first} and later" if stop == SEQUENCE_MAX else f"{first}..{stop - 1}"
            for first, stop in self.lost
            if first < stop
        ]
        where = ", ".join(places[:5])
        if len(places) > 5:
            where += f" and {len(places) - 5} more places"
        between = f" (among sequences {where})" if where else ""
        return (
            f"{self.path} is damaged{aside}: {self.records_saved} live records saved, "
            f"{self.bytes_lost} bytes lost{between}"
        )


@dataclass(slots=True)
class Recovery:
    """What opening a log found."""

    segments: list[Segment] = field(default_factory=list)
    has_directory: bool = False
    next_sequence: int = 0
    live_bytes: int = 0  # payload bytes of the live records
    forgotten: int = 0  # transient records
    torn_bytes: int = 0
    # First and count, in order and apart from each other; of a log that keeps its place.
    acked: list[tuple[int, int]] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    notes: dict[int, int] = field(default_factory=dict)  # sequence -> number, of live records (see note)


def list_segments(names: list[str]) -> list[tuple[int, int]]:
    """(first sequence, identity) of the segment files among `names`, in order."""
    found = []
    for name in names:
        if name.endswith(SEGMENT_SUFFIX):
            parsed = parse_segment_name(name.removesuffix(SEGMENT_SUFFIX))
            if parsed is not None:
                found.append(parsed)
    return sorted(found)


def scan_directory(
    disk: Disk, directory: str, names: list[str], keep_transient: bool, indexed: bool = False
) -> list[Scan]:
    """Scan every segment of a log, or believe its index where that may be; changes nothing."""
    found = list_segments(names)
    scans = []
    low = 0
    for at, (first, identity) in enumerate(found):
        high = found[at + 1][0] if at + 1 < len(found) else SEQUENCE_MAX
        segment = Segment(first, identity)
        # The last segment is always read: it may still grow, and its end may be torn.
        full = indexed and at + 1 < len(found)
        if full and load_from_index(disk.filesystem, directory, segment, low, high):
            scan = Scan(segment, segment.size, header_sound=True, acks=AckScan(), stop=high)
            scan.live_bytes = segment.size - SEGMENT_HEADER_SIZE - segment.count * RECORD_HEADER_SIZE
        else:
            scan = scan_segment(disk.filesystem, directory, segment, low, high, keep_transient)
        if segment.count:
            low = segment.last + 1
        scans.append(scan)
    return scans


def recover(
    disk: Disk,
    directory: str,
    keep_transient: bool,
    keep_place: bool = False,
    indexed: bool = False,
    whole: bool = False,
) -> Recovery:
    """Bring the directory of a log into order. Afterwards every file that counts is sound.

    But for those of `indexed` segments (see segment_index): their damage is found when they are read.

    With `keep_place` segments stay, even without a live record: they know the last sequence. Where the log
    is known to have been `whole`, because its broker stopped in order, a torn tail is damage.
    """
    recovery = Recovery(has_directory=True)
    filesystem = disk.filesystem
    names = filesystem.list(directory)
    # Scanning comes first and changes nothing, so that a newer version is refused with all files untouched.
    scans = scan_directory(disk, directory, names, keep_transient, indexed)
    if keep_place:
        recovery.acked = merged(entry for scan in scans for entry in scan.acks.ranges)
    _remove_leftovers(disk, directory, names, scans)
    last = len(scans) - 1
    while last >= 0 and scans[last].unborn and not (whole and scans[last].misses_something):
        _delete(disk, directory, scans[last])
        last -= 1
    for at in range(last + 1):
        scan = scans[at]
        segment = scan.segment
        recovery.forgotten += scan.forgotten
        recovery.live_bytes += scan.live_bytes
        for sequence, number in scan.acks.notes.items():
            if segment.live.has(sequence):
                recovery.notes[sequence] = number
        recovery.next_sequence = max(recovery.next_sequence, scan.acks.last + 1)
        if segment.count:
            recovery.next_sequence = max(recovery.next_sequence, segment.last + 1)
        if scan.torn_tail and at == last and not (whole and scan.misses_something):
            recovery.torn_bytes += scan.bytes_lost - scan.room
            _truncate(disk, os.path.join(directory, segment.name), scan.gaps[0][0])
            segment.size = segment.written = scan.gaps[0][0]
        elif not scan.sound:
            saved = _set_aside(disk, directory, scan, names, recovery)
            if saved is not None:
                recovery.segments.append(saved)
            continue
        if segment.live.count == 0 and not (keep_place and segment.count):
            # Acked to the end, or transient through and through.
            _delete(disk, directory, scan)
            continue
        _mend_acks(disk, directory, scan, names, recovery)
        recovery.segments.append(segment)
    if indexed:
        delete_stray_indexes(filesystem, directory, recovery.segments)
    if len(filesystem.list(directory)) != len(names):
        # What was deleted must stay so before its sequences are used again: an empty segment that came back
        # after a power cut would make sound records of the same sequences look misplaced.
        filesystem.sync_directory(directory)
    return recovery


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, none reaching into another: a run of acks may be drawn over what was acked before."""
    apart: list[tuple[int, int]] = []
    for first, count in sorted(ranges):
        if apart and first <= apart[-1][0] + apart[-1][1]:
            begin, known = apart.pop()
            first, count = begin, max(known, first + count - begin)
        apart.append((first, count))
    return apart


def _remove_leftovers(disk: Disk, directory: str, names: list[str], scans: list[Scan]) -> None:
    """Ack files whose segment is gone, and files of an interrupted recovery."""
    expected = {scan.segment.ack_name for scan in scans}
    for name in names:
        path = os.path.join(directory, name)
        if name.endswith(UNFINISHED_SUFFIX):
            disk.filesystem.unlink(path)
        elif name.endswith(ACK_SUFFIX) and name not in expected:
            # The segment is gone, but perhaps not for good: a sync must come between.
            disk.delete_segment(path.removesuffix(ACK_SUFFIX) + SEGMENT_SUFFIX, path)


def _delete(disk: Disk, directory: str, scan: Scan) -> None:
    path = os.path.join(directory, scan.segment.name)
    disk.filesystem.unlink(path)
    if scan.acks.present:
        # In the background, behind a sync: acks without a segment are harmless, a segment that comes back
        # after a power cut without its acks is not.
        disk.delete_segment(path, os.path.join(directory, scan.segment.ack_name))


def _truncate(disk: Disk, path: str, size: int) -> None:
    file = disk.filesystem.open(path)
    disk.filesystem.truncate(file, size)
    disk.filesystem.sync(file)


def _set_aside(
    disk: Disk, directory: str, scan: Scan, names: list[str], recovery: Recovery
) -> Segment | None:
    """Save the live records of a damaged segment into a fresh one; move the damaged file out of the way."""
    damaged = scan.segment
    path = os.path.join(directory, damaged.name)
    saved: Segment | None = None
    if damaged.live.count:
        data = salvage_all(disk.filesystem, disk.filesystem.open(path, writable=False)).data
        saved = _copy_live(data, scan)
        _write_new_file(disk, directory, saved.name, saved.unwritten())
        saved.forget_written(saved.fill)
        saved.buffer = NO_BUFFER
        saved.created = True
    # From here on both files exist; if we die now, the next recovery finds that the damaged one adds nothing.
    aside = known_aside(disk.filesystem, directory, names, damaged.name)
    if aside:
        disk.filesystem.unlink(path)
    else:
        aside = damaged_name(names, damaged.name)
        disk.filesystem.rename(path, os.path.join(directory, aside))
    if scan.acks.present:
        disk.filesystem.rename(
            os.path.join(directory, damaged.ack_name),
            os.path.join(directory, damaged_name(names, damaged.ack_name)),
        )
    disk.filesystem.sync_directory(directory)
    recovery.damages.append(
        Damage(
            path=path,
            set_aside=os.path.join(directory, aside),
            records_saved=saved.count if saved is not None else 0,
            bytes_lost=scan.bytes_lost,
            lost=tuple(scan.lost),
        )
    )
    return saved


def _copy_live(data: bytes, scan: Scan) -> Segment:
    """A fresh segment with the sound live records of a scanned one."""
    saved: Segment | None = None
    for record in live_records(data, scan):
        if saved is None:
            saved = Segment(record.sequence, new_identity())
            saved.buffer = bytearray()
            saved.begin(record.timestamp_ms)
        saved.append(record.sequence, record.timestamp_ms, record.flags, (record.payload,))
    assert saved is not None
    assert saved.count == scan.segment.live.count
    return saved


def _mend_acks(disk: Disk, directory: str, scan: Scan, names: list[str], recovery: Recovery) -> None:
    """Leave an ack file that ends behind its last sound entry, so that it can be appended to."""
    acks, segment = scan.acks, scan.segment
    if not acks.present:
        return
    path = os.path.join(directory, segment.ack_name)
    if not acks.ranges and not acks.notes and not acks.damaged:
        # Nothing sound in it: a header at most, or the first entry was torn.
        disk.filesystem.unlink(path)
        segment.ack_written = 0
    elif acks.damaged:
        aside = os.path.join(directory, damaged_name(names, segment.ack_name))
        content = encode_ack_header(segment.first, segment.identity) + b"".join(
            encode_ack_entry(first, count, segment.seed)
            for first, count in [*acks.ranges, *((sequence, NOTE | n) for sequence, n in acks.notes.items())]
        )
        # A copy is set aside, not the file itself: at no moment may the acks be missing.
        old = salvage_all(disk.filesystem, disk.filesystem.open(path, writable=False)).data
        _write_new_file(disk, directory, os.path.basename(aside), old)
        _write_new_file(disk, directory, segment.ack_name, content)
        segment.ack_written = len(content)
        lost = max(acks.entries_damaged, 1)
        recovery.damages.append(Damage(path, aside, segment.live.count, 0, acks_lost=lost))
    elif acks.sound_size < acks.size:
        _truncate(disk, path, acks.sound_size)
        segment.ack_written = acks.sound_size


def damaged_name(names: list[str], name: str) -> str:
    """The first free `<name>.damaged-<n>`."""
    number = 1
    while f"{name}.damaged-{number}" in names:
        number += 1
    return f"{name}.damaged-{number}"


def keep_aside(filesystem: FileSystem, path: str) -> str:
    """Give a damaged file a second name, which survives the deletion of the first; "" if that fails."""
    with contextlib.suppress(OSError):
        directory, name = os.path.split(path)
        names = filesystem.list(directory)
        aside = known_aside(filesystem, directory, names, name)
        if not aside:
            aside = damaged_name(names, name)
            filesystem.link(path, os.path.join(directory, aside))
        return os.path.join(directory, aside)
    return ""


def known_aside(filesystem: FileSystem, directory: str, names: list[str], name: str) -> str:
    """The second name that a file got when damage in it was met before; "" if it has none."""
    path = os.path.join(directory, name)
    for other in names:
        if other.startswith(f"{name}.damaged-") and filesystem.is_same(path, os.path.join(directory, other)):
            return other
    return ""


def damage_read(filesystem: FileSystem, directory: str, segment: Segment) -> Damage | None:
    """What is lost of a segment that was sound once, and is forgotten now; None if nothing more is."""
    path = os.path.join(directory, segment.name)
    scan = lost_while_running(filesystem, path, segment)
    if not scan.forgotten:
        return None
    aside = keep_aside(filesystem, path)
    lost = tuple(scan.lost)
    return Damage(path, aside, segment.live.count, scan.bytes_lost, lost, records_lost=scan.forgotten)


def _write_new_file(disk: Disk, directory: str, name: str, content: bytes) -> None:
    """Put a file in place whole, or not at all."""
    unfinished = os.path.join(directory, name + UNFINISHED_SUFFIX)
    file = disk.filesystem.open(unfinished, create=True)
    write_all(disk.filesystem, file, content, 0)
    disk.filesystem.sync(file)
    disk.filesystem.rename(unfinished, os.path.join(directory, name))
    disk.filesystem.sync_directory(directory)
