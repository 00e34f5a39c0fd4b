"""A worker thread: does one thing after the other, so that the loop need not wait for them."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

logger = logging.getLogger("embermq.store")

Job = Callable[[], object]


class Background:
    """Starts its thread with its first job. A job that the operating system refuses is let go."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, job: Job) -> bool:
        """Have it done; False if that must wait for another job, as no thread can be had for it now."""
        self._jobs.put(job)
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # as many threads as there may be: the next job tries again
                return False
            self._thread = thread
        return True

    def wait(self) -> None:
        """Return when everything asked for so far is done."""
        if self._thread is not None:
            done = threading.Event()
            self._jobs.put(done.set)
            done.wait()

    def forget(self) -> None:
        """Let go of everything asked for that has not begun."""
        with contextlib.suppress(Empty):
            while True:
                self._jobs.get_nowait()

    def close(self) -> None:
        """Finish what was asked for, and end the thread; the next job starts another."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except OSError as error:
                logger.debug("%s: %s", self.name, error)
            except Exception:  # those that come after it are waited for all the same
                logger.exception("a fault of ours, in the thread %s", self.name)
            del job  # and what it belongs to, before waiting for the next
