"""What the management API costs the messages: 10,000 queues listed page by page, beside a steady flow.

The same flow is measured twice, first alone, then while a process of its own asks for one page after the
other without a rest. The second is shown beside the first.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time

from bench.latency import RATE, quantile, summary
from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target
from tools.brokers import Broker

QUEUES = 10_000
PAGE_SIZE = 100
SAMPLED_SECONDS = 6.0  # a little more than the broker's own five between two samples
AUTHORIZATION = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


def read_pages(host: str, port: int, seconds: float) -> list[int]:
    """Ask for one page after the other, from a connection that stays open: nanoseconds of each answer."""
    connection = http.client.HTTPConnection(host, port, timeout=30)
    took: list[int] = []
    page, end = 1, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter_ns()
        connection.request("GET", f"/api/queues?page={page}&page_size={PAGE_SIZE}", headers=AUTHORIZATION)
        answer = json.loads(connection.getresponse().read())
        took.append(time.perf_counter_ns() - began)
        assert answer["item_count"] == len(answer["items"]) > 0, answer
        page = page % answer["page_count"] + 1
    return took


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
        reader = subprocess.Popen(
            [
                "nice",  # it shares two cores with the broker here, as it would not elsewhere
                sys.executable,
                "-m",
                "bench.management",
                target.host,
                str(target.http_port),
                str(options.seconds),
            ],
            stdout=subprocess.PIPE,
        )
        beside = flow(target, options.seconds)
        pages = sorted(json.loads(reader.communicate()[0]))
    return Outcome(
        {
            **summary(alone, ""),
            **summary(beside, "api_"),
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
        shown=("page_p50_ms", "p99_us", "api_p99_us", "idle_cpu_percent", "rss_mb"),
        owns_broker=True,
        scales=True,
        runs_max=3,
        only=("embermq",),
    )
]

if __name__ == "__main__":
    print(json.dumps(read_pages(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
