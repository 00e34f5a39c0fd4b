"""Many connections at once, and a publisher that does its worst."""

from __future__ import annotations

import threading
from statistics import mean, median

from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target
from bench.session import Session

DEPTH_PERIOD_SECONDS = 0.25
FAIRNESS_SECONDS_MIN = 20.0


def run_connections(target: Target, options: Options) -> Outcome:
    """Half of the connections publish, each to the queue of one consumer in the other half."""
    pairs = max(5, int(250 * options.scale))
    names = [f"bench-crowd-{i}" for i in range(pairs)]
    with Rig(target, slots=pairs, senders=pairs, outstanding_max=100_000) as rig:
        rig.declare(names)
        for slot, name in enumerate(names):
            rig.consumer({slot: name})
            rig.publisher([("", name)], body_bytes=16, chunk_bytes=8192)
        return rig.measure(options.seconds)


class DepthGauge(threading.Thread):
    """Looks at the queue four times a second over its own connection while the load runs."""

    def __init__(self, target: Target, queue: str) -> None:
        super().__init__(daemon=True)
        self._session = Session(target.host, target.port)
        self._queue = queue
        self._done = threading.Event()
        self.depths: list[float] = []

    def run(self) -> None:
        while not self._done.wait(DEPTH_PERIOD_SECONDS):
            self.depths.append(float(self._session.depth(self._queue)))

    def finish(self) -> None:
        self._done.set()
        self.join()
        self._session.close()


def run_fairness(target: Target, options: Options) -> Outcome:
    """A publisher at full speed without confirms against one consumer with acks.

    Judged over the second half of the publishing time, when whatever the broker does to hold the publisher
    back must have taken effect: the consumer's rate over the publisher's. (Below 1 the queue still grows.)
    """
    seconds = max(options.seconds, FAIRNESS_SECONDS_MIN) if options.scale >= 1 else options.seconds
    with Rig(target) as rig:
        rig.declare(["bench"])
        rig.consumer({0: "bench"}, ack_every=50, prefetch=1000)
        rig.publisher([("", "bench")], body_bytes=16)
        gauge = DepthGauge(target, "bench")
        gauge.start()
        try:
            outcome = rig.measure(seconds)
        finally:
            gauge.finish()
    series = outcome.series
    publishing = [i for i, second in enumerate(series["second"]) if seconds / 2 <= second <= seconds]
    first, last = publishing[0], publishing[-1]
    published = series["published"][last] - series["published"][first]
    delivered = series["delivered"][last] - series["delivered"][first]
    span = series["second"][last] - series["second"][first]
    backlog = [p - d for p, d in zip(series["published"], series["delivered"], strict=True)]
    depths = gauge.depths or [0.0]
    metrics = {
        **outcome.metrics,
        "consumer_to_publisher": delivered / max(published, 1),
        "steady_published_per_second": published / max(span, 1e-9),
        "steady_delivered_per_second": delivered / max(span, 1e-9),
        "depth_max": max(depths),
        "depth_median": median(depths),
        "depth_mean": mean(depths),
        "outstanding_max": max(backlog),
    }
    depth_columns = {
        "depth_second": [(i + 1) * DEPTH_PERIOD_SECONDS for i in range(len(gauge.depths))],
        "depth": gauge.depths,
    }
    return Outcome(metrics, {**series, **depth_columns})


SCENARIOS = [
    Scenario(
        "connections_500",
        "routing",
        "500 connections: 250 publishers, 250 consumers, 16 B",
        run_connections,
        scales=True,
    ),
    Scenario(
        "fairness",
        "fairness",
        "publisher at full speed, consumer with acks: consumer rate / publisher rate",
        run_fairness,
        headline="consumer_to_publisher",
        shown=("steady_published_per_second", "steady_delivered_per_second", "depth_max", "depth_median"),
        scales=True,
        runs_max=3,
    ),
]
