"""How long a message is on its way while the broker has other things to do: a flood, a crowd, questions.

The flood comes from a process of its own. On two cores that makes three busy processes, so what is measured
is in part how the machine shares them out; both brokers have that alike.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

from bench.latency import timed
from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target
from bench.session import Session

RATE = 1_000
FLOOD_LEAD_SECONDS = 0.5
IDLE_CONNECTIONS = 1_000


def flow(target: Target, options: Options, rate: int) -> Outcome:
    """The quiet one: a steady flow through a queue of its own."""
    with Rig(target, latencies=int(rate * options.seconds * 1.2) + rate) as rig:
        rig.declare(["bench-quiet"])
        rig.consumer({0: "bench-quiet"}, ack_every=10, prefetch=1000)
        rig.publisher([("", "bench-quiet")], body_bytes=16, window=20_000, rate=rate)
        return timed(rig, options.seconds)


class Neighbour:
    """A broker as a process beside us sees it."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def cpu_seconds(self) -> float:
        return 0.0

    def rss_bytes(self) -> int:
        return 0


def flood(host: str, port: int, seconds: float) -> None:
    """As much as goes through one queue; how much per second."""
    with Rig(Neighbour(host, port)) as rig:
        rig.declare(["bench-flood"])
        rig.consumer({0: "bench-flood"}, ack_every=50, prefetch=1000)
        rig.publisher([("", "bench-flood")], body_bytes=16)
        print(rig.measure(seconds).metrics["messages_per_second"])


def run_flooded(target: Target, options: Options) -> Outcome:
    seconds = options.seconds + 2 * FLOOD_LEAD_SECONDS
    command = [sys.executable, "-m", "bench.beside", target.host, str(target.port), str(seconds)]
    flooding = subprocess.Popen(command, stdout=subprocess.PIPE)
    time.sleep(2 * FLOOD_LEAD_SECONDS)  # until it is connected and at full speed
    try:
        outcome = flow(target, options, RATE)
    finally:
        answer = flooding.communicate()[0]
    outcome.metrics["flood_per_second"] = float(answer)
    return outcome


def run_crowded(target: Target, options: Options, *, rate: int) -> Outcome:
    count = max(50, int(IDLE_CONNECTIONS * options.scale))
    sessions = [Session(target.host, target.port) for _ in range(count)]
    try:
        return flow(target, options, rate)
    finally:
        for session in sessions:
            session.close()


SCENARIOS = [
    Scenario(
        "latency_beside_flood",
        "latency",
        "1,000 msg/s beside another connection that floods the broker: latency from due time to delivery",
        run_flooded,
        headline="p99_us",
        higher_is_better=False,
        shown=("p50_us", "p999_us", "confirm_p99_us", "lag_p99_us", "flood_per_second"),
    ),
    Scenario(
        "latency_idle_1000",
        "latency",
        "10,000 msg/s beside 1,000 idle connections: latency from due time to delivery",
        partial(run_crowded, rate=10_000),
        headline="p99_us",
        higher_is_better=False,
        shown=("p50_us", "p999_us", "confirm_p99_us", "lag_p999_us", "broker_us_per_message"),
        scales=True,
    ),
]

if __name__ == "__main__":
    flood(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
