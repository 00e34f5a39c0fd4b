"""A thread that does one thing after the other, for somebody who must not wait for them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

Job = Callable[[], object]


class Background:
    """Starts its thread with its first job. A job that the operating system refuses is let go."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, job: Job) -> None:
        self._jobs.put(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

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
            with contextlib.suppress(OSError):
                job()
            del job  # and what it belongs to, before waiting for the next
