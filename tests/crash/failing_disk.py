"""`embermq` on a disk that fails on request: a program, and the broker object that runs it.

The program puts faults between the store and the operating system and is EmberMQ otherwise. Which fault is in
force stands in a file that the test writes: "full", "bad writes", "short writes", "bad syncs", or nothing.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from embermq.store import data_directory
from embermq.store.disk.filesystem import File, FileSystem
from tools.brokers import EmberBroker

CONTROL = "CRASH_TEST_FAULT_FILE"  # not EMBERMQ_…: that would be a setting
SHORT_BYTES = 9


class FaultyBroker(EmberBroker):
    def __init__(self, data_dir: Path) -> None:
        self.control = data_dir.with_name("fault")
        self.control.touch()
        repository = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(part for part in (os.environ.get("PYTHONPATH"), repository) if part)
        super().__init__(data_dir, env={CONTROL: str(self.control), "PYTHONPATH": path})

    def command(self) -> list[str]:
        command = super().command()
        return [sys.executable, __file__, *command[command.index("serve") :]]

    def fault(self, what: str) -> None:
        # In one step: the broker may look at any moment.
        unfinished = self.control.with_suffix(".new")
        unfinished.write_text(what)
        unfinished.rename(self.control)


def fault() -> str:
    with open(os.environ[CONTROL]) as file:
        return file.read()


def broken(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


class FailingFileSystem(FileSystem):
    def write_at(self, file: File, data: bytes | bytearray | memoryview, position: int) -> int:
        what = fault()
        if what == "full":
            raise broken(errno.ENOSPC, file.path)
        if what == "bad writes":
            raise broken(errno.EIO, file.path)
        if what == "short writes":
            data = memoryview(data)[:SHORT_BYTES]
        return super().write_at(file, data, position)

    def write_synced(self, file: File, data: bytearray, size: int, position: int) -> int:
        done = self.write_at(file, memoryview(data)[:size], position)
        self.sync(file)
        return done

    def sync(self, file: File) -> None:
        if fault() == "bad syncs":
            raise broken(errno.EIO, file.path)
        super().sync(file)

    def sync_everything(self, directory: File) -> None:
        if fault() == "bad syncs":
            raise broken(errno.EIO, directory.path)
        super().sync_everything(directory)


if __name__ == "__main__":
    from embermq.cli.main import main

    data_directory.FileSystem = FailingFileSystem  # type: ignore[misc]
    sys.exit(main())
