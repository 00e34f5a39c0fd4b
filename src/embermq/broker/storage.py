"""Storage of messages: the logs of queues, when they are written, and from when on a message is safe.

Written is not yet safe: `when_safe` calls back after the sync that covers everything written before. A disk
that is full stops that, and says so: what was not written waits in memory, is tried again every second, and
no client is told that it is safe until it is. A sync that fails is final; nothing can be trusted after it.

What is done with before it is written needs no disk, and no confirm waits for it (`spares`).

The first message to thousands of new queues (a directory and a file for each) is written over several turns,
so that others have theirs; a callback for when that is safe waits for the last of them.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from embermq.broker.interfaces import Logged, LogWriter
from embermq.deadline import CallLater, Deadline
from embermq.store.data_directory import DataDirectory
from embermq.store.log.log import Log

log = logging.getLogger("embermq.storage")

Callback = Callable[[], None]
RETRY_S = 1.0
STEP_S = 0.004  # writing in one turn, or as long as everything else took since the last time
STEP_S_MAX = 0.05
TIDY_AT_ONCE = 5  # logs; each takes a few calls of the file system


def begins(log: Log | None) -> bool:
    """Has it no file yet? One that has is written in its turn: what follows an ack may be answered now."""
    return log is not None and log.count > 0 and not log.segments[0].created


def note_turn(written: Log | None, turn: int) -> None:
    """Since the log was last seen here, has it written records, has it left some out?"""
    if written is not None:
        if written.wrote:
            written.wrote = False
            written.wrote_in = turn
        if written.spared:
            written.spared = False
            written.spared_in = turn


class Storage(LogWriter):
    def __init__(
        self,
        data: DataDirectory,
        call_later: CallLater,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.data = data
        self.committer = data.committer
        self.definitions = data.definitions
        self.next_try = Deadline(call_later, self.retry)  # to write what the disk refused
        self.on_failure = on_failure  # the broker must stop
        self.unwritten: list[Logged] = []  # logs that the disk refused
        self.written_count = 0  # logs that were postponed and are written by now
        self.postponed_count = 0  # logs that the next turns write, in their order
        self.wrote_at_s = 0.0
        self.waiting: deque[tuple[int, Callback, bool]] = deque()  # until so many logs are written
        self.written: set[Logged] = set()  # since the last `tidy`
        self.quiet: set[Logged] = set()  # before it
        self.untidy: list[Logged] = []  # quiet for long, and not tidied yet
        self.on_full: Callable[[bool], None] = lambda full: None

    def has_log(self, log_id: str) -> bool:
        """Is anything on disk under this name?"""
        return self.data.disk.filesystem.exists(self.data.layout.queue(log_id))

    def log_ids(self, prefix: str) -> list[str]:
        """The logs on disk whose names begin so."""
        names = self.data.layout.queue_ids(self.data.disk.filesystem)
        return [name for name in names if name.startswith(prefix)]

    def open_log(
        self,
        log_id: str,
        segment_bytes: int | None = None,
        keep_place: bool = False,
        indexed: bool = False,
    ) -> Log:
        opened = self.data.open_log(log_id, segment_bytes, keep_place, indexed)
        for damage in opened.recovery.damages:
            log.error("%s", damage)
        return opened

    def write(self, levels: list[Logged], turn: int) -> list[Logged]:
        """Hand what the logs have gathered to the operating system; those that are left for the next turn."""
        began_s = time.perf_counter()
        step_s = STEP_S
        if self.postponed_count:
            # As long as the others had: what comes in faster than it is written must not pile up in memory.
            step_s = max(STEP_S, min(began_s - self.wrote_at_s, STEP_S_MAX))
        left: list[Logged] = []
        over = False
        for at, level in enumerate(levels):
            waited = at < self.postponed_count
            if over and (waited or begins(level.log)):
                left.append(level)
                continue
            self.write_log(level)
            note_turn(level.log, turn)
            self.written_count += waited
            over = over or time.perf_counter() - began_s >= step_s
        self.wrote_at_s = time.perf_counter()
        self.postponed_count = len(left)
        if self.waiting:
            self.call_waiting()
        return left

    def write_log(self, level: Logged) -> None:
        level.dirty = False
        written = level.log
        if written is None:
            return  # deleted since
        try:
            written.write()
        except OSError as error:
            self.refused(level, error)
        except Exception as error:
            self.broke(level, error)
        self.committer.mark_dirty(written)
        self.written.add(level)

    def spares(self, queues: tuple[Any, ...], turn: int) -> bool:
        """Is everything done with that came to these queues in this turn, so that it was not written at all?

        Answers so only if it is certain: there was something, and nothing else was written of these queues.
        """
        for queue in queues:
            if not queue.keeps:
                continue
            spared = False
            for level in queue.levels:
                known = level.log
                if known is not None:
                    if known.wrote or known.unwritten or known.wrote_in == turn:
                        return False
                    if known.spared_in == turn:
                        spared = True
            if not spared:
                return False
        return len(queues) > 0

    def write_synced(self, level: Logged, turn: int) -> bool:
        written = level.log
        if written is None or self.unwritten or self.postponed_count:
            return False
        if not (self.definitions.idle and self.committer.may_write_synced(turn)):
            return False
        began_s = time.perf_counter()
        try:
            if not written.write_synced():
                return False
        except OSError:
            return False  # `write` meets the same error, and knows what to do
        self.committer.wrote_synced(turn, time.perf_counter() - began_s)
        level.dirty = False
        self.written.add(level)
        return True

    def tidy(self) -> bool:
        """Once in a while: logs that have been quiet for a while let go of the room at the end of their last
        file, and of the whole file if they are empty. A few at a time; True while there are more."""
        self.data.forget_deletions()
        if not self.unwritten:
            self.data.refill_reserve()
        if not self.untidy:
            self.untidy = list(self.quiet - self.written)
            self.quiet, self.written = self.written, set()
        for _ in range(min(len(self.untidy), TIDY_AT_ONCE)):
            level = self.untidy.pop()
            if level.log is None or level in self.written:
                continue
            with contextlib.suppress(OSError):  # a full disk: it has kept the rest for the next write
                if level.log.count == 0:
                    level.log.trim()
                    level.log.write()
                level.log.give_up_room()
        return bool(self.untidy)

    def close(self) -> None:
        """Everything is written: the files shall be as long as what they hold."""
        for level in self.quiet.union(self.written, self.untidy):
            if level.log is not None:
                with contextlib.suppress(OSError):  # recovery takes zeros at the end for what they are
                    level.log.give_up_room()

    def when_safe(self, callback: Callback, with_acks: bool = False) -> None:
        """Call back when everything written so far would survive a power cut, with the queues it is in."""
        if self.unwritten or self.postponed_count:
            self.waiting.append((self.written_count + self.postponed_count, callback, with_acks))
        else:
            self.sync(callback, with_acks)

    def sync(self, callback: Callback, with_acks: bool) -> None:
        """Call back after the sync that covers what is written."""
        if self.definitions.idle:
            self.committer.request(partial(self.synced, callback), with_acks)
        else:
            # A queue may be used while its definition is on its way to the disk.
            self.definitions.flush(partial(self.defined, callback, with_acks))

    def defined(self, callback: Callback, with_acks: bool, failure: Exception | None) -> None:
        if failure is None:
            self.committer.request(partial(self.synced, callback), with_acks)
        else:
            self.on_failure(failure)

    def synced(self, callback: Callback, failure: Exception | None) -> None:
        if failure is None:
            callback()
        else:
            self.on_failure(failure)

    def refused(self, level: Logged, error: OSError) -> None:
        if not self.unwritten:
            log.error("cannot write to %s: %s; publishers wait until this is mended", level.log_id, error)
            self.on_full(True)
            self.next_try.set(RETRY_S)
        if level not in self.unwritten:
            self.unwritten.append(level)

    def broke(self, level: Logged, error: Exception) -> None:
        """A fault of ours: what is written is unknown, so nothing is confirmed any more."""
        log.error("a fault of ours, writing to %s", level.log_id, exc_info=error)
        self.unwritten.append(level)
        self.on_failure(error)

    def retry(self) -> None:
        levels, self.unwritten = self.unwritten, []
        for level in levels:
            self.write_log(level)
        if self.unwritten:
            return
        log.warning("the disk takes writes again")
        self.on_full(False)
        self.call_waiting()

    def call_waiting(self) -> None:
        """Call back for what is written by now, oldest first."""
        waiting = self.waiting
        while waiting and not self.unwritten and waiting[0][0] <= self.written_count:
            _, callback, with_acks = waiting.popleft()
            self.sync(callback, with_acks)
