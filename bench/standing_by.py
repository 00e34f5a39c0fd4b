"""A bystander: a process that sends one small message at a time and waits for it, while others are busy."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

from bench.frames import consume, publication
from bench.session import Session
from tools.brokers import Broker

QUIET_S = 0.3  # before and after

Act = Callable[[], None]


def stand_by(host: str, port: int, pipe: Pipe) -> None:
    """The bystander: round trips until told to stop, then when each began and how long it took."""
    session = Session(host, port)
    session.declare_queue("bystander")
    session.call(consume("bystander", 0, no_ack=True), (60, 21))
    message, _ = publication("", "bystander", 16, persistent=False)
    trips: list[tuple[float, float]] = []
    while not pipe.poll():
        began = time.monotonic()
        session.socket.sendall(message)
        kind = 0
        while kind != 3:
            kind, _, _ = session.read_raw()
        trips.append((began, time.monotonic() - began))
        time.sleep(0.0002)
    pipe.send(trips)
    session.close()


@dataclass(frozen=True)
class Waits:
    """The bystander's round trips before something was asked for and during it, and how long that took."""

    before_s: list[float]
    during_s: list[float]
    took_s: float


def beside(broker: Broker, act: Act) -> Waits:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=stand_by, args=(broker.host, broker.port, theirs), daemon=True
    )
    process.start()
    time.sleep(2 * QUIET_S)
    began = time.monotonic()
    act()
    took_s = time.monotonic() - began
    time.sleep(QUIET_S)
    ours.send(None)
    trips = ours.recv()
    process.join()
    return Waits(
        [took for start, took in trips[1:] if start + took < began],
        [took for start, took in trips if start + took >= began],
        took_s,
    )
