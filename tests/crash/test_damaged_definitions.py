"""Definitions that lost something: no queue goes with them, and nobody is left to guess."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pamqp import commands as spec

from embermq.cli.main import main
from embermq.store.data_directory import DataDirectory
from embermq.store.errors import StoreFailure
from tests.crash.client import ChannelClosed, Client, publish_frames
from tools.brokers import BrokerError, EmberBroker

QUEUES = [f"queue-{number}" for number in range(8)]
MESSAGES = 5
FLIPS = 60
DEFINITIONS, WAL, NOTE = "definitions.sqlite", "definitions.sqlite-wal", "definitions.commits"


def declare_and_fill(port: int, queues: list[str]) -> None:
    """One after the other, so that each has a commit of its own."""
    client = Client(port)
    confirmed: list[int] = []
    client.on_confirm = lambda tag, multiple: confirmed.append(tag)
    client.call(spec.Confirm.Select())
    for queue in queues:
        client.call(spec.Queue.Declare(queue=queue, durable=True))
        bodies = [b"%d" % number for number in range(MESSAGES)]
        client.send_bytes(b"".join(publish_frames("", queue, body, True, None) for body in bodies))
    while not confirmed or confirmed[-1] < MESSAGES * len(queues):
        client.next()
    client.close()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a broker that was killed: what it defined is in the WAL."""
    directory = tmp_path_factory.mktemp("killed") / "data"
    with EmberBroker(directory) as broker:
        declare_and_fill(broker.port, QUEUES)
        broker.kill()
    assert (directory / WAL).stat().st_size > 20_000
    return directory


@pytest.fixture
def data(killed: Path, tmp_path: Path) -> Path:
    """A copy, to be damaged at will."""
    shutil.copytree(killed, tmp_path / "data")
    return tmp_path / "data"


def content(port: int) -> dict[str, int]:
    """Which queues there are, and how many messages are in each."""
    found = {}
    for queue in QUEUES:
        client = Client(port)
        with contextlib.suppress(ChannelClosed):
            found[queue] = client.call(spec.Queue.Declare(queue=queue, passive=True)).message_count
        client.close()
    return found


def run(*arguments: object) -> tuple[int, str]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue()


def everything(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in ("LOCK", "definitions.sqlite-shm")
    }


def cut(data: Path) -> None:
    with (data / WAL).open("r+b") as file:
        file.truncate((data / WAL).stat().st_size * 6 // 10)


def flip(data: Path) -> None:
    with (data / WAL).open("r+b") as file:
        file.seek((data / WAL).stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 4]))


@pytest.mark.parametrize("damage", [cut, flip])
def test_a_damaged_wal_is_refused_until_what_is_left_is_accepted(
    data: Path, damage: Callable[[Path], None]
) -> None:
    damage(data)
    before = everything(data)
    broker = EmberBroker(data)
    with pytest.raises(BrokerError, match=r"definitions\.sqlite has lost \d+ of \d+ commits"):
        broker.start()
    assert "Traceback" not in broker.log_tail()
    code, out = run("store", "check", data)
    assert code == 1 and "commits" in out and "DAMAGED" in out
    assert everything(data) == before, "nothing is touched before a person has looked"
    code, out = run("store", "adopt", data)
    assert code == 0 and "accepted: " in out, out
    with broker.start():
        assert content(broker.port) == dict.fromkeys(QUEUES, MESSAGES)
        broker.stop()
    assert run("store", "check", data)[0] == 0


def test_queues_come_back_without_any_definitions(data: Path) -> None:
    (data / WAL).unlink()
    broker = EmberBroker(data)
    with pytest.raises(BrokerError, match="is empty, and nothing else says whose messages are in"):
        broker.start()
    code, out = run("store", "adopt", data)
    assert code == 0 and "start a broker, which begins anew" in out, out
    with broker.start():
        assert content(broker.port) == {}
        broker.stop()
        assert run("store", "adopt", data)[0] == 0
        broker.start()
        assert content(broker.port) == dict.fromkeys(QUEUES, MESSAGES)


def test_any_flipped_bit_is_harmless_or_noticed(data: Path, request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--crash-seed") or 1
    chance = random.Random(seed)
    sound = {name: (data / name).read_bytes() for name in (DEFINITIONS, WAL, NOTE)}
    noticed = 0
    for _ in range(FLIPS):
        for name, content in sound.items():
            (data / name).write_bytes(content)
        spoiled = bytearray(sound[name := chance.choice([DEFINITIONS, WAL, WAL, WAL, NOTE])])
        spoiled[at := chance.randrange(len(spoiled))] ^= 1 << chance.randrange(8)
        (data / name).write_bytes(spoiled)
        try:
            opened = DataDirectory.open(str(data), lambda function, *args: None)
        except StoreFailure:
            noticed += 1
            continue
        found = [definition.name for definition in opened.definitions.all("queue")]
        opened.close()
        assert found == QUEUES, f"seed {seed}: byte {at} of {name}"
    assert noticed


def test_an_older_copy_over_newer_queues_is_noticed(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / DEFINITIONS
    with EmberBroker(data) as broker:
        declare_and_fill(broker.port, QUEUES[:3])
        broker.stop()
        shutil.copy(data / DEFINITIONS, backup)
        shutil.copy(data / NOTE, tmp_path / NOTE)
        broker.start()
        declare_and_fill(broker.port, QUEUES[3:])
        broker.stop()
        shutil.copy(backup, data / DEFINITIONS)
        with pytest.raises(BrokerError, match="an older copy was put in its place"):
            broker.start()
        # With the note restored as well, nothing tells it from the newest but queues that it does not name.
        shutil.copy(tmp_path / NOTE, data / NOTE)
        code, out = run("store", "check", data)
        assert code == 1 and "5 logs WITHOUT A QUEUE" in out and "once of queue 'queue-3' in vhost '/'" in out
        broker.start()
        assert content(broker.port) == dict.fromkeys(QUEUES[:3], MESSAGES)
        broker.stop()
        assert broker.log_path.read_text().count("has no definition: it was set aside as") == 5
        assert len(list((data / "unclaimed").iterdir())) == 5
        assert run("store", "check", data)[0] == 1
        one = min(path.name for path in (data / "unclaimed").iterdir())
        code, out = run("store", "adopt", data, one, "--queue", "one of them")
        assert (code, out) == (0, f"{one}: queue 'one of them' in vhost '/' is back, without bindings\n")
        assert run("store", "adopt", data)[0] == 0
        broker.start()
        found = content(broker.port)
        assert len(found) == 7 and set(found.values()) == {MESSAGES}
        broker.stop()
        assert run("store", "check", data)[0] == 0


def test_a_deletion_that_was_under_way_is_finished(data: Path) -> None:
    """Its files are there still, its definition is not; and there is a note of that."""
    opened = DataDirectory.open(str(data), lambda function, *args: None)
    ids = {definition.name: definition.body["id"] for definition in opened.definitions.all("queue")}
    opened.note_deletions([ids["queue-1"]])
    opened.definitions.delete("queue", "/", "queue-1")
    opened.note_deletions([ids["queue-2"]])  # and the deletion itself came too late
    opened.close()
    assert run("store", "check", data)[0] == 0
    with EmberBroker(data) as broker:
        expected = {name: MESSAGES for name in QUEUES if name != "queue-1"}
        assert content(broker.port) == expected
        broker.stop()
        assert not (data / "queues" / ids["queue-1"]).exists() and not (data / "unclaimed").exists()
        broker.start()
        assert content(broker.port) == expected


def test_directories_of_an_older_version_learn_whose_they_are(data: Path) -> None:
    labels = sorted(data.glob("queues/*/queue.json"))
    before = [label.read_bytes() for label in labels]
    assert len(labels) == len(QUEUES)
    for label in labels:
        label.unlink()
    with EmberBroker(data) as broker:
        declare_and_fill(broker.port, QUEUES)
        broker.stop()
    assert [label.read_bytes() for label in labels] == before


def missing(note: Path) -> None:
    note.unlink()


def zeroed(note: Path) -> None:
    note.write_bytes(bytes(note.stat().st_size))


@pytest.mark.parametrize("damage", [missing, zeroed])
def test_a_lost_note_of_the_commits_is_told_and_made_anew(data: Path, damage: Callable[[Path], None]) -> None:
    """Without it nothing tells whether the database is whole: no reason to stop, but one to say so."""
    damage(data / NOTE)
    code, out = run("store", "check", data)
    assert code == 1 and f"{data / NOTE} is " in out, out
    with EmberBroker(data) as broker:
        assert f"{data / NOTE} is " in broker.log_tail()
        assert content(broker.port) == dict.fromkeys(QUEUES, MESSAGES)
        broker.stop()
        assert run("store", "check", data)[0] == 0
        said = broker.log_tail().count(str(data / NOTE))
        broker.start()
        assert broker.log_tail().count(str(data / NOTE)) == said, "once is enough"
