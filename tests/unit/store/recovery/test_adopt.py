"""Directories without a queue become queues again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from embermq.store.data_directory import DataDirectory
from embermq.store.definitions import read_definitions
from embermq.store.errors import StoreFailure
from embermq.store.log.record import PERSISTENT
from embermq.store.recovery.adopt import adopt
from tests.unit.store.sync.test_committer import Loop


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A virtual host, a queue, and directories that no queue has, one of them empty."""
    opened = DataDirectory.open(str(tmp_path), Loop().call_soon_threadsafe)
    opened.definitions.put("vhost", "", "/", {})
    opened.definitions.put("queue", "/", "taken", {"id": "there", "auto_delete": False})
    for log_id in ("lost", "lost.p003", "there", "transient-1"):
        log = opened.open_log(log_id)
        log.append(1, 0, PERSISTENT, (b"precious",))
        log.write()
    (tmp_path / "queues" / "empty").mkdir()
    opened.close()
    return tmp_path


def queues(data: Path) -> dict[str, dict[str, object]]:
    found = read_definitions(str(data / "definitions.sqlite"), "queue")
    return {definition.name: definition.body for definition in found}


def test_a_directory_that_does_not_say_whose_it_is_gets_a_name(data: Path) -> None:
    assert list(adopt(str(data), [])) == ["lost: queue 'adopted-lost' in vhost '/' is back, without bindings"]
    assert queues(data)["adopted-lost"] == {
        "auto_delete": False,
        "arguments": {"x-max-priority": 3},
        "id": "lost",
    }
    assert (data / "queues" / "lost.p003").is_dir() and not list((data / "unclaimed").iterdir())
    assert list(adopt(str(data), [])) == ["nothing to adopt: every directory belongs to a queue"]


def test_what_cannot_be_adopted_is_told(data: Path) -> None:
    with pytest.raises(StoreFailure, match="there is a queue 'taken' in vhost '/' already"):
        list(adopt(str(data), ["lost"], name="taken"))
    with pytest.raises(StoreFailure, match="has the id nothing"):
        list(adopt(str(data), ["nothing"]))
    shutil.copytree(data / "unclaimed" / "lost", data / "unclaimed" / "other")
    with pytest.raises(StoreFailure, match="a name is for one queue"):
        list(adopt(str(data), [], name="new"))
    list(adopt(str(data), ["lost"], vhost="elsewhere", name="new"))
    assert queues(data)["new"]["id"] == "lost"
    assert [vhost.name for vhost in read_definitions(str(data / "definitions.sqlite"), "vhost")] == [
        "/",
        "elsewhere",
    ]


def test_a_start_deletes_what_is_accounted_for_and_nothing_else(data: Path) -> None:
    opened = DataDirectory.open(str(data), Loop().call_soon_threadsafe)
    opened.sort_out(["there", "there.high"])
    opened.close()
    assert sorted(path.name for path in (data / "queues").iterdir()) == ["there"]
    assert sorted(path.name for path in (data / "unclaimed").iterdir()) == ["lost", "lost.p003"]
