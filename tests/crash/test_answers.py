"""An answer is a promise: none leaves before what it says is on disk, whoever asked for it first."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import base
from pamqp import commands as spec

from embermq.store.definitions import Definitions, read_definitions
from tests.crash.machine import Machine

STEPS = 50  # passes of the loop: more than any answer needs that does not wait for the disk


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    running = Machine(str(tmp_path))
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
