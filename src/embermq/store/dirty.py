"""What a log has written and nobody has synced."""

from __future__ import annotations

from embermq.store.filesystem import File

# Sets that are never changed, only replaced: idle logs, of which there are many, share the empty ones.
NO_FILES: frozenset[File] = frozenset()
NO_NAMES: frozenset[str] = frozenset()


class Dirty:
    """What must be synced before anything written so far counts as safe; `acks` may wait longer."""

    __slots__ = ("acks", "directories", "files")

    def __init__(self, files: frozenset[File], directories: frozenset[str], acks: frozenset[File]) -> None:
        self.files = files
        self.directories = directories
        self.acks = acks
