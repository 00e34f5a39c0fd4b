"""Selecting consumers: a hundred on one queue, in front of a million messages that none of them selects.

The cost of a delivery must not know of them. Included is the time to look at each of them once, when the
consumers begin: the longer a run, the less that counts. RabbitMQ has no selectors on queues: only EmberMQ is
measured, to be compared with `throughput_headers`.
"""

from __future__ import annotations

from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target

QUEUE = "bench-selector"
CONSUMERS = 100
WAITING = 1_000_000


def run_consume(target: Target, options: Options) -> Outcome:
    waiting = options.scaled(WAITING)
    with Rig(target, slots=CONSUMERS, stride=0) as rig:
        rig.declare([QUEUE], durable=True)
        with Rig(target) as filling:
            others = [{"tenant": f"other{number}", "weight": number} for number in range(1000)]
            filling.publisher(
                [("", QUEUE)],
                body_bytes=16,
                fan=0,
                persistent=True,
                window=20_000,
                limit=waiting,
                headers=others,
            )
            filling.measure()
        before = target.rss_bytes()
        for number in range(CONSUMERS):
            rig.consumer({number: QUEUE}, arguments={"x-selector": f"tenant = 'tenant{number}'"})
        wanted = [{"tenant": f"tenant{number}", "weight": number} for number in range(CONSUMERS)]
        rig.publisher([("", QUEUE)], body_bytes=16, headers=wanted, chunk_bytes=16384)
        outcome = rig.measure(options.seconds)
    outcome.metrics["rss_mb_more"] = (target.rss_bytes() - before) / 1e6
    return outcome


SCENARIOS = [
    Scenario(
        "selector_consume",
        "selectors",
        "100 consumers that select from one queue, {messages} messages before that none selects, 16 B",
        run_consume,
        owns_broker=True,
        scales=True,
        messages=WAITING,
        shown=("broker_us_per_message",),
        only=("embermq",),
    )
]
