"""The files of a log: opened by name, made when they are first written to; and which of them are dirty."""

from __future__ import annotations

import contextlib
import os
from typing import Protocol

from embermq.store.dirty import NO_FILES, NO_NAMES, Dirty
from embermq.store.disk import Disk
from embermq.store.filesystem import File, write_all, write_part
from embermq.store.layout import LABEL
from embermq.store.segment import Segment


class Owner(Protocol):
    def records_lost(self) -> None:
        """Damage was found, and what it took is not here any more."""

    def label(self) -> bytes:
        """What the directory shall say about itself; empty: nothing."""


class LogFiles:
    """The half of a `Log` that knows where it stands on the disk. Nothing is there before it is needed."""

    __slots__ = (
        "directory",
        "dirty_acks",
        "dirty_directories",
        "dirty_files",
        "disk",
        "has_directory",
        "has_label",
        "owner",
    )

    def __init__(self, directory: str, disk: Disk, has_directory: bool) -> None:
        self.directory = directory
        self.disk = disk
        self.has_directory = has_directory
        self.has_label = False  # as far as we know: directories of older versions have none
        self.owner: Owner | None = None  # who counts what is here as well
        self.dirty_files = NO_FILES
        self.dirty_directories = NO_NAMES
        self.dirty_acks = NO_FILES

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
        """Say in the directory whose it is, for the day when no definition does. Nobody waits for it."""
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
        """In the background; nobody need sync it any more."""
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
