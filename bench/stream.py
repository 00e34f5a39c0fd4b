"""Streams: how fast they take messages, and how fast what is there can be read again."""

from __future__ import annotations

from functools import partial

from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target
from tools.brokers import RabbitBroker

BODY_BYTES = 1024
STREAM = "bench-stream"


def run_publish(target: Target, options: Options) -> Outcome:
    with Rig(target) as rig:
        rig.declare_stream(STREAM)
        rig.publisher([("", STREAM)], body_bytes=BODY_BYTES, fan=0, window=2000)
        return rig.measure(options.seconds)


def run_read(target: Target, options: Options, *, acks: bool) -> Outcome:
    """Fill a stream, then read it from the first message to the last, out of the page cache."""
    messages = max(10_000, int(500_000 * options.scale))
    with Rig(target) as rig:
        rig.declare_stream(STREAM)
        with Rig(target) as filling:
            filling.publisher([("", STREAM)], body_bytes=BODY_BYTES, fan=0, window=2000, limit=messages)
            filling.measure()
        arguments: dict[str, str | int] = {"x-stream-offset": "first"}
        if acks or isinstance(target, RabbitBroker):
            rig.consumer({0: STREAM}, ack_every=500, prefetch=5000, arguments=arguments)
        else:
            rig.consumer({0: STREAM}, arguments={**arguments, "x-stream-end-offset": messages})
        outcome = rig.measure(waiting=messages)
    outcome.metrics["megabytes_per_second"] = outcome.metrics["messages_per_second"] * BODY_BYTES / 1e6
    return outcome


SHOWN = ("megabytes_per_second", "broker_us_per_message")

SCENARIOS = [
    Scenario(
        "stream_publish", "stream", "1 publisher, 1 KiB into a stream, confirms (window 2,000)", run_publish
    ),
    Scenario(
        "stream_read",
        "stream",
        "1 consumer reads 500,000 messages of 1 KiB, acks every 500 (prefetch 5,000)",
        partial(run_read, acks=True),
        shown=SHOWN,
        scales=True,
        runs_max=3,
    ),
    Scenario(
        "stream_range",
        "stream",
        "1 consumer reads a range of 500,000 messages of 1 KiB (RabbitMQ: acks as above)",
        partial(run_read, acks=False),
        shown=SHOWN,
        scales=True,
        runs_max=3,
    ),
]
