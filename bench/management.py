"""What the management API costs the messages: 10,000 queues listed page by page, beside a steady flow.

The same flow is measured three times: alone; while a process of its own asks for one page after the other
without a rest; and beside a process that computes and sleeps in the rhythm of that reader, but asks nobody
for anything. What the third has over the first is the machine's, not the broker's.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from typing import Any

from bench.latency import RATE, quantile, summary
from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target
from tools.brokers import Broker

QUEUES = 10_000
PAGE_SIZE = 100
PIECES_OF_A_PAGE = 4
SAMPLED_SECONDS = 6.0  # a little more than the broker's own five between two samples
AUTHORIZATION = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


def read_pages(host: str, port: int, seconds: float) -> dict[str, Any]:
    """Ask for one page after the other, from a connection that stays open: nanoseconds of each answer, and
    what all of them cost the reader."""
    connection = http.client.HTTPConnection(host, port, timeout=30)
    took: list[int] = []
    page, end, cpu = 1, time.monotonic() + seconds, time.process_time()
    while time.monotonic() < end:
        began = time.perf_counter_ns()
        connection.request("GET", f"/api/queues?page={page}&page_size={PAGE_SIZE}", headers=AUTHORIZATION)
        answer = json.loads(connection.getresponse().read())
        took.append(time.perf_counter_ns() - began)
        assert answer["item_count"] == len(answer["items"]) > 0, answer
        page = page % answer["page_count"] + 1
    return {"took_ns": took, "cpu_s": time.process_time() - cpu}


def compute_like_a_reader(busy_s: float, idle_s: float, seconds: float) -> None:
    """What a reader does on its own: wait for the pieces of a page, then work through them."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(PIECES_OF_A_PAGE):
            time.sleep(idle_s / PIECES_OF_A_PAGE)
        done = time.perf_counter() + busy_s
        while time.perf_counter() < done:
            pass


def beside(*arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench.management", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def flow(target: Target, seconds: float) -> list[int]:
    with Rig(target, latencies=int(RATE * seconds * 1.2) + RATE) as rig:
        rig.declare(["bench"])
        rig.consumer({0: "bench"}, ack_every=10, prefetch=1000)
        rig.publisher([("", "bench")], body_bytes=16, window=20_000, rate=RATE)
        rig.measure(seconds)
        latencies: list[int] = rig.load.latencies_ns()
        return latencies


def run(target: Target, options: Options) -> Outcome:
    assert isinstance(target, Broker)
    count = max(PAGE_SIZE, int(QUEUES * options.scale) // PAGE_SIZE * PAGE_SIZE)
    with Rig(target) as rig:
        rig.declare(f"api-{number:05}" for number in range(count))
        time.sleep(SAMPLED_SECONDS)
        cpu, rss = target.cpu_seconds(), target.rss_bytes()
        time.sleep(2 * SAMPLED_SECONDS)
        idle_cpu = (target.cpu_seconds() - cpu) / (2 * SAMPLED_SECONDS) * 100
        alone = flow(target, options.seconds)
        reader = beside("read", target.host, target.http_port, options.seconds)
        meanwhile = flow(target, options.seconds)
        read = json.loads(reader.communicate()[0])
        pages = sorted(read["took_ns"])
        busy_s = read["cpu_s"] / len(pages)
        other = beside("compute", busy_s, max(0.0, options.seconds / len(pages) - busy_s), options.seconds)
        beside_other = flow(target, options.seconds)
        other.communicate()
    return Outcome(
        {
            **summary(alone, ""),
            **summary(meanwhile, "api_"),
            **summary(beside_other, "other_"),
            "page_p50_ms": quantile(pages, 0.5) / 1000,
            "page_p99_ms": quantile(pages, 0.99) / 1000,
            "page_max_ms": pages[-1] / 1e6,
            "pages_per_second": len(pages) / options.seconds,
            "idle_cpu_percent": idle_cpu,
            "rss_mb": rss / 1e6,
        }
    )


SCENARIOS = [
    Scenario(
        "api_queues_10k",
        "management",
        "10,000 queues listed page by page (100 each) without rest, beside 10,000 msg/s",
        run,
        headline="page_p99_ms",
        higher_is_better=False,
        shown=("page_p50_ms", "p99_us", "api_p99_us", "other_p99_us", "idle_cpu_percent", "rss_mb"),
        owns_broker=True,
        scales=True,
        runs_max=3,
        only=("embermq",),
    )
]

if __name__ == "__main__":
    # It shares two cores with the broker here, as it would not elsewhere: it gets what nobody else wants.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if sys.argv[1] == "read":
        print(json.dumps(read_pages(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))
    else:
        compute_like_a_reader(*map(float, sys.argv[2:]))
