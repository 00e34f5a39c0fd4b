"""One publisher, one queue, one consumer: the path of a message and nothing else."""

from __future__ import annotations

import struct
from functools import partial

from bench.frames import short, table
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


MESSAGES = 64  # with ids of their own


def usual_properties(number: int) -> bytes:
    """What frameworks put on messages: content-type, headers, delivery-mode, message-id, timestamp."""
    headers: dict[str, str | int] = {
        "task": "orders.tasks.charge",
        "origin": f"worker-{number}@host",
        "tenant": "example",
        "attempt": 1,
        "trace-id": f"{number:032x}",
    }
    return (
        struct.pack(">H", 0x8000 | 0x2000 | 0x1000 | 0x0080 | 0x0040)
        + short("application/json")
        + table(headers)
        + b"\x01"
        + short(f"{number:08x}-0000-4000-8000-000000000000")
        + struct.pack(">Q", 1_700_000_000 + number)
    )


def run_with_headers(target: Target, options: Options) -> Outcome:
    with Rig(target) as rig:
        rig.declare(["bench"])
        rig.consumer({0: "bench"})
        rig.publisher(
            [("", "bench")],
            body_bytes=16,
            properties=[usual_properties(number) for number in range(MESSAGES)],
        )
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
        "throughput_headers",
        "throughput",
        "16 B with content-type, delivery-mode, message-id, timestamp and five headers, automatic acks",
        run_with_headers,
    ),
    Scenario(
        "acks_confirms_16",
        "throughput",
        "16 B, acks every 50 (prefetch 1,000), confirms (window 500)",
        partial(run, body_bytes=16, acks=True),
    ),
]
