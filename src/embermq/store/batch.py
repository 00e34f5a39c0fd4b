"""What one round of syncing has to do, and whom it tells."""

from __future__ import annotations

from embermq.store.callback import Callback
from embermq.store.filesystem import File

FILES_SYNCED_HERE_MAX = 2


class Batch:
    __slots__ = ("acks", "callbacks", "directories", "everything", "files", "with_acks")

    def __init__(self) -> None:
        self.files: set[File] = set()
        self.directories: set[str] = set()
        self.acks: set[File] = set()
        self.everything = False  # too many files to name them: syncfs
        self.with_acks = False
        self.callbacks: list[Callback] = []

    def is_dirty(self) -> bool:
        return bool(self.files or self.directories or self.acks or self.everything)

    def is_small(self) -> bool:
        """Is there so little to sync that the loop's thread may do it?"""
        return (
            not (self.directories or self.everything)
            and len(self.files) + len(self.acks) <= FILES_SYNCED_HERE_MAX
        )
