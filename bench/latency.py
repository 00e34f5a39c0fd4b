"""How long a message is on its way while the broker is far from its limit.

Messages are due at fixed times (open loop). The clock of a message starts when it was due, not when the
publisher got round to sending it, so that a pause of the broker counts for every message it held up. How late
the load generator itself was is told beside it (its lag), and so are the latencies of a server that does
nothing but read and send on (the floor), taken in the same run: both are the machine's, whatever the broker.
"""

from __future__ import annotations

from functools import partial

from bench.ceiling import relayed_ns
from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target

RATE = 10_000
FLOOR_SECONDS = 2.0
WARM_UP_SHARE = 0.1
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}


def quantile(ordered: list[int], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1000


def warm(latencies_ns: list[int]) -> list[int]:
    """In order of size. The first tenth of the run warms caches and is left out."""
    return sorted(latencies_ns[int(len(latencies_ns) * WARM_UP_SHARE) :])


def summary(latencies_ns: list[int], prefix: str) -> dict[str, float]:
    """Microseconds."""
    ordered = warm(latencies_ns)
    return {f"{prefix}{name}_us": quantile(ordered, share) for name, share in SHARES.items()}


def timed(rig: Rig, seconds: float) -> Outcome:
    """Let it run, and tell what became of every message and how late the generator was."""
    outcome = rig.measure(seconds)
    deliveries, confirms, lags = (
        rig.load.latencies_ns(),
        rig.load.confirm_latencies_ns(),
        rig.load.lags_ns(),
    )
    ordered = warm(deliveries)
    shares = [1 - 10 ** -(step / 20) for step in range(81)]  # 0 to 99.99 %, evenly on a scale of nines
    metrics = {**outcome.metrics, **summary(deliveries, "")}
    for prefix, times in (("confirm_", confirms), ("lag_", lags)):
        if times:
            metrics.update(summary(times, prefix))
    return Outcome(metrics, {"share": shares, "latency_us": [quantile(ordered, share) for share in shares]})


def run(target: Target, options: Options, *, rate: int = RATE, durable: bool = False) -> Outcome:
    """A steady flow through one queue, confirmed and acknowledged."""
    floor = {} if durable else summary(relayed_ns(min(FLOOR_SECONDS, options.seconds), rate), "floor_")
    with Rig(target, latencies=int(rate * options.seconds * 1.2) + rate) as rig:
        rig.declare(["bench"], durable=durable)
        # Acks every 10 messages (at 10,000/s every millisecond): often enough for the prefetch never to bind.
        rig.consumer({0: "bench"}, ack_every=10, prefetch=1000)
        rig.publisher([("", "bench")], body_bytes=16, persistent=durable, window=20_000, rate=rate)
        outcome = timed(rig, options.seconds)
    outcome.metrics.update(floor)
    return outcome


def run_round_trips(target: Target, options: Options) -> Outcome:
    """One message in flight: the next one leaves when the last has arrived."""
    floor = summary(relayed_ns(min(FLOOR_SECONDS, options.seconds)), "floor_")
    with Rig(target, latencies=int(100_000 * options.seconds), outstanding_max=1) as rig:
        rig.declare(["bench"])
        rig.consumer({0: "bench"})
        rig.publisher([("", "bench")], body_bytes=16)
        outcome = timed(rig, options.seconds)
    outcome.metrics.update(floor)
    return outcome


FLOOR = ("floor_p50_us", "floor_p99_us", "floor_p999_us")


def steady(name: str, rate: int) -> Scenario:
    return Scenario(
        name,
        "latency",
        f"{rate:,} msg/s, 16 B, confirms and acks: latency from due time to delivery",
        partial(run, rate=rate),
        headline="p99_us",
        higher_is_better=False,
        shown=(
            "p50_us",
            "p999_us",
            "confirm_p50_us",
            "confirm_p99_us",
            "lag_p50_us",
            "lag_p999_us",
            *FLOOR,
            "broker_us_per_message",
        ),
    )


def durable(name: str, rate: int) -> Scenario:
    return Scenario(
        name,
        "latency",
        f"{rate:,} msg/s, persistent, durable queue, acks: latency from due time to the confirm",
        partial(run, rate=rate, durable=True),
        headline="confirm_p99_us",
        higher_is_better=False,
        shown=("confirm_p50_us", "confirm_p999_us", "p50_us", "p99_us", "p999_us", "broker_us_per_message"),
    )


SCENARIOS = [
    steady("latency_1k", 1_000),
    steady("latency_10k", RATE),
    steady("latency_50k", 50_000),
    Scenario(
        "round_trip",
        "latency",
        "one message in flight, 16 B, automatic acks: latency from leaving to delivery",
        run_round_trips,
        headline="p50_us",
        higher_is_better=False,
        shown=("p99_us", "p999_us", *FLOOR, "broker_us_per_message"),
    ),
    durable("latency_durable_1k", 1_000),
    durable("latency_durable_10k", RATE),
]
