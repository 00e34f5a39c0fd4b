"""Messages that wait for a time, under a broker that dies: none confirmed is lost, none comes early.

Some are delayed by their publisher, some were given back and wait for another try. A message may come twice:
one that was just being handed to its queue, or from it, when the broker died.
"""

from __future__ import annotations

import contextlib
import random
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pamqp import commands as spec
from pamqp import encode

from embermq.broker.delayed import schedule
from tests.crash.client import BODY, HEADER, METHOD, REPLY_SECONDS_MAX, Client, Delivery, Lost, wire_frame
from tests.crash.machine import Machine
from tools.brokers import EmberBroker

QUEUE, RETRIED = "crash.delayed", "crash.retried"
LIVES = 5
LIFE_SECONDS_MAX = 0.8
DELAY_MS_MAX = 900
BATCH = 40
HEADERS_AND_MODE = 0x3000
PERSISTENT = b"\x02"


def delayed_frames(queue: str, body: bytes, headers: Mapping[str, int]) -> bytes:
    properties = struct.pack(">H", HEADERS_AND_MODE) + encode.field_table(dict(headers)) + PERSISTENT
    name = bytes([len(queue)]) + queue.encode()
    return (
        wire_frame(METHOD, b"\x00\x3c\x00\x28\x00\x00\x00" + name + b"\x00")
        + wire_frame(HEADER, struct.pack(">HHQ", 60, 0, len(body)) + properties)
        + wire_frame(BODY, body)
    )


def declare(client: Client) -> None:
    client.call(spec.Queue.Declare(queue=QUEUE, durable=True))
    arguments = {"x-retry-delay": 150, "x-retry-backoff": 2}
    client.call(spec.Queue.Declare(queue=RETRIED, durable=True, arguments=arguments))


class Ledger:
    """What was published, when it may come at the earliest, and what has come."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.earliest_ms: dict[bytes, int] = {}
        self.confirmed: set[bytes] = set()
        self.given_back: set[bytes] = set()
        self.done: set[bytes] = set()
        self.faults: list[str] = []

    def missing(self) -> set[bytes]:
        with self.lock:
            return self.confirmed - self.done


def publish(client: Client, ledger: Ledger, name: str, chance: random.Random) -> None:
    waiting: dict[int, bytes] = {}

    def on_confirm(tag: int, multiple: bool) -> None:
        with ledger.lock:
            for known in [known for known in waiting if known == tag or (multiple and known < tag)]:
                ledger.confirmed.add(waiting.pop(known))

    client.on_confirm = on_confirm
    client.call(spec.Confirm.Select())
    tag = 0
    while True:
        frames = []
        for _ in range(chance.randint(1, BATCH)):
            tag += 1
            body = f"{name}/{tag}".encode()
            delay_ms = chance.choice([0, 40, 300, chance.randint(1, DELAY_MS_MAX)])
            with ledger.lock:
                ledger.earliest_ms[body] = int(time.time() * 1000) + delay_ms
                waiting[tag] = body
            frames.append(delayed_frames(chance.choice([QUEUE, RETRIED]), body, {"x-delay": delay_ms}))
        client.send_bytes(b"".join(frames))
        while len(waiting) > BATCH:
            client.next()


def take(client: Client, ledger: Ledger, queue: str) -> None:
    """Acks what comes; of the queue with retries it gives each message back once."""

    def on_delivery(delivery: Delivery) -> None:
        body = delivery.body
        with ledger.lock:
            early_ms = ledger.earliest_ms[body] - time.time() * 1000
            if early_ms > 0:
                ledger.faults.append(f"{body!r} came {early_ms:.1f} ms early")
            again = queue == QUEUE or body in ledger.given_back
            (ledger.done if again else ledger.given_back).add(body)
        client.send(spec.Basic.Ack(delivery.tag) if again else spec.Basic.Reject(delivery.tag, True))

    client.on_delivery = on_delivery
    client.call(spec.Basic.Qos(prefetch_count=100))
    client.call(spec.Basic.Consume(queue=queue))
    while True:
        client.next()


def at_work(work: Callable[..., None], port: int, *arguments: object) -> threading.Thread:
    def run() -> None:
        with contextlib.suppress(Lost), contextlib.closing(Client(port)) as client:
            work(client, *arguments)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_while_messages_wait(tmp_path: Path, seed: int) -> None:
    chance, ledger = random.Random(seed), Ledger()
    with EmberBroker(tmp_path / "data") as broker:
        client = Client(broker.port)
        declare(client)
        client.close()
        for life in range(LIVES):
            workers = [at_work(take, broker.port, ledger, queue) for queue in (QUEUE, RETRIED)]
            for number in range(2):
                name = f"{life}-{number}"
                workers.append(at_work(publish, broker.port, ledger, name, random.Random(chance.random())))
            deadline = time.monotonic() + REPLY_SECONDS_MAX
            while len(ledger.confirmed) <= BATCH and time.monotonic() < deadline:
                time.sleep(0.01)  # a busy machine may not get to work within the time of a life
            time.sleep(chance.uniform(0.1, LIFE_SECONDS_MAX))
            broker.kill()
            for worker in workers:
                worker.join(REPLY_SECONDS_MAX)
            broker.start()
        assert ledger.confirmed, "no message was ever confirmed: this history has proven nothing"
        for queue in (QUEUE, RETRIED):
            at_work(take, broker.port, ledger, queue)
        deadline = time.monotonic() + REPLY_SECONDS_MAX
        while ledger.missing() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not ledger.missing(), f"lost: {sorted(ledger.missing())[:10]}\n{broker.log_tail()}"
        assert not ledger.faults
        assert ledger.given_back
        assert "damaged" not in broker.log_tail()


@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_while_messages_wait(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was confirmed is in the schedule afterwards, and goes to its queue when its time comes."""
    monkeypatch.setattr(schedule, "HEAD_COUNT_MAX", 6)  # so that messages move to runs all the time
    chance, due = random.Random(seed), int(time.time() * 1000) + 1_000_000
    confirmed = 0

    def on_confirm(tag: int, multiple: bool) -> None:
        nonlocal confirmed
        confirmed = tag

    (tmp_path / "disk").mkdir()
    machine = Machine(str(tmp_path / "disk"))
    client = machine.client()
    declare(client)
    client.on_confirm = on_confirm
    client.call(spec.Confirm.Select())
    sent = chance.randint(1, 60)
    if chance.random() < 0.5:
        machine.filesystem.write_bytes_max = 100
    for number in range(1, sent + 1):
        headers = {"x-deliver-at": due + chance.randrange(500)}
        client.send_bytes(delayed_frames(QUEUE, str(number).encode(), headers))
        machine.steps(chance.randint(0, 3))
    while confirmed < chance.randint(1, sent):
        client.next()
    machine.power_cut(str(tmp_path / "after"), chance)
    promised = confirmed
    machine.crash()
    again = Machine(str(tmp_path / "after"))
    delays = again.broker.vhosts["/"].delays
    assert delays.count >= promised
    delays.on_due(due + 1000)
    again.steps(3)
    found = {int(message.body) for message in again.broker.vhosts["/"].queues[QUEUE].messages()}
    assert found >= set(range(1, promised + 1))
    assert delays.count == 0
    again.crash()
