"""Is the disk quick enough that the loop may wait for it?

It is while small syncs, on average, take less than is called quick. One that takes far longer leaves the next
ones to the thread, and so does anybody else who would have had to wait.
"""

from __future__ import annotations

QUICK_SYNC_SECONDS = 1e-3  # longer than this, on average, and the loop must not wait for it
AVERAGED_SYNCS = 8
HICCUP = 3  # a sync that takes so many times longer leaves the next ones to the thread
SYNCS_AFTER_HICCUP = 16


class SyncSpeed:
    __slots__ = ("average_seconds", "hiccup_seconds", "quick_seconds", "syncs_until_quick", "weight")

    def __init__(self) -> None:
        self.weight = 1 / AVERAGED_SYNCS  # of the last one
        self.syncs_until_quick = 0
        self.call_quick(QUICK_SYNC_SECONDS)

    def call_quick(self, seconds: float) -> None:
        """What takes less than that is quick; no disk is before it has shown it."""
        self.quick_seconds = seconds
        self.hiccup_seconds = HICCUP * seconds
        self.average_seconds = 2 * seconds

    def is_quick(self) -> bool:
        return self.average_seconds < self.quick_seconds and not self.syncs_until_quick

    def note(self, seconds: float) -> None:
        """A small sync took so long."""
        if seconds >= self.hiccup_seconds:
            self.syncs_until_quick = SYNCS_AFTER_HICCUP
            return
        self.average_seconds += (seconds - self.average_seconds) * self.weight
        if self.syncs_until_quick:
            self.syncs_until_quick -= 1

    def pause(self, syncs: int) -> None:
        """Whatever they take, the loop does not wait for the next ones."""
        self.syncs_until_quick = max(self.syncs_until_quick, syncs)
