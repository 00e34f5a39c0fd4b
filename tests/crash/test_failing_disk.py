"""A real broker on a disk that is full, refuses writes, writes short, or cannot sync."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pamqp import commands as spec

from tests.crash.client import Client, Lost, publish_frames
from tests.crash.failing_disk import FaultyBroker

Connect = Callable[[], Client]
QUEUE = "kept"
LOOK_SECONDS_MAX = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    running = FaultyBroker(tmp_path / "data").start()
    try:
        client = Client(running.port)
        client.call(spec.Queue.Declare(queue=QUEUE, durable=True))
        client.close()
        yield running
    finally:
        running.close()


@pytest.fixture
def connect(broker: FaultyBroker) -> Iterator[Connect]:
    """Clients that are closed when the test is over."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Client(broker.port)))


class Publisher:
    """Publishes numbered messages with confirms, and counts these."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.client.on_confirm = self.on_confirm
        self.client.call(spec.Confirm.Select())
        self.sent = self.confirmed = 0

    def on_confirm(self, tag: int, multiple: bool) -> None:
        self.confirmed = tag

    def publish(self, count: int) -> None:
        bodies = [b"%d" % number for number in range(self.sent, self.sent + count)]
        self.client.send_bytes(b"".join(publish_frames("", QUEUE, body, True, None) for body in bodies))
        self.sent += count

    def wait(self) -> None:
        while self.confirmed < self.sent:
            self.client.next()

    def read_to_the_end(self) -> None:
        """Whatever the broker has to say until it is gone."""
        with pytest.raises(Lost):
            while True:
                self.client.next()


def wait_for_log(broker: FaultyBroker, text: str) -> None:
    deadline = time.monotonic() + LOOK_SECONDS_MAX
    while text not in broker.log_tail():
        assert time.monotonic() < deadline, broker.log_tail()
        time.sleep(0.01)


def content(broker: FaultyBroker) -> list[bytes]:
    client = Client(broker.port)
    found = []
    while (got := client.call_get(QUEUE)) is not None:
        found.append(got.body)
    client.close()
    return found


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def kill_and_restart(broker: FaultyBroker) -> None:
    broker.kill()
    broker.fault("")
    broker.start()


@pytest.mark.parametrize(
    ("fault", "words"), [("full", "No space left on device"), ("bad writes", "Input/output error")]
)
def test_a_disk_that_refuses_writes_stops_confirms_and_loses_nothing(
    broker: FaultyBroker, connect: Connect, fault: str, words: str
) -> None:
    publisher = Publisher(connect())
    publisher.publish(10)
    publisher.wait()
    broker.fault(fault)
    publisher.publish(10)
    wait_for_log(broker, words)
    # Consumers go on, and this round trip is the proof that the broker has had time to confirm wrongly.
    consumer = connect()
    got = consumer.call_get(QUEUE)
    assert got is not None and got.body == b"0"
    publisher.client.reply_s = 0.05
    with pytest.raises(AssertionError, match="nothing more came"):
        while True:
            publisher.client.next()
    assert publisher.confirmed == 10
    broker.fault("")
    publisher.client.reply_s = LOOK_SECONDS_MAX
    publisher.wait()
    publisher.publish(5)
    publisher.wait()
    wait_for_log(broker, "the disk takes writes again")
    kill_and_restart(broker)
    assert content(broker) == numbers(25)


def test_killed_while_the_disk_is_full(broker: FaultyBroker, connect: Connect) -> None:
    publisher = Publisher(connect())
    publisher.publish(10)
    publisher.wait()
    broker.fault("full")
    publisher.publish(10)
    wait_for_log(broker, "No space left on device")
    kill_and_restart(broker)
    found = content(broker)
    assert found == numbers(10), "what was confirmed, and nothing that was not written"


def test_a_commit_waits_until_the_disk_has_room(broker: FaultyBroker, connect: Connect) -> None:
    client = connect()
    client.call(spec.Tx.Select())
    broker.fault("full")
    client.send_bytes(b"".join(publish_frames("", QUEUE, body, True, None) for body in numbers(3)))
    client.send(spec.Tx.Commit())
    wait_for_log(broker, "No space left on device")
    client.reply_s = 0.05
    with pytest.raises(AssertionError, match="nothing more came"):
        client.wait(spec.Tx.CommitOk)
    broker.fault("")
    client.reply_s = LOOK_SECONDS_MAX
    client.wait(spec.Tx.CommitOk)
    kill_and_restart(broker)
    assert content(broker) == numbers(3)


def test_short_writes_make_no_difference(broker: FaultyBroker, connect: Connect) -> None:
    broker.fault("short writes")
    publisher = Publisher(connect())
    publisher.publish(50)
    publisher.wait()
    kill_and_restart(broker)
    assert content(broker) == numbers(50)


@pytest.mark.parametrize("how", ["confirm", "commit"])
def test_a_failed_sync_ends_the_broker_and_confirms_nothing_more(
    broker: FaultyBroker, connect: Connect, how: str
) -> None:
    before = Publisher(connect())
    before.publish(10)
    before.wait()
    broker.fault("bad syncs")
    if how == "confirm":
        before.publish(10)
        before.read_to_the_end()
        assert before.confirmed == 10
    else:
        client = connect()
        client.call(spec.Tx.Select())
        client.send_bytes(publish_frames("", QUEUE, b"unsafe", True, None))
        with pytest.raises(Lost):
            client.call(spec.Tx.Commit())
    assert broker.process.wait(LOOK_SECONDS_MAX) == 1
    log = broker.log_tail()
    assert "syncing to disk failed" in log
    assert "Input/output error" in log
    assert "Traceback" not in log
    broker.kill()  # it is dead; this makes room for the next
    broker.fault("")
    broker.start()
    assert content(broker)[:10] == numbers(10)
