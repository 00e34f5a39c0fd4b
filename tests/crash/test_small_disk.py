"""A real file system that is really full: a few megabytes of memory, mounted for the test."""

from __future__ import annotations

import contextlib
import subprocess
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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "embermq-test", str(tmp_path)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"no small disk: {error}")
    if mounted.returncode:
        pytest.skip(f"no small disk: {mounted.stderr.strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


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
        EmberBroker(small_disk / "data", disk_free_limit=1) as broker,
        contextlib.ExitStack() as open_clients,
    ):
        publisher = Publisher(broker.port)
        open_clients.callback(publisher.client.close)
        while not publisher.reasons:
            assert publisher.sent * BODY_BYTES < 2 * DISK_MEGABYTES * 1_000_000, "the disk is never full"
            publisher.publish()
            # Who is in the way learns it with the next publish, as from RabbitMQ.
            publisher.client.socket.settimeout(0.5)
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
        publisher.client.socket.settimeout(0.2)
        with pytest.raises(AssertionError, match="the broker said nothing"):
            publisher.read()
        assert publisher.confirmed < publisher.sent
        # Consumers make room, and all goes on without anybody's help.
        publisher.client.socket.settimeout(50)
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
