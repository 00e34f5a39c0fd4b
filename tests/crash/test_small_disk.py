"""A real file system that is really full: a few megabytes of memory, mounted for the test."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands as spec

from tests.crash.client import Client, publish_frames
from tools.brokers import EmberBroker

DISK_MEGABYTES = 24  # room for two segments and a part of the third
BODY_BYTES = 50_000
BATCH = 10
QUEUE = "kept"
WAITS = r"the start waits until there is room|clients wait for it"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The data directory; what the broker has to say goes elsewhere."""
    disk = tmp_path / "data"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "embermq-test", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"no small disk: {error}")
    if mounted.returncode:
        pytest.skip(f"no small disk: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


class Publisher:
    """Publishes until it is told to stop, and counts what is confirmed."""

    def __init__(self, port: int) -> None:
        self.client = Client(port, {"connection.blocked": True})
        self.client.on_confirm = self.on_confirm
        self.client.call(spec.Queue.Declare(queue=QUEUE, durable=True))
        self.client.call(spec.Confirm.Select())
        self.sent = self.confirmed = 0
        self.reasons: list[str] = []
        self.unblocked = False

    def on_confirm(self, tag: int, multiple: bool) -> None:
        self.confirmed = tag

    def publish(self) -> None:
        bodies = [body_of(number) for number in range(self.sent, self.sent + BATCH)]
        self.sent += BATCH
        self.client.send_bytes(b"".join(publish_frames("", QUEUE, body, True, None) for body in bodies))

    def read(self) -> None:
        method = self.client.next()
        if isinstance(method, spec.Connection.Blocked):
            self.reasons.append(method.reason)
        elif isinstance(method, spec.Connection.Unblocked):
            self.unblocked = True


def fill_up(directory: Path) -> Path:
    """Take every byte that is left, as another program would; the file to delete."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    return filler


def fill_queue(port: int, count: int) -> None:
    """Small messages in one file, so that no ack deletes it."""
    client = Client(port)
    confirmed: list[int] = []
    client.on_confirm = lambda tag, multiple: confirmed.append(tag)
    client.call(spec.Queue.Declare(queue=QUEUE, durable=True))
    client.call(spec.Confirm.Select())
    frames = [publish_frames("", QUEUE, b"%d " % number, True, None) for number in range(count)]
    client.send_bytes(b"".join(frames))
    while not confirmed or confirmed[-1] < count:
        client.next()
    client.close()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_acked_while_the_disk_was_full_stays_gone(small_disk: Path, end: str) -> None:
    with EmberBroker(small_disk, disk_free_limit=1) as broker:
        fill_queue(broker.port, 1000)
        filler = fill_up(small_disk)
        client = Client(broker.port)
        assert take(client, 600) == list(range(600))
        client.close()
        if end == "stop":
            broker.stop()
        else:
            broker.kill()
        filler.unlink()
        broker.start()
        client = Client(broker.port)
        assert client.call(spec.Queue.Declare(queue=QUEUE, passive=True)).message_count == 400
        assert take(client, 400) == list(range(600, 1000))
        client.close()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_start_on_a_full_disk_succeeds_or_waits_for_room(small_disk: Path, end: str) -> None:
    """With what was kept for that; and without, when somebody makes room."""
    with EmberBroker(small_disk, disk_free_limit=1) as broker:
        fill_queue(broker.port, 100)
        if end == "stop":
            broker.stop()
        else:
            broker.kill()
        filler = fill_up(small_disk)
        broker.start()
        client = Client(broker.port)
        assert take(client, 40) == list(range(40))
        client.close()
        broker.stop()
        (small_disk / "reserve").write_bytes(b"")
        fill_up(small_disk).rename(small_disk / "more")
        told = broker.log_path.stat().st_size
        starter = threading.Thread(target=broker.start)
        starter.start()
        wait_for_text(broker.log_path, WAITS, told)
        filler.unlink(missing_ok=True)
        (small_disk / "more").unlink()
        starter.join()
        client = Client(broker.port)
        assert take(client, 60) == list(range(40, 100))
        client.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_waits_for_room_can_be_stopped(small_disk: Path, number: signal.Signals) -> None:
    with EmberBroker(small_disk, disk_free_limit=1) as broker:
        fill_queue(broker.port, 100)
        broker.stop()
        (small_disk / "reserve").write_bytes(b"")
        filler = fill_up(small_disk)
        told = broker.log_path.stat().st_size
        with broker.log_path.open("ab") as log:
            process = subprocess.Popen(broker.command(), stdout=subprocess.DEVNULL, stderr=log)
        try:
            wait_for_text(broker.log_path, WAITS, told)
            process.send_signal(number)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
        assert "Traceback" not in broker.log_tail()
        filler.unlink()
        broker.start()
        client = Client(broker.port)
        assert take(client, 100) == list(range(100))
        client.close()


def test_a_consumer_that_declares_first_can_drain_a_full_disk(small_disk: Path) -> None:
    """While a new declaration waits for room, what is declared already is answered at once."""
    with EmberBroker(small_disk, disk_free_limit=1) as broker, contextlib.ExitStack() as clients:
        fill_queue(broker.port, 10)
        filler = fill_up(small_disk)
        waiting = clients.enter_context(contextlib.closing(Client(broker.port)))
        names = [f"new-{number}" for number in range(2000)]  # more than fits into the pages there are
        waiting.send(*[spec.Queue.Declare(queue=name, durable=True) for name in names])
        wait_for_text(broker.log_path, "clients wait for it")
        client = clients.enter_context(contextlib.closing(Client(broker.port)))
        client.call(spec.Exchange.Declare(exchange="amq.fanout", exchange_type="fanout", durable=True))
        client.call(spec.Queue.Declare(queue=QUEUE, durable=True))
        assert take(client, 10) == list(range(10))
        filler.unlink()
        for _ in names:
            waiting.wait(spec.Queue.DeclareOk)


def wait_for_text(path: Path, pattern: str, behind: int = 0) -> None:
    deadline = time.monotonic() + 50
    while not re.search(pattern.encode(), path.read_bytes()[behind:]):
        assert time.monotonic() < deadline, path.read_text(errors="replace")[-3000:]
        time.sleep(0.02)


def body_of(number: int) -> bytes:
    return b"%d " % number + bytes(BODY_BYTES)


def take(client: Client, count: int) -> list[int]:
    """The numbers of so many messages, which are acknowledged."""
    found = []
    for _ in range(count):
        got = client.call_get(QUEUE)
        assert got is not None
        found.append(int(got.body.split(b" ", 1)[0]))
        client.send(spec.Basic.Ack(got.tag, False))
    client.call(spec.Basic.Qos(prefetch_count=0))  # an answer behind the acks
    return found


def test_a_full_disk_stops_publishers_and_tells_them_until_there_is_room(small_disk: Path) -> None:
    with (
        EmberBroker(small_disk, disk_free_limit=1) as broker,
        contextlib.ExitStack() as open_clients,
    ):
        publisher = Publisher(broker.port)
        open_clients.callback(publisher.client.close)
        while not publisher.reasons:
            assert publisher.sent * BODY_BYTES < 2 * DISK_MEGABYTES * 1_000_000, "the disk is never full"
            publisher.publish()
            # Who is in the way learns it with the next publish, as from RabbitMQ.
            publisher.client.reply_s = 0.5
            with contextlib.suppress(AssertionError):
                while publisher.confirmed < publisher.sent and not publisher.reasons:
                    publisher.read()
        assert "disk" in publisher.reasons[0]
        assert publisher.confirmed < publisher.sent
        # Others are served, and what was confirmed is there for them; the rest is not confirmed meanwhile.
        consumer = open_clients.enter_context(contextlib.closing(Client(broker.port)))
        half = publisher.confirmed // 2
        assert publisher.confirmed > 300
        assert take(consumer, 1) == [0]
        publisher.client.reply_s = 0.2
        with pytest.raises(AssertionError, match="nothing more came"):
            publisher.read()
        assert publisher.confirmed < publisher.sent
        # Consumers make room, and all goes on without anybody's help.
        publisher.client.reply_s = 50
        assert take(consumer, half) == list(range(1, half + 1))
        while publisher.confirmed < publisher.sent or not publisher.unblocked:
            publisher.read()
        publisher.publish()
        while publisher.confirmed < publisher.sent:
            publisher.read()
        assert "No space left on device" in broker.log_tail()
        assert "the disk takes writes again" in broker.log_tail()
        broker.kill()
        broker.start()
        left = publisher.sent - half - 1
        survivor = open_clients.enter_context(contextlib.closing(Client(broker.port)))
        assert take(survivor, left) == list(range(half + 1, publisher.sent))
