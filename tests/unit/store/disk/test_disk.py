"""Closing a disk deletes no whole queues: they go to the trash, which the next start empties."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from embermq.store.disk.disk import Disk
from embermq.store.disk.filesystem import FileSystem
from embermq.store.disk.page_cache import PageCache
from tests.support.domain import message, new_queue
from tests.support.stored_domain import StoredBroker

FILES, QUEUES = 5, 20
WAIT_S = 60


class Gate(PageCache):
    """Tells that the disk is being closed."""

    def __init__(self, filesystem: FileSystem) -> None:
        super().__init__(filesystem)
        self.closing = threading.Event()

    def close(self) -> None:
        self.closing.set()
        super().close()


class GatedFileSystem(FileSystem):
    """Its first deletion takes until the disk is being closed."""

    gate: Gate | None = None

    def __init__(self) -> None:
        super().__init__()
        self.deleting = threading.Event()

    def unlink(self, path: str) -> None:
        if self.gate is not None:
            self.deleting.set()
            assert self.gate.closing.wait(WAIT_S)
        super().unlink(path)


def make_queues(root: Path) -> list[Path]:
    (root / "trash").mkdir()
    queues = [root / "queues" / str(number) for number in range(QUEUES)]
    for queue in queues:
        queue.mkdir(parents=True)
        for number in range(FILES):
            (queue / str(number)).write_bytes(b"x")
    return queues


def files(directory: Path) -> int:
    return sum(path.is_file() for path in directory.rglob("*"))


def test_what_was_not_begun_is_in_the_trash_and_segments_are_gone(tmp_path: Path) -> None:
    gate = Gate(FileSystem())
    disk = Disk(FileSystem(), str(tmp_path / "trash"), cache=gate)
    going, kept = make_queues(tmp_path)[1:], tmp_path / "queues" / "0"
    disk.when_deleted(lambda: gate.closing.wait(WAIT_S))
    for queue in going:
        disk.drop_directory(str(queue))
    disk.delete_segment(str(kept / "0"), str(kept / "1"))  # of a stream, perhaps: it would be back
    disk.close()
    assert list((tmp_path / "queues").iterdir()) == [kept] and files(kept) == FILES - 2
    assert files(tmp_path / "trash") == (QUEUES - 1) * FILES
    disk = Disk(FileSystem(), str(tmp_path / "trash"))
    disk.empty_trash()
    disk.wait_deleted()
    assert list((tmp_path / "trash").iterdir()) == []
    disk.close()


@pytest.mark.parametrize("from_trash", [False, True])
def test_a_deletion_under_way_ends_with_the_file_that_it_is_at(tmp_path: Path, from_trash: bool) -> None:
    filesystem = GatedFileSystem()
    filesystem.gate = gate = Gate(filesystem)
    disk = Disk(filesystem, str(tmp_path / "trash"), cache=gate)
    for queue in make_queues(tmp_path):
        if from_trash:
            queue.rename(tmp_path / "trash" / queue.name)
        else:
            disk.drop_directory(str(queue))
    if from_trash:
        disk.empty_trash()
    assert filesystem.deleting.wait(WAIT_S)
    disk.close()
    assert list((tmp_path / "queues").iterdir()) == []
    assert files(tmp_path / "trash") == QUEUES * FILES - 1


def test_what_a_stop_leaves_the_next_start_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = StoredBroker(tmp_path)
    for number in range(QUEUES + 1):
        new_queue(stored.vhost, f"q{number}", durable=True).append(message(b"%d" % number, persistent=True))
    stored.wait_until_safe()
    gate = Gate(FileSystem())
    monkeypatch.setattr(stored.data.disk.cache, "close", gate.close)
    stored.data.disk.when_deleted(lambda: gate.closing.wait(WAIT_S))
    for number in range(1, QUEUES + 1):
        stored.vhost.delete_queue(stored.vhost.queues[f"q{number}"])
    stored.wait_until_safe()
    stored.storage.tidy()  # which has the notes go, once the files are gone
    stored.stop()
    assert len(list((tmp_path / "trash").iterdir())) == QUEUES
    with StoredBroker(tmp_path) as stored:
        (queue,) = stored.vhost.queues.values()
        assert [each.body for each in queue.messages()] == [b"0"]
        assert not (tmp_path / "unclaimed").exists()
        stored.data.disk.wait_deleted()
        assert list((tmp_path / "trash").iterdir()) == []
        assert len(stored.data.definitions.all("deleting")) == QUEUES
        stored.storage.tidy()
        stored.data.disk.wait_deleted()
        assert stored.data.definitions.all("deleting") == []
