"""One who waits: what is counted was confirmed, and nothing else passes for a confirm."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.build import load_module
from bench.frames import frame, method, publication
from bench.scenario import Options
from bench.waiting_alone import run_waiting_alone
from tools.brokers import EmberBroker

waiting = load_module("waiting")
BLOCK, BODY_AT = publication("", "q", 100, persistent=True)


def confirm(number: int) -> bytes:
    return method(60, 80, number.to_bytes(8, "big") + b"\x00")


def publish(answer: Callable[[int], bytes], seconds: float = 0.05, before: int = 0) -> tuple[int, int]:
    """Before a broker that answers so: the last number confirmed, and how many messages came there."""
    ours, theirs = socket.socketpair()
    seen: list[int] = []

    def play_broker() -> None:
        while data := theirs.recv(len(BLOCK), socket.MSG_WAITALL):
            assert data[:BODY_AT] == BLOCK[:BODY_AT] and len(data) == len(BLOCK)
            seen.append(int.from_bytes(data[BODY_AT : BODY_AT + 8], "big"))
            theirs.sendall(answer(before + len(seen)))

    broker = threading.Thread(target=play_broker)
    broker.start()
    try:
        with ours:
            number, seconds_taken = waiting.publish_and_wait(
                ours.fileno(), bytearray(BLOCK), BODY_AT, before, seconds
            )
            assert seconds_taken >= seconds
    finally:
        broker.join()
        theirs.close()
    assert seen == list(range(before, before + len(seen)))
    return number, len(seen)


@pytest.mark.parametrize("before", [0, 1000])
def test_each_message_is_confirmed_before_the_next(before: int) -> None:
    number, seen = publish(confirm, before=before)
    assert number == before + seen and seen > 0


@pytest.mark.parametrize(
    "answer",
    [
        lambda number: confirm(number + 1),
        lambda number: confirm(number) + confirm(number),
        lambda number: method(60, 120, number.to_bytes(8, "big") + b"\x00"),
        lambda number: frame(8, 0, bytes(13)),
    ],
    ids=["another", "twice", "nack", "no method"],
)
def test_nothing_else_is_a_confirm(answer: Callable[[int], bytes]) -> None:
    with pytest.raises(waiting.WaitingError, match="no confirm for message 1"):
        publish(answer)


def test_syncs_are_counted(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    count, seconds = waiting.append_and_sync(descriptor, 100, 0.02)
    os.close(descriptor)
    assert count > 0 and seconds >= 0.02
    assert (tmp_path / "file").stat().st_size == 100 * count
    with pytest.raises(OSError, match="Bad file descriptor"):
        waiting.append_and_sync(descriptor, 100, 0.02)


def test_three_take_turns() -> None:
    with EmberBroker() as broker:
        metrics = run_waiting_alone(broker, Options(seconds=0.1)).metrics
    assert metrics["to_fdatasync"] == metrics["messages_per_second"] / metrics["fdatasync_per_second"]
    assert metrics["to_least_server"] == metrics["messages_per_second"] / metrics["least_server_per_second"]
