"""One publisher, one queue, one consumer: the path of a message and nothing else."""

from __future__ import annotations

from functools import partial

from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target


def run(target: Target, options: Options, *, body_bytes: int, acks: bool) -> Outcome:
    with Rig(target) as rig:
        rig.declare(["bench"])
        if acks:
            rig.consumer({0: "bench"}, ack_every=50, prefetch=1000)
        else:
            rig.consumer({0: "bench"})
        rig.publisher([("", "bench")], body_bytes=body_bytes, window=500 if acks else 0)
        return rig.measure(options.seconds)


SCENARIOS = [
    Scenario(
        "throughput_16",
        "throughput",
        "1 publisher, 1 consumer, 16 B, automatic acks, transient",
        partial(run, body_bytes=16, acks=False),
    ),
    Scenario(
        "throughput_1024",
        "throughput",
        "1 publisher, 1 consumer, 1 KiB, automatic acks, transient",
        partial(run, body_bytes=1024, acks=False),
    ),
    Scenario(
        "acks_confirms_16",
        "throughput",
        "16 B, acks every 50 (prefetch 1,000), confirms (window 500)",
        partial(run, body_bytes=16, acks=True),
    ),
]
