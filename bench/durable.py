"""Durable queues and persistent messages: what safety costs.

A confirm of a persistent message means that it is on disk, so a publisher that waits for each confirm is
bound by the disk: the rate of plain `fdatasync` on the same file system stands beside those results.
"""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target
from bench.session import Session
from tools.brokers import Broker


def fdatasync_per_second(folder: Path | None, seconds: float = 1.0) -> float:
    """Append 100 bytes, sync, repeat: the most a publisher that waits can get from this disk."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="fdatasync-") as file:
        began, count = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            os.write(file.fileno(), bytes(100))
            os.fdatasync(file.fileno())
            count += 1
        return count / (time.monotonic() - began)


def data_folder(target: Target) -> Path | None:
    return target.data_dir if isinstance(target, Broker) else None


def run_flow(target: Target, options: Options, *, body_bytes: int) -> Outcome:
    with Rig(target) as rig:
        rig.declare(["bench-durable"], durable=True)
        rig.consumer({0: "bench-durable"}, ack_every=50, prefetch=1000)
        rig.publisher([("", "bench-durable")], body_bytes=body_bytes, persistent=True, window=1000)
        return rig.measure(options.seconds)


def run_waiting(target: Target, options: Options, *, publishers: int) -> Outcome:
    """No consumer: a broker need not write what was acknowledged before it came to writing."""
    disk = fdatasync_per_second(data_folder(target))
    with Rig(target, senders=publishers) as rig:
        rig.declare(["bench-durable"], durable=True)
        for _ in range(publishers):
            rig.publisher([("", "bench-durable")], body_bytes=100, fan=0, persistent=True, window=1)
        outcome = rig.measure(options.seconds)
        depth = rig.admin.depth("bench-durable")
    assert depth == outcome.metrics["confirmed"], f"{depth} messages in the queue, {outcome.metrics}"
    outcome.metrics["fdatasync_per_second"] = disk
    return outcome


def fill(target: Target, queues: list[str], messages: int) -> Outcome:
    """Publish that many persistent messages of 100 bytes, in turn, all confirmed; the queues stay."""
    with Session(target.host, target.port) as session:
        session.declare_queues(queues, durable=True)
    with Rig(target) as rig:
        routes = [("", name) for name in queues]
        rig.publisher(routes, body_bytes=100, fan=0, persistent=True, window=1000, limit=messages)
        return rig.measure()


def run_backlog(target: Target, options: Options) -> Outcome:
    """Fill a queue while nobody consumes, look at the memory, then drain it."""
    messages = max(10_000, int(1_000_000 * options.scale))
    fresh = target.rss_bytes()
    filling = fill(target, ["bench-backlog"], messages)
    time.sleep(1)
    full = target.rss_bytes()
    with Rig(target) as rig:
        rig.consumer({0: "bench-backlog"}, ack_every=50, prefetch=1000)
        draining = rig.measure(waiting=messages)
        rig.admin.delete_queues(["bench-backlog"])
    return Outcome(
        {
            "messages": float(messages),
            "rss_mb_before": fresh / 1e6,
            "rss_mb_full": full / 1e6,
            "rss_bytes_per_message": (full - fresh) / messages,
            "fill_per_second": filling.metrics["messages_per_second"],
            "fill_us_per_message": filling.metrics["broker_us_per_message"],
            "drain_per_second": draining.metrics["messages_per_second"],
            "drain_us_per_message": draining.metrics["broker_us_per_message"],
        }
    )


def run_restart(target: Target, options: Options, *, queues: int) -> Outcome:
    """Start again on full queues, after a goodbye and after SIGKILL; every message must still be there."""
    assert isinstance(target, Broker)
    messages = max(10_000, int(500_000 * options.scale))
    names = [f"bench-restart-{i}" for i in range(queues)]
    fill(target, names, messages)

    def check() -> None:
        with Session(target.host, target.port) as session:
            depth = sum(session.depth(name) for name in names)
        assert depth == messages, f"{depth} of {messages} confirmed messages are there after a restart"

    began = time.monotonic()
    target.stop()
    stop_seconds = time.monotonic() - began
    target.start()
    after_stop = target.start_seconds
    check()
    target.kill()
    target.start()
    check()
    return Outcome(
        {
            "messages": float(messages),
            "queues": float(queues),
            "stop_seconds": stop_seconds,
            "restart_seconds": after_stop,
            "recovery_seconds": target.start_seconds,
            "rss_mb": target.rss_bytes() / 1e6,
        }
    )


SCENARIOS = [
    Scenario(
        "durable_1024",
        "durable",
        "persistent 1 KiB, confirms (window 1,000), acks every 50",
        partial(run_flow, body_bytes=1024),
    ),
    Scenario(
        "durable_100",
        "durable",
        "persistent 100 B, confirms (window 1,000), acks every 50",
        partial(run_flow, body_bytes=100),
    ),
    Scenario(
        "durable_wait_1",
        "durable",
        "persistent 100 B, 1 publisher waiting for each confirm",
        partial(run_waiting, publishers=1),
        shown=("broker_us_per_message", "fdatasync_per_second"),
    ),
    Scenario(
        "durable_wait_20",
        "durable",
        "persistent 100 B, 20 publishers, each waiting for each confirm",
        partial(run_waiting, publishers=20),
        shown=("broker_us_per_message", "fdatasync_per_second"),
    ),
    Scenario(
        "backlog",
        "durable",
        "memory with 1,000,000 persistent messages of 100 B in one queue (MB)",
        run_backlog,
        headline="rss_mb_full",
        higher_is_better=False,
        shown=("rss_bytes_per_message", "fill_per_second", "drain_per_second"),
        owns_broker=True,
        scales=True,
        runs_max=3,
    ),
    Scenario(
        "restart",
        "durable",
        "start with 500,000 messages in 100 queues after SIGKILL (s)",
        partial(run_restart, queues=100),
        headline="recovery_seconds",
        higher_is_better=False,
        shown=("restart_seconds", "stop_seconds"),
        owns_broker=True,
        scales=True,
        runs_max=3,
    ),
]
