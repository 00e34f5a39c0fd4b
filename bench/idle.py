"""What a broker costs before it does anything."""

from __future__ import annotations

import time

from bench.scenario import Options, Outcome, Scenario, Target
from bench.session import Session
from tools.brokers import Broker

SETTLE_SECONDS = 1.0


def run_start(target: Target, options: Options) -> Outcome:
    """From the command to the first answered AMQP handshake, with an empty data directory."""
    assert isinstance(target, Broker)
    time.sleep(SETTLE_SECONDS)
    return Outcome({"start_seconds": target.start_seconds, "fresh_rss_mb": target.rss_bytes() / 1e6})


def run_connections(target: Target, options: Options) -> Outcome:
    """Connections with one open channel each and nothing to do."""
    count = max(50, int(1000 * options.scale))
    time.sleep(SETTLE_SECONDS)
    fresh = target.rss_bytes()
    sessions: list[Session] = []
    began = time.monotonic()
    try:
        for _ in range(count):
            sessions.append(Session(target.host, target.port))
        opened = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        full = target.rss_bytes()
        cpu = target.cpu_seconds()
        time.sleep(3)
        cpu = target.cpu_seconds() - cpu
    finally:
        for session in sessions:
            session.socket.close()
    return Outcome(
        {
            "rss_mb": full / 1e6,
            "fresh_rss_mb": fresh / 1e6,
            "kb_per_connection": (full - fresh) / count / 1e3,
            "connections_per_second": count / opened,
            "idle_cpu_percent": cpu / 3 * 100,
        }
    )


SCENARIOS = [
    Scenario(
        "start",
        "idle",
        "start to the first accepted connection (s), memory of a fresh broker",
        run_start,
        headline="start_seconds",
        higher_is_better=False,
        shown=("fresh_rss_mb",),
        owns_broker=True,
        runs_max=5,
    ),
    Scenario(
        "idle_connections_1000",
        "idle",
        "resident memory with 1,000 idle connections (MB)",
        run_connections,
        headline="rss_mb",
        higher_is_better=False,
        shown=("kb_per_connection", "connections_per_second", "idle_cpu_percent"),
        owns_broker=True,
        scales=True,
        runs_max=3,
    ),
]
