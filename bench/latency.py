"""How long a message is on its way while the broker is far from its limit.

Messages are due at fixed times (open loop). The clock of a message starts when it was due, not when the
publisher got round to sending it, so that a pause of the broker counts for every message it held up.
"""

from __future__ import annotations

from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target

RATE = 10_000
WARM_UP_SHARE = 0.1


def quantile(ordered: list[int], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1000


def summary(latencies_ns: list[int], prefix: str) -> dict[str, float]:
    """Microseconds. The first tenth of the run warms caches and is left out."""
    ordered = sorted(latencies_ns[int(len(latencies_ns) * WARM_UP_SHARE) :])
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
    return {f"{prefix}{name}_us": quantile(ordered, share) for name, share in shares.items()}


def run(target: Target, options: Options) -> Outcome:
    with Rig(target, latencies=int(RATE * options.seconds * 1.2) + RATE) as rig:
        rig.declare(["bench"])
        # Acks every 10 messages, i.e. every millisecond: often enough for the prefetch never to bind.
        rig.consumer({0: "bench"}, ack_every=10, prefetch=1000)
        rig.publisher([("", "bench")], body_bytes=16, window=20_000, rate=RATE)
        outcome = rig.measure(options.seconds)
        deliveries = rig.load.latencies_ns()
        confirms = rig.load.confirm_latencies_ns()
    ordered = sorted(deliveries[int(len(deliveries) * WARM_UP_SHARE) :])
    shares = [1 - 10 ** -(step / 20) for step in range(81)]  # 0 to 99.99 %, evenly on a scale of nines
    series = {"share": shares, "latency_us": [quantile(ordered, share) for share in shares]}
    return Outcome({**outcome.metrics, **summary(deliveries, ""), **summary(confirms, "confirm_")}, series)


SCENARIOS = [
    Scenario(
        "latency_10k",
        "latency",
        "10,000 msg/s, 16 B, confirms and acks: latency from due time to delivery",
        run,
        headline="p99_us",
        higher_is_better=False,
        shown=("p50_us", "p999_us", "confirm_p99_us", "broker_us_per_message"),
    )
]
