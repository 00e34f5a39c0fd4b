"""Definitions in SQLite: group commit, order, restart, refusal of newer files."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from embermq.store.definitions import Definitions, definitions_damage, read_definitions
from embermq.store.errors import CommitFailed, DefinitionsBehind, NewerVersion, NotADataDirectory
from tests.unit.store.sync.test_committer import Loop


def opened(path: Path) -> tuple[Loop, Definitions]:
    loop = Loop()
    return loop, Definitions(str(path), loop.call_soon_threadsafe)


def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "definitions.sqlite"
    _, definitions = opened(path)
    definitions.put("queue", "/", "b", {"durable": True, "arguments": {"x": [1, None, "ü"]}})
    definitions.put("queue", "/", "a", {"old": 1})
    definitions.put("queue", "/", "a", {"new": 2})
    definitions.put("queue", "/", "gone", {})
    definitions.put("exchange", "/", "a", {"type": "topic"})
    definitions.delete("queue", "/", "gone")
    definitions.delete("queue", "/", "never was")
    definitions.close()
    _, definitions = opened(path)
    expected = [("/", "a", {"new": 2}), ("/", "b", {"durable": True, "arguments": {"x": [1, None, "ü"]}})]
    assert definitions.all("queue") == expected
    assert definitions.all("exchange") == [("/", "a", {"type": "topic"})]
    assert definitions.all("user") == []
    definitions.close()
    assert list(read_definitions(str(path), "queue")) == expected


def test_callbacks_come_in_order_and_in_groups(tmp_path: Path) -> None:
    loop, definitions = opened(tmp_path / "definitions.sqlite")
    done: list[int] = []
    for number in range(2000):
        definitions.put("queue", "/", f"q{number}", {}, lambda error, number=number: done.append(number))
    while len(done) < 2000:
        loop.run_one()
    assert done == list(range(2000))
    assert definitions.commits < 1000
    assert len(definitions.all("queue")) == 2000
    definitions.close()


def test_flush_waits_for_everything_before(tmp_path: Path) -> None:
    loop, definitions = opened(tmp_path / "definitions.sqlite")
    definitions.put("queue", "/", "q", {})
    done: list[Any] = []
    definitions.flush(done.append)
    loop.run_one()
    assert done == [None]
    other = sqlite3.connect(tmp_path / "definitions.sqlite")
    assert other.execute("SELECT count(*) FROM definition WHERE kind = 'queue'").fetchone() == (1,)
    other.close()
    definitions.close()


def test_a_failed_commit_is_told_and_ends_the_work(tmp_path: Path) -> None:
    loop, definitions = opened(tmp_path / "definitions.sqlite")
    saboteur = sqlite3.connect(tmp_path / "definitions.sqlite")
    saboteur.execute("DROP TABLE definition")
    saboteur.commit()
    saboteur.close()
    done: list[Any] = []
    definitions.put("queue", "/", "q", {}, done.append)
    loop.run_one()
    definitions.put("queue", "/", "q", {}, done.append)
    loop.run_one()
    assert isinstance(done[0], CommitFailed)
    assert done[1] is done[0]
    definitions.close()


def test_names_that_are_no_unicode_fail_their_caller_only(tmp_path: Path) -> None:
    _, definitions = opened(tmp_path / "definitions.sqlite")
    with pytest.raises(UnicodeEncodeError):
        definitions.put("queue", "/", "\udcff", {})
    definitions.put("queue", "/", "ok", {"text": "\udcff"})
    assert definitions.all("queue") == [("/", "ok", {"text": "\udcff"})]
    definitions.close()


def test_files_we_cannot_read_are_refused(tmp_path: Path) -> None:
    newer = tmp_path / "newer.sqlite"
    opened(newer)[1].close()
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    with pytest.raises(NewerVersion, match="definitions version 3"):
        opened(newer)
    with pytest.raises(NewerVersion):
        list(read_definitions(str(newer), "queue"))
    stranger = tmp_path / "stranger.sqlite"
    connection = sqlite3.connect(stranger)
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(NotADataDirectory, match="another program"):
        opened(stranger)
    garbage = tmp_path / "garbage.sqlite"
    garbage.write_bytes(b"no database" * 1000)
    with pytest.raises(NotADataDirectory, match="cannot be read"):
        opened(garbage)


def test_a_file_that_cannot_be_written_is_told_to_who_reads_on(tmp_path: Path) -> None:
    """A start that forgets the note of the last stop must not go on when it could not."""
    path = tmp_path / "definitions.sqlite"
    definitions = opened(path)[1]
    definitions._connection.execute("PRAGMA query_only = ON")
    definitions.put("stopped", "", "", {})
    with pytest.raises(CommitFailed, match=r"writing .*sqlite failed: attempt to write a readonly database"):
        definitions.all("stopped")
    definitions.close()


def spoil(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xa5" * 200)


def test_damage_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "definitions.sqlite"
    definitions = opened(path)[1]
    for number in range(200):
        definitions.put("queue", "/", f"queue {number}", {"id": f"{number:032x}"})
    definitions.close()
    sound = path.read_bytes()
    for position in range(4096, len(sound), 4096):  # each page but the first, which holds the version
        path.write_bytes(sound)
        spoil(path, position)
        with pytest.raises(NotADataDirectory, match=r"is damaged|cannot be read"):
            opened(path)
        with pytest.raises(NotADataDirectory, match=r"is damaged|cannot be read"):
            list(read_definitions(str(path), "queue"))
    path.write_bytes(sound.replace(b'{"id"', b'{"id#', 1))
    with pytest.raises(NotADataDirectory, match=r"queue 'queue .*' cannot be read"):
        list(read_definitions(str(path), "queue"))
    with pytest.raises(DefinitionsBehind, match="its rows are not those that were committed"):
        opened(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(NotADataDirectory, match="cannot be read"):
        opened(path)


def test_a_file_that_is_empty_defines_nothing(tmp_path: Path) -> None:
    path = tmp_path / "definitions.sqlite"
    path.touch()
    assert list(read_definitions(str(path), "queue")) == []
    assert definitions_damage(str(path)) is None


def test_a_full_disk_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite says "full" beyond max_page_count just as it does when the disk is full."""
    monkeypatch.setattr("embermq.store.definitions.RETRY_SECONDS", 0.01)
    loop, definitions = opened(tmp_path / "definitions.sqlite")
    connection = definitions._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    answers: list[Exception | None] = []
    definitions.put("queue", "/", "large", {"text": "x" * 50_000}, answers.append)
    time.sleep(0.1)
    assert definitions.commits == 0
    assert not answers
    assert f"cannot write to {definitions.path}: the disk is full" in caplog.messages[0]
    connection.execute("PRAGMA max_page_count = 1000")
    while not answers:
        loop.run_one()
    assert answers == [None]
    assert [definition.name for definition in definitions.all("queue")] == ["large"]
    definitions.close()
