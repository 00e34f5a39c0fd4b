"""Delayed messages: a million that wait, how they come and go, and how punctual they are.

The times at which messages are due are drawn at random, the worst there is for a store that keeps them in
order. RabbitMQ has no such thing without a plugin: only EmberMQ is measured.
"""

from __future__ import annotations

import random
import time

from bench.latency import summary
from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target
from bench.session import Session

QUEUE = "bench-delayed"
KINDS = 4096  # different times among the messages
SPREAD_MS = 1000
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 120.0
PUBLISHED_PER_SECOND_MIN = 15_000  # a broker that is slower delivers before all are there
RATE = 2000
DELAY_MS = 500


def wait_until_all_have_come(session: Session, messages: int) -> float:
    """When the queue had them all."""
    deadline = time.time() + PATIENCE_SECONDS
    while (depth := session.depth(QUEUE)) < messages:
        assert time.time() < deadline, f"{depth} of {messages} delayed messages have come"
        time.sleep(POLL_SECONDS)
    return time.time()


def run_crowd(target: Target, options: Options) -> Outcome:
    """All are due within one second, long after the last is published."""
    messages = max(10_000, int(1_000_000 * options.scale))
    fresh = target.rss_bytes()
    due_s = time.time() + 5 + messages / PUBLISHED_PER_SECOND_MIN
    chance = random.Random(1)
    headers = [{"x-deliver-at": int(due_s * 1000) + chance.randrange(SPREAD_MS)} for _ in range(KINDS)]
    with Session(target.host, target.port) as session:
        session.delete_queues([QUEUE])
        session.declare_queues([QUEUE], durable=True)
        with Rig(target) as rig:
            rig.publisher(
                [("", QUEUE)],
                body_bytes=100,
                fan=0,
                persistent=True,
                window=20_000,
                limit=messages,
                headers=headers,
            )
            filling = rig.measure()
        assert time.time() < due_s, "publishing took so long that the first messages were due"
        time.sleep(max(0.0, due_s - time.time()))
        full = target.rss_bytes()  # at rest, without what publishing left behind
        cpu = target.cpu_seconds()
        seconds = wait_until_all_have_come(session, messages) - due_s
        cpu = target.cpu_seconds() - cpu
        session.delete_queues([QUEUE])
    return Outcome(
        {
            "messages": float(messages),
            "rss_mb_before": fresh / 1e6,
            "rss_mb_full": full / 1e6,
            "rss_bytes_per_message": (full - fresh) / messages,
            "in_per_second": filling.metrics["messages_per_second"],
            "in_us_per_message": filling.metrics["broker_us_per_message"],
            "out_per_second": messages / seconds,
            "out_us_per_message": cpu / messages * 1e6,
        }
    )


def run_lateness(target: Target, options: Options) -> Outcome:
    """Messages with equal delays at a modest rate: how long after their time they reach a consumer."""
    with Rig(target, latencies=int(RATE * options.seconds * 1.2) + RATE) as rig:
        rig.declare([QUEUE], durable=True)
        rig.consumer({0: QUEUE}, ack_every=10, prefetch=1000)
        headers = [{"x-delay": DELAY_MS}]
        rig.publisher(
            [("", QUEUE)], body_bytes=16, persistent=True, window=20_000, rate=RATE, headers=headers
        )
        outcome = rig.measure(options.seconds)
        late_ns = [taken - DELAY_MS * 1_000_000 for taken in rig.load.latencies_ns()]
    assert min(late_ns) >= 0, "a message came early"
    return Outcome({**outcome.metrics, **summary(late_ns, "late_")}, outcome.series)


SCENARIOS = [
    Scenario(
        "delayed_crowd",
        "delayed",
        "memory with 1,000,000 persistent messages of 100 B waiting for random times (MB)",
        run_crowd,
        headline="rss_mb_full",
        higher_is_better=False,
        shown=("rss_bytes_per_message", "in_per_second", "out_per_second"),
        owns_broker=True,
        scales=True,
        runs_max=3,
        only=("embermq",),
    ),
    Scenario(
        "delayed_lateness",
        "delayed",
        "2,000 persistent msg/s, each delayed by 500 ms: how late they reach the consumer",
        run_lateness,
        headline="late_p99_us",
        higher_is_better=False,
        shown=("late_p50_us", "late_max_us", "broker_us_per_message"),
        only=("embermq",),
    ),
]
