"""One publisher that waits for every confirm, beside what the disk and the machine allow in the same seconds.

A disk that others use as well is half as fast again from one second to the next, so three take turns of 50 ms
each on the same file system: a program that appends and syncs, a server that does nothing but write, sync and
confirm, and the broker. All three in whatever minutes there are, so that the ratio holds in each of them.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack

from bench.build import load_module
from bench.ceiling import confirming_server
from bench.frames import publication
from bench.rig import Rig
from bench.scenario import Options, Outcome, Target
from tools.brokers import Broker

BODY_BYTES = 100
TURN_SECONDS = 0.05
WARM_SECONDS = 0.01  # after a while without messages a broker goes another way for a moment, as it may
ROOM_BYTES = 64 * 1024  # by which a file that is written to in small pieces runs ahead of what it holds
QUEUE = "bench-durable"


class Counted:
    """Something done again and again, for a while at a time."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.counted = 0
        self.seconds = 0.0

    @property
    def rate(self) -> float:
        return self.counted / self.seconds


class Publisher(Counted):
    """Waits for each confirm on one connection."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        block, self.body_at = publication("", QUEUE, BODY_BYTES, persistent=True)
        self.block = bytearray(block)
        self.confirmed = 0

    def go_on(self, seconds: float, *, counts: bool = True) -> None:
        publish = load_module("waiting").publish_and_wait
        before = self.confirmed
        self.confirmed, took = publish(self.descriptor, self.block, self.body_at, before, seconds)
        if counts:
            self.counted += self.confirmed - before
            self.seconds += took


class Syncer(Counted):
    """Appends to a file of its own, and syncs."""

    def go_on(self, seconds: float) -> None:
        count, took = load_module("waiting").append_and_sync(self.descriptor, BODY_BYTES, seconds)
        self.counted += count
        self.seconds += took


def run_waiting_alone(target: Target, options: Options) -> Outcome:
    """`seconds` for each of the three. There is no consumer: a broker need not write what was acknowledged
    before it came to writing."""
    folder = target.data_dir if isinstance(target, Broker) else None
    with ExitStack() as stack:
        rig = stack.enter_context(Rig(target))
        rig.declare([QUEUE], durable=True)
        session = rig.session()
        session.confirm_select()
        broker = Publisher(session.fileno())
        least = Publisher(stack.enter_context(confirming_server(folder, ROOM_BYTES)).fileno())
        disk = Syncer(stack.enter_context(tempfile.TemporaryFile(dir=folder)).fileno())
        for publisher in (broker, least):
            publisher.go_on(0.2, counts=False)
        broker_cpu, before = target.cpu_seconds(), broker.confirmed
        while broker.seconds < options.seconds:
            disk.go_on(TURN_SECONDS)
            for publisher in (least, broker):
                publisher.go_on(WARM_SECONDS, counts=False)
                publisher.go_on(TURN_SECONDS)
        broker_cpu = target.cpu_seconds() - broker_cpu
        depth = rig.admin.depth(QUEUE)
    assert depth == broker.confirmed, f"{depth} messages in the queue, {broker.confirmed} confirmed"
    return Outcome(
        {
            "messages_per_second": broker.rate,
            "broker_us_per_message": broker_cpu / (broker.confirmed - before) * 1e6,
            "rss_mb": target.rss_bytes() / 1e6,
            "fdatasync_per_second": disk.rate,
            "least_server_per_second": least.rate,
            "to_fdatasync": broker.rate / disk.rate,
            "to_least_server": broker.rate / least.rate,
            "confirmed": float(broker.confirmed),
        }
    )
