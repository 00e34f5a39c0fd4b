"""An answer is a promise: none leaves before what it says is on disk, whoever asked for it first."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import base
from pamqp import commands as spec

from embermq.store.definitions import Definitions, read_definitions
from tests.crash.client import REPLY_SECONDS_MAX, publish_frames
from tests.crash.machine import Machine

STEPS = 50  # passes of the loop: more than any answer needs that does not wait for the disk


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    disk = tmp_path / "disk"
    disk.mkdir()
    running = Machine(str(disk))
    yield running
    running.crash()


@pytest.fixture
def slow_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Definitions are not committed before this is set."""
    client = machine.client()
    client.call(spec.Exchange.Declare(exchange="there", exchange_type="fanout", durable=True))
    client.call(spec.Queue.Declare(queue="there", durable=True))
    commit, go_on = Definitions._commit, threading.Event()

    def slow_commit(self: Definitions, changes: list) -> None:
        go_on.wait()
        commit(self, changes)

    monkeypatch.setattr(Definitions, "_commit", slow_commit)
    yield go_on
    go_on.set()


REQUESTS = {
    "queue.declare": (spec.Queue.Declare(queue="new", durable=True), spec.Queue.DeclareOk),
    "queue.delete": (spec.Queue.Delete(queue="there"), spec.Queue.DeleteOk),
    "queue.bind": (spec.Queue.Bind(queue="there", exchange="there", routing_key="x"), spec.Queue.BindOk),
    "exchange.declare": (
        spec.Exchange.Declare(exchange="new", exchange_type="topic", durable=True),
        spec.Exchange.DeclareOk,
    ),
    "exchange.delete": (spec.Exchange.Delete(exchange="there"), spec.Exchange.DeleteOk),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_second_to_ask_waits_like_the_first(
    machine: Machine, slow_disk: threading.Event, name: str
) -> None:
    request: base.Frame
    request, reply = REQUESTS[name]
    first, second = machine.client(), machine.client()
    first.send(request)
    machine.steps(STEPS)
    second.send(request)
    machine.steps(STEPS)
    assert not first.has_answer()
    assert not second.has_answer()
    slow_disk.set()
    first.wait(reply)
    second.wait(reply)


def after_syncs(machine: Machine, count: int) -> None:
    """Let the loop run until the logs have been synced so many times, and until it has nothing to do."""
    before, deadline = machine.data.committer.syncs, time.monotonic() + REPLY_SECONDS_MAX
    while machine.data.committer.syncs < before + count:
        assert time.monotonic() < deadline, "nothing is synced"
        machine.step()
    machine.steps(STEPS)


def test_a_confirm_waits_for_the_queue_that_the_message_is_in(
    machine: Machine, slow_disk: threading.Event
) -> None:
    """Else a power cut could leave a confirmed message in a queue that was never declared."""
    first, second = machine.client(), machine.client()
    second.call(spec.Confirm.Select())
    first.send(spec.Queue.Declare(queue="new", durable=True))
    second.send_bytes(publish_frames("", "new", b"safe?", True, None))
    after_syncs(machine, 1)
    assert not second.has_answer()
    slow_disk.set()
    assert second.next() is None, "a confirm"
    first.wait(spec.Queue.DeclareOk)


def test_a_commit_waits_for_the_queue_that_its_messages_are_in(
    machine: Machine, slow_disk: threading.Event
) -> None:
    first, second = machine.client(), machine.client()
    second.call(spec.Tx.Select())
    first.send(spec.Queue.Declare(queue="new", durable=True))
    second.send_bytes(publish_frames("", "new", b"safe?", True, None))
    second.send(spec.Tx.Commit())
    after_syncs(machine, 1)
    assert not second.has_answer()
    slow_disk.set()
    second.wait(spec.Tx.CommitOk)


def test_a_dead_letter_leaves_its_queue_when_the_new_one_is_safe(
    machine: Machine, slow_disk: threading.Event, tmp_path: Path
) -> None:
    slow_disk.set()
    client, other = machine.client(), machine.client()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    client.call(spec.Queue.Declare(queue="source", durable=True, arguments=arguments))
    client.call(spec.Confirm.Select())
    client.send_bytes(publish_frames("", "source", b"letter", True, None))
    assert client.next() is None, "a confirm"
    slow_disk.clear()
    other.send(spec.Queue.Declare(queue="letters", durable=True))
    got = client.call_get("source")
    assert got is not None
    client.send(spec.Basic.Reject(got.tag, False))
    after_syncs(machine, 1)
    acks_synced = threading.Event()
    machine.data.committer.request(lambda failure: acks_synced.set(), with_acks=True)
    while not acks_synced.is_set():
        machine.step()
    machine.power_cut(str(tmp_path / "after"), random.Random(1))
    slow_disk.set()
    other.wait(spec.Queue.DeclareOk)
    after = Machine(str(tmp_path / "after"))
    try:
        assert after.client().call_get("source") is not None
    finally:
        after.crash()


def test_messages_delivered_in_a_short_life_are_marked_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note of a clean stop is gone from the disk before the next life begins."""
    disk = tmp_path / "disk"
    disk.mkdir()
    machine = Machine(str(disk))
    machine.broker.note_stop()
    machine.crash()
    commit = Definitions._commit

    def slow_commit(self: Definitions, changes: list) -> None:
        time.sleep(0.2)
        commit(self, changes)

    monkeypatch.setattr(Definitions, "_commit", slow_commit)
    machine = Machine(str(disk))
    try:
        assert list(read_definitions(str(disk / "definitions.sqlite"), "stopped")) == []
    finally:
        machine.crash()
