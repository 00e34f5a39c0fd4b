"""Durable queues and persistent messages: what safety costs.

A confirm of a persistent message means that it is on disk, so a publisher that waits for each confirm is
bound by the disk: the rate of plain `fdatasync` on the same file system stands beside those results.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import fmean

from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target
from bench.session import Session
from bench.waiting_alone import Syncer, run_waiting_alone
from tools.brokers import Broker

DISK_EMPTY_SECONDS_MAX = 30.0


def fdatasync_per_second(folder: Path | None, seconds: float = 1.0) -> float:
    """Append 100 bytes, sync, repeat: the most a publisher that waits can get from this disk."""
    with tempfile.TemporaryFile(dir=folder) as file:
        disk = Syncer(file.fileno())
        disk.go_on(seconds)
        return disk.rate


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
    disk = [fdatasync_per_second(data_folder(target))]
    with Rig(target, senders=publishers) as rig:
        rig.declare(["bench-durable"], durable=True)
        for _ in range(publishers):
            rig.publisher([("", "bench-durable")], body_bytes=100, fan=0, persistent=True, window=1)
        outcome = rig.measure(options.seconds)
        depth = rig.admin.depth("bench-durable")
    assert depth == outcome.metrics["confirmed"], f"{depth} messages in the queue, {outcome.metrics}"
    disk.append(fdatasync_per_second(data_folder(target)))
    outcome.metrics["fdatasync_per_second"] = fmean(disk)
    return outcome


def run_waiting_beside_consumer(target: Target, options: Options, *, ack_every: int) -> Outcome:
    """One publisher waits for each confirm, and somebody consumes what it sends (automatic acks: 0)."""
    disk = fdatasync_per_second(data_folder(target))
    with Rig(target) as rig:
        rig.declare(["bench-durable"], durable=True)
        rig.consumer({0: "bench-durable"}, ack_every=ack_every, prefetch=100 if ack_every else 0)
        rig.publisher([("", "bench-durable")], body_bytes=100, persistent=True, window=1)
        outcome = rig.measure(options.seconds)
    outcome.metrics["fdatasync_per_second"] = disk
    return outcome


def fill(target: Target, queues: list[str], messages: int, *, sender: int = 0) -> Outcome:
    """Publish that many persistent messages of 100 bytes, in turn, all confirmed; the queues stay.

    The numbers in messages begin anew with each sender, and are checked by who consumes them.
    """
    with Session(target.host, target.port) as session:
        session.declare_queues(queues, durable=True)
    with Rig(target, senders=sender + 1, first_sender=sender) as rig:
        routes = [("", name) for name in queues]
        rig.publisher(routes, body_bytes=100, fan=0, persistent=True, window=1000, limit=messages)
        return rig.measure()


def run_backlog(target: Target, options: Options, *, messages: int) -> Outcome:
    """Fill a queue while nobody consumes, look at the memory, then drain it and look at the disk."""
    messages = options.scaled(messages)
    live = run_flow(target, options, body_bytes=100)
    fresh, fresh_disk = target.rss_bytes(), disk_bytes(target)
    fifth = messages // 5
    counts = (fifth, messages - 2 * fifth, fifth)
    parts = [fill(target, ["bench-backlog"], count, sender=sender) for sender, count in enumerate(counts)]
    first, middle, last = [part.metrics for part in parts]
    time.sleep(1)
    full, full_disk = target.rss_bytes(), disk_bytes(target)
    with Rig(target, senders=len(parts)) as rig:
        rig.consumer({0: "bench-backlog"}, ack_every=50, prefetch=1000)
        draining = rig.measure(waiting=messages)
        emptied_disk = disk_bytes_after_while(target, fresh_disk)
        rig.admin.delete_queues(["bench-backlog"])
    drain_rate = draining.metrics["messages_per_second"]
    return Outcome(
        {
            "messages": float(messages),
            "rss_mb_before": fresh / 1e6,
            "rss_mb_full": full / 1e6,
            "rss_mb_drained": target.rss_bytes() / 1e6,
            "rss_bytes_per_message": (full - fresh) / messages,
            "fill_per_second": messages / sum(part.metrics["seconds"] for part in parts),
            "fill_us_per_message": middle["broker_us_per_message"],
            "fill_last_to_first": last["messages_per_second"] / first["messages_per_second"],
            "fill_cpu_last_to_first": last["broker_us_per_message"] / first["broker_us_per_message"],
            "drain_per_second": drain_rate,
            "drain_us_per_message": draining.metrics["broker_us_per_message"],
            "live_per_second": live.metrics["messages_per_second"],
            "drain_to_live": drain_rate / live.metrics["messages_per_second"],
            "disk_mb_full": (full_disk - fresh_disk) / 1e6,
            "disk_mb_left": (emptied_disk - fresh_disk) / 1e6,
            "other_cores_busy": middle["other_cores_busy"],
        }
    )


def disk_bytes(target: Target) -> int:
    """What the broker's data directory takes."""
    folder = data_folder(target)
    total = 0
    for directory, _, names in os.walk(folder) if folder is not None else ():
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(directory, name)).st_blocks * 512
    return total


def disk_bytes_after_while(target: Target, wanted: int) -> int:
    """Files are deleted in the background, the last one when the queue has been quiet for a while."""
    deadline = time.monotonic() + DISK_EMPTY_SECONDS_MAX
    while (found := disk_bytes(target)) > wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def run_restart(target: Target, options: Options, *, queues: int, messages: int) -> Outcome:
    """Start again on full queues, after a goodbye and after SIGKILL; every message must still be there."""
    assert isinstance(target, Broker)
    messages = options.scaled(messages)
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


def backlog(name: str, messages: int, *, ours_only: bool = False) -> Scenario:
    return Scenario(
        name,
        "durable",
        "memory with {messages} persistent messages of 100 B in one queue (MB)",
        partial(run_backlog, messages=messages),
        headline="rss_mb_full",
        higher_is_better=False,
        shown=(
            "rss_bytes_per_message",
            "fill_per_second",
            "fill_last_to_first",
            "fill_cpu_last_to_first",
            "drain_per_second",
            "drain_to_live",
            "disk_mb_full",
            "disk_mb_left",
        ),
        owns_broker=True,
        scales=True,
        runs_max=1 if ours_only else 3,
        messages=messages,
        only=("embermq",) if ours_only else (),
    )


def restart(name: str, queues: str, count: int, messages: int, *, ours_only: bool = False) -> Scenario:
    return Scenario(
        name,
        "durable",
        f"start with {{messages}} messages in {queues} after SIGKILL (s)",
        partial(run_restart, queues=count, messages=messages),
        headline="recovery_seconds",
        higher_is_better=False,
        shown=("restart_seconds", "stop_seconds", "rss_mb"),
        owns_broker=True,
        scales=True,
        runs_max=1 if ours_only else 3,
        messages=messages,
        only=("embermq",) if ours_only else (),
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
        run_waiting_alone,
        shown=(
            "broker_us_per_message",
            "to_fdatasync",
            "to_least_server",
            "fdatasync_per_second",
            "least_server_per_second",
        ),
    ),
    Scenario(
        "durable_wait_20",
        "durable",
        "persistent 100 B, 20 publishers, each waiting for each confirm",
        partial(run_waiting, publishers=20),
        shown=("broker_us_per_message", "fdatasync_per_second"),
    ),
    Scenario(
        "durable_wait_1_auto_ack",
        "durable",
        "persistent 100 B, 1 publisher waiting for each confirm, consumer with automatic acks",
        partial(run_waiting_beside_consumer, ack_every=0),
        shown=("broker_us_per_message", "fdatasync_per_second"),
    ),
    Scenario(
        "durable_wait_1_acked",
        "durable",
        "persistent 100 B, 1 publisher waiting for each confirm, consumer that acks each",
        partial(run_waiting_beside_consumer, ack_every=1),
        shown=("broker_us_per_message", "fdatasync_per_second"),
    ),
    backlog("backlog", 1_000_000),
    backlog("backlog_10m", 10_000_000, ours_only=True),
    restart("restart", "100 queues", 100, 1_000_000),
    restart("restart_10m", "one queue", 1, 10_000_000, ours_only=True),
]
