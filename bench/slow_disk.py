"""How long others wait while a long queue is read back from a slow disk.

A queue is filled, its files leave the page cache, and the broker may read no more than so many bytes a second
(a control group for block devices, so this needs root). Then somebody drains the queue, and a bystander sends
one small message at a time through a queue of its own.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

from bench.bystander import BROKERS
from bench.durable import fill
from bench.rig import Rig
from bench.standing_by import beside
from tools.brokers import Broker

GROUPS = Path("/sys/fs/cgroup")
QUEUE = "bench-slow-disk"


@contextmanager
def slowed(broker: Broker, bytes_per_second: int) -> Iterator[None]:
    """Reads of the broker's process from the disk that its data is on."""
    device = os.stat(broker.data_dir).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    old = (GROUPS / "blkio").is_dir()
    root = GROUPS / "blkio" if old else GROUPS
    group = root / "embermq-bench"
    group.mkdir(exist_ok=True)
    if old:
        (group / "blkio.throttle.read_bps_device").write_text(f"{number} {bytes_per_second}")
    else:
        (root / "cgroup.subtree_control").write_text("+io")
        (group / "io.max").write_text(f"{number} rbps={bytes_per_second}")
    (group / "cgroup.procs").write_text(str(broker.pid))
    try:
        yield
    finally:
        (root / "cgroup.procs").write_text(str(broker.pid))
        group.rmdir()


def drain_slowly(broker: Broker, messages: int, bytes_per_second: int) -> str:
    fill(broker, [QUEUE], messages)
    os.sync()
    for path in broker.data_dir.rglob("*"):
        if path.is_file():  # not the whole cache: a program whose code has to be read again is slow as well
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    rates: list[float] = []

    def drain() -> None:
        with Rig(broker) as rig:
            rig.consumer({0: QUEUE}, ack_every=50, prefetch=1000)
            rates.append(rig.measure(waiting=messages).metrics["messages_per_second"])

    with slowed(broker, bytes_per_second):
        waits = beside(broker, drain)
    p99 = quantiles(waits.during_s, n=100)[-1]
    return (
        f"{rates[0]:,.0f} messages/s; others: p50 {median(waits.during_s) * 1000:.2f}, p99 {p99 * 1000:.1f}, "
        f"at most {max(waits.during_s) * 1000:.1f} ms (idle: p50 {median(waits.before_s) * 1000:.2f})"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench slow_disk", description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000, help="of 100 bytes")
    parser.add_argument("--megabytes", type=int, default=60, help="that may be read in a second")
    parser.add_argument("--against", default="embermq", choices=BROKERS)
    options = parser.parse_args(arguments)
    with BROKERS[options.against]() as broker:
        print(drain_slowly(broker, options.messages, options.megabytes * 10**6), flush=True)
    return 0
