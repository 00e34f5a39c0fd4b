"""A log: records in order of their sequence, in segment files of about 8 MiB, each acked when done with.

The way of a record: `append` (memory only) -> `write` (one system call per file) -> the committer syncs what
`take_dirty` names -> `ack` -> when all records of a sealed segment are acked, its files are deleted. One that
is acked before it is written never is (docs/decisions/0014-dead-before-written.md).

Queues and streams are both this. A queue acks; a stream does not (`retention`: look-up by time, too).
All methods belong to one thread; only deleting and syncing happen elsewhere.

Invariants: sequences increase, with gaps allowed; segments are disjoint and in order; only the last one is
appended to; `count` is the number of records neither acked nor dropped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Protocol

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import File, write_all, write_part
from embermq.store.disk.layout import LABEL
from embermq.store.disk.page_cache import Callback
from embermq.store.disk.reserve import NO_SPACE
from embermq.store.log.preallocation import make_room
from embermq.store.log.reader import Reader
from embermq.store.log.record import Record, put_spans
from embermq.store.log.segment import Segment, new_identity
from embermq.store.log.segment_file import SEQUENCE_MAX, SEQUENCE_SPAN_MAX
from embermq.store.log.segment_index import write_indexes
from embermq.store.recovery.recovery import Recovery, recover
from embermq.store.sync.committer import NO_FILES, NO_NAMES, Dirty

SEGMENT_BYTES = 8 * 1024 * 1024
READ_BLOCK_BYTES = 256 * 1024
KEPT_BYTES = 256 * 1024 * 1024  # of a queue's files in the page cache, from where it is read
LAST_SEGMENTS = 2  # one is written to, one may not be safe yet
# An active segment whose records are all acked goes once it is worth a new file: at a quarter of full size,
# or when it is the last of several, so that nothing is left of a backlog.
DRAINED_PART = 4
DRAINED_SPAN = 1 << 16  # or when so many sequences went through it: each takes a bit of memory
EVERYTHING, SPAN_MAX = SEQUENCE_MAX, SEQUENCE_SPAN_MAX  # the same as C numbers


class Owner(Protocol):
    def records_lost(self) -> None:
        """Damage was found, and what it took is not here any more."""

    def label(self) -> bytes:
        """What the directory shall say about itself; empty: nothing."""


class Log:
    """See the module. Made by `Log.open`; nothing is created on disk before the first `write`."""

    __slots__ = (
        "ack_dirty",
        "ack_segment",
        "active",
        "bytes_on_disk",
        "count",
        "directory",
        "dirty_acks",
        "dirty_directories",
        "dirty_files",
        "disk",
        "finished",
        "has_directory",
        "has_label",
        "in_order",
        "next_sequence",
        "owner",
        "reader",
        "recovery",
        "removable_below",
        "segment_bytes",
        "segments",
        "spared",
        "spared_in",
        "unwritten",
        "was_deep",
        "wrote",
        "wrote_in",
    )

    def __init__(
        self, directory: str, disk: Disk, recovery: Recovery, segment_bytes: int, removable_below: int
    ) -> None:
        self.directory = directory
        self.disk = disk
        self.has_directory = recovery.has_directory
        self.has_label = False  # as far as we know: directories of older versions have none
        self.owner: Owner | None = None  # counts what is here as well
        self.dirty_files = NO_FILES
        self.dirty_directories = NO_NAMES
        self.dirty_acks = NO_FILES
        self.recovery = recovery
        self.segment_bytes = segment_bytes
        self.segments = recovery.segments
        self.next_sequence = recovery.next_sequence
        self.count = 0
        self.bytes_on_disk = 0  # including what is appended but not written
        self.active: Segment | None = None  # the last segment, while it takes appends
        self.ack_segment: Segment | None = None  # the one acked last: the next ack is probably there, too
        self.unwritten: list[Segment] = []
        self.ack_dirty: list[Segment] = []
        # Whether records were left out of a write, or written, since the last call of `spares`; and when that
        # was.
        self.spared = self.wrote = False
        self.spared_in = self.wrote_in = 0
        self.reader: Reader | None = None
        self.in_order = False  # it is read from its beginning to its end, by that one reader
        self.removable_below = removable_below  # what reaches this stays, so that its sequence is known
        self.was_deep = len(self.segments) > 1  # whether there were several segments since the last drain
        for segment in self.segments:
            segment.sealed = True
            self.count += segment.live.count
            self.bytes_on_disk += segment.size
        if self.segments and self.segments[-1].size < segment_bytes:
            self.active = self.segments[-1]
            self.active.sealed = False
        self.finished = [segment for segment in self.segments if segment.sealed and not segment.live.count]

    @classmethod
    def open(
        cls,
        directory: str,
        disk: Disk,
        segment_bytes: int = SEGMENT_BYTES,
        keep_transient: bool = False,
        keep_place: bool = False,
        indexed: bool = False,
        whole: bool = False,
    ) -> Log:
        """Open or begin the log in `directory`. What recovery found is in `log.recovery`.

        Of a log that is never acked, full segments need not be read if they are `indexed`.
        """
        exists = disk.filesystem.exists(directory)
        recovery = Recovery()
        if exists:
            recovery = recover(disk, directory, keep_transient, keep_place, indexed, whole)
        return cls(directory, disk, recovery, segment_bytes, 0 if keep_place else SEQUENCE_MAX)

    # -- appending

    def append(self, sequence: int, timestamp_ms: int, flags: int, parts: tuple[bytes, ...]) -> None:
        """Add a record in memory, where it can be read and acked at once; `write` hands it to the disk."""
        assert sequence >= self.next_sequence
        segment = self.active
        if segment is None or segment.size >= self.segment_bytes or sequence - segment.first >= SPAN_MAX:
            segment = self._begin_segment(sequence, timestamp_ms)
        if not segment.queued:
            self._queue(segment)
            if segment.size == 0:  # whatever was in it did not live to be written
                segment.begin(timestamp_ms)
                self.bytes_on_disk += segment.size
        size = segment.size
        segment.append(sequence, timestamp_ms, flags, parts)
        self.bytes_on_disk += segment.size - size
        self.next_sequence = sequence + 1
        self.count += 1

    def append_spans(
        self,
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
        """Append a record of `prefix` and two spans of `source`: no object is made of it, and its bytes are
        copied once. False, and nothing is done, for the first record of a file or write: use `append`."""
        segment = self.active
        if (
            segment is None
            or not segment.queued
            or segment.size >= self.segment_bytes
            or sequence - segment.first >= SPAN_MAX
        ):
            return False
        assert sequence >= self.next_sequence
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
        self.bytes_on_disk += end - fill
        self.next_sequence = sequence + 1
        self.count += 1
        return True

    def roll(self) -> None:
        """Seal the active segment; the next append begins a new one."""
        segment = self.active
        if segment is not None:
            self.active = None
            segment.sealed = True
            if segment.live.count == 0:
                self.finished.append(segment)
            if segment.reach > segment.size and not segment.queued:
                self._queue(segment)  # the next write takes away the room at its end, if not all of it

    def _begin_segment(self, sequence: int, timestamp_ms: int) -> Segment:
        self.roll()
        self.was_deep = bool(self.segments)
        segment = Segment(sequence, new_identity())
        self._queue(segment)
        segment.begin(timestamp_ms)
        self.bytes_on_disk += segment.size
        self.segments.append(segment)
        self.active = segment
        if self.in_order:
            self._evict_unread()
        return segment

    def _evict_unread(self) -> None:
        """A queue goes on in a new file: if the one that became safe meanwhile will not be read soon, it can
        leave the page cache."""
        at = len(self.segments) - 1 - LAST_SEGMENTS
        if at < 0:
            return
        path = os.path.join(self.directory, self.segments[at].name)
        place = self.reader.segment if self.reader is not None else None
        between = 0
        while at >= 0 and between <= KEPT_BYTES:
            if self.segments[at] is place:
                return
            between += self.segments[at].size
            at -= 1
        if between > KEPT_BYTES:
            self.disk.cache.let_go(path)

    def _queue(self, segment: Segment) -> None:
        """Lend the segment a buffer until the next write."""
        segment.borrow_buffer(self.disk.take_buffer())
        self.unwritten.append(segment)

    def trim(self) -> None:
        """For an idle log: if everything is acked, the next `write` lets go of the last file, too."""
        if self.active is not None and self.active.live.count == 0:
            self.roll()

    # -- acknowledging

    def ack(self, sequence: int) -> bool:
        """The record is done with. False, and nothing happens, if it was so before or never was here."""
        segment = self.ack_segment
        if segment is None or sequence < segment.first or sequence > segment.last or segment.removed:
            segment = self.segment_from(sequence)
            if segment is None:
                return False
            self.ack_segment = segment
        if segment.is_pending(sequence) and self.may_bury():
            if not segment.bury(sequence):
                return False
        elif not segment.ack(sequence):
            return False
        elif not segment.ack_dirty:
            segment.ack_dirty = True
            self.ack_dirty.append(segment)
        self.count -= 1
        if segment.live.count == 0 and segment.sealed:
            self.finished.append(segment)
        return True

    def may_bury(self) -> bool:
        """May what is done with before it is written leave no trace? Not where sequences must be known."""
        return self.removable_below == EVERYTHING

    def ack_many(self, sequences: Iterable[int]) -> int:
        """Ack several; how many were alive."""
        return sum([self.ack(sequence) for sequence in sequences])

    # -- writing

    def write(self) -> None:
        """Hand everything appended and acked so far to the operating system, and let go of what is finished.

        After an OSError (a full disk) nothing is lost: what was not written is still here, and the next
        `write` goes on where this one stopped. Acks and deletions are done all the same: they make room.
        """
        for segment in self.unwritten:
            if segment.buried and not segment.removed:
                self.bytes_on_disk -= segment.drop_buried()
                self.spared = True
        active = self.active
        if active is not None and active.live.count == 0:
            if (
                active.size * DRAINED_PART >= self.segment_bytes
                or active.last - active.first >= DRAINED_SPAN
                or (self.count == 0 and self.was_deep)
            ):
                self.was_deep = False
                self.roll()
        failure: OSError | None = None
        if self.ack_dirty:
            failure = self._write_all_acks()
        if self.finished:
            finished, self.finished = self.finished, []
            for segment in finished:
                if segment.last < self.removable_below:
                    self.remove(segment)
                elif segment.sealed:
                    self.finished.append(segment)
        if self.unwritten:
            unwritten, self.unwritten = self.unwritten, []
            for at, segment in enumerate(unwritten):
                try:
                    if segment.fill or segment.reach > segment.size:
                        self._write_segment(segment)
                except OSError:
                    self._try_again_later(unwritten[at:])
                    raise
                self.disk.give_back(segment.return_buffer())
        if failure is not None:
            raise failure

    def write_synced(self) -> bool:
        """Write what was appended so that it is safe, in one system call. False if one call could not do all
        of it; then, and after an OSError, go on with `write`."""
        if len(self.unwritten) != 1 or self.ack_dirty or self.finished or self.dirty_files:
            return False
        segment = self.unwritten[0]
        if segment is not self.active or segment.live.count == 0 or segment.buried or not segment.created:
            return False
        if segment.must_grow():
            return False
        file = self.disk.file_of(segment)
        if file is None:
            file = self.file(segment.name, True)
            self.disk.used_by(segment)
        done = self.disk.filesystem.write_synced(file, segment.buffer, segment.fill, segment.written)
        segment.forget_written(done)
        if segment.fill:
            return False
        self.unwritten.clear()
        self.disk.give_back(segment.return_buffer())
        return True

    def _write_segment(self, segment: Segment) -> None:
        if segment.removed:
            segment.fill = 0
            return
        file = self.file(segment.name, segment.created)
        segment.created = self.wrote = True
        self.dirty_files = self.dirty_files | {file}
        make_room(self.disk, file, segment, self.segment_bytes)
        filesystem = self.disk.filesystem
        while segment.fill:
            segment.forget_written(
                write_part(filesystem, file, segment.buffer, segment.fill, segment.written)
            )

    def _try_again_later(self, unwritten: list[Segment]) -> None:
        """What the disk refused stays here; but one of which nothing is left begins anew, with a header."""
        for segment in unwritten:
            if segment.fill or segment.reach > segment.size:
                self.unwritten.append(segment)
            else:
                self.disk.give_back(segment.return_buffer())

    def _write_all_acks(self) -> OSError | None:
        """Write the acks of every segment that has some; the first failure, after trying all."""
        failure: OSError | None = None
        left: list[Segment] = []
        for segment in self.ack_dirty:
            if segment.removed:
                continue
            segment.end_ack_run()
            # Nothing of it is on disk, and nothing of it will be: no need to say that it is gone.
            gone = segment.live.count == 0 and segment.sealed and segment.last < self.removable_below
            if gone and not segment.created:
                continue
            try:
                self._write_acks_somehow(segment)
                segment.ack_dirty = False
            except OSError as error:
                failure = failure or error
                left.append(segment)
        self.ack_dirty = left
        return failure

    def _write_acks_somehow(self, segment: Segment) -> None:
        """On a full disk with what the reserve has: what was acked stays so."""
        while True:
            try:
                self.write_acks(segment)
                return
            except OSError as error:
                reserve = self.disk.reserve
                if error.errno not in NO_SPACE or reserve is None or not reserve.release():
                    raise

    def remove(self, segment: Segment) -> None:
        """Let go of a segment in memory and, later, on disk."""
        if segment.removed:
            return
        segment.removed = True
        self.segments.remove(segment)
        self.bytes_on_disk -= segment.size
        self.count -= segment.live.count
        if self.active is segment:
            self.active = None
        if self.ack_segment is segment:
            self.ack_segment = None
        if segment.created:
            self.delete(segment)

    def give_up_room(self) -> None:
        """The log is quiet, or at its end: its last file shall be as long as what it holds."""
        segment = self.active
        if segment is None or segment.queued or segment.reach <= segment.written:
            return
        file = self.disk.open_file(os.path.join(self.directory, segment.name))
        self.disk.filesystem.truncate(file, segment.written)
        segment.reach = segment.writes = 0

    def write_indexes(self, safe_end: int, everywhere: bool = False) -> None:
        """Give full segments before `safe_end` an index file (see `segment_index`)."""
        write_indexes(self.disk.filesystem, self.directory, self.segments, safe_end, everywhere)

    # -- reading

    @property
    def first_sequence(self) -> int:
        """No record has a smaller sequence; `next_sequence` if there are none."""
        return self.segments[0].first if self.segments else self.next_sequence

    def read(self, sequence: int, bytes_max: int = READ_BLOCK_BYTES) -> list[Record]:
        """The live records from `sequence` on, written or not: about `bytes_max`, at least one if any."""
        if self.reader is None:
            self.reader = Reader(self)
        return self.reader.read(sequence, bytes_max)

    def at_hand(self, sequence: int, bytes_max: int, done: Callback) -> bool:
        """Can `read` answer without waiting for the disk? If not, `done` is called when it can."""
        if self.reader is None:
            self.reader = Reader(self)
        return self.reader.at_hand(sequence, bytes_max, done)

    def new_reader(self) -> Reader:
        """A reader with its own position, for several that read at the same time."""
        return Reader(self)

    def segment_from(self, sequence: int) -> Segment | None:
        """The first segment that ends at `sequence` or behind."""
        segments = self.segments
        low, high = 0, len(segments)
        while low < high:
            middle = (low + high) // 2
            if segments[middle].last < sequence:
                low = middle + 1
            else:
                high = middle
        return segments[low] if low < len(segments) else None

    def segment_after(self, segment: Segment) -> Segment | None:
        return self.segment_from(segment.last + 1)

    # -- the end

    def drop(self) -> None:
        """Delete the log with everything in it, in the background."""
        for segment in self.segments:
            segment.removed = True
        self.drop_all(self.segments)
        self.segments, self.unwritten, self.ack_dirty, self.finished = [], [], [], []
        self.active = self.ack_segment = None
        self.count = self.bytes_on_disk = 0

    # -- acking much at once: by segment, not by record

    def purge_from(self, sequence: int) -> int:
        """Ack everything from `sequence` on; how many were alive. Costs per segment, but for the first."""
        purged = 0
        for segment in list(self.segments):
            if segment.first >= sequence:
                alive = segment.ack_all(self.may_bury())
                if alive:
                    purged += alive
                    self.count -= alive
                    if segment.ack_count and not segment.ack_dirty:
                        segment.ack_dirty = True
                        self.ack_dirty.append(segment)
                    if segment.sealed:
                        self.finished.append(segment)
            elif segment.count and segment.last >= sequence:
                purged += self.ack_many(range(sequence, segment.last + 1))
        self.trim()
        return purged

    # -- its files: nothing is there before it is needed

    def file(self, name: str, exists: bool) -> File:
        path = f"{self.directory}/{name}"
        if not exists and not self.has_directory:
            self.disk.make_directory(self.directory)
            self.has_directory = True
            self.dirty_directories = self.dirty_directories | {os.path.dirname(self.directory)}
        if not self.has_label:
            self.has_label = True
            self.write_label()
        if exists:
            return self.disk.open_file(path)
        self.dirty_directories = self.dirty_directories | {self.directory}
        try:
            return self.disk.open_file(path, create=True)
        except FileExistsError:
            return self.disk.open_file(path)  # created by a write that failed behind that point

    def write_label(self) -> None:
        """Label the directory with its queue, for the case that the definition is lost. Not waited for."""
        label = b"" if self.owner is None else self.owner.label()
        if label:
            with contextlib.suppress(OSError):
                file = self.disk.filesystem.open(f"{self.directory}/{LABEL}", create=True)
                write_all(self.disk.filesystem, file, label, 0)
                self.dirty_acks = self.dirty_acks | {file}

    def write_acks(self, segment: Segment) -> None:
        file = self.file(segment.ack_name, segment.ack_written > 0)
        acks = segment.ack_buffer
        while acks:
            done = write_part(self.disk.filesystem, file, acks, len(acks), segment.ack_written)
            segment.ack_written += done
            del acks[:done]
        self.dirty_acks = self.dirty_acks | {file}

    def take_dirty(self) -> Dirty:
        """What was written since the last call and is not known to be safe."""
        dirty = Dirty(self.dirty_files, self.dirty_directories, self.dirty_acks)
        self.dirty_files = NO_FILES
        self.dirty_directories = NO_NAMES
        self.dirty_acks = NO_FILES
        return dirty

    def delete(self, segment: Segment) -> None:
        """In the background; it need not be synced any more."""
        path = os.path.join(self.directory, segment.name)
        ack_path = os.path.join(self.directory, segment.ack_name)
        self.dirty_files = frozenset(file for file in self.dirty_files if file.path != path)
        self.disk.delete_segment(path, ack_path)

    def drop_all(self, segments: list[Segment]) -> None:
        """Delete the directory with everything in it, in the background."""
        for segment in segments:
            self.disk.forget_file(os.path.join(self.directory, segment.name))
            self.disk.forget_file(os.path.join(self.directory, segment.ack_name))
        self.take_dirty()
        self.disk.drop_directory(self.directory)
