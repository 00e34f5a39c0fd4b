"""What the project promises itself; the report says of each whether it was met."""

from __future__ import annotations

from dataclasses import dataclass

from bench.metric import describe, middle


@dataclass(frozen=True)
class Goal:
    """A bound on EmberMQ's median, or with `versus_rabbitmq` on its advantage over RabbitMQ's."""

    scenario: str
    metric: str
    at_least: float | None = None
    at_most: float | None = None
    versus_rabbitmq: bool = False

    def text(self) -> str:
        label = describe(self.metric).label
        bounds = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        bounds += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        return f"{label}: {' and '.join(bounds)}" + (
            " times as good as RabbitMQ" if self.versus_rabbitmq else ""
        )

    def measured(self, runs: dict[str, list[dict[str, float]]]) -> float | None:
        ours = middle(runs.get("embermq", []), self.metric)
        if not self.versus_rabbitmq:
            return ours
        return describe(self.metric).advantage(ours, middle(runs.get("rabbitmq", []), self.metric))

    def met(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


def faster(scenario: str, times: float, metric: str = "messages_per_second") -> Goal:
    return Goal(scenario, metric, at_least=times, versus_rabbitmq=True)


GOALS = [
    faster("throughput_16", 10),
    Goal("throughput_16", "broker_us_per_message", at_most=1.0),
    Goal("throughput_headers", "broker_us_per_message", at_most=0.35),
    faster("throughput_1024", 5),
    faster("acks_confirms_16", 8),
    Goal("acks_confirms_16", "broker_us_per_message", at_most=2.0),
    faster("latency_10k", 1, "p50_us"),
    faster("latency_10k", 1, "p99_us"),
    Goal("latency_10k", "p99_us", at_most=1000),
    faster("fanout_10", 1),
    faster("fanout_100", 1),
    faster("fanout_100_deep", 1),
    faster("topic_1k_keys", 1, "published_per_second"),
    faster("topic_50k_keys", 1, "published_per_second"),
    faster("queues_1000", 1),
    faster("connections_500", 1),
    Goal("fairness", "consumer_to_publisher", at_least=0.9, at_most=1.1),
    Goal("start", "fresh_rss_mb", at_most=60),
    Goal("start", "start_seconds", at_most=1.0),
    Goal("idle_connections_1000", "rss_mb", at_most=100),
    faster("durable_1024", 6),
    Goal("durable_1024", "broker_us_per_message", at_most=4.0),
    faster("durable_100", 8),
    faster("durable_wait_1", 1.5),
    Goal("durable_wait_1", "to_fdatasync", at_least=0.6),
    Goal("backlog_10m", "rss_mb_full", at_most=300),
    Goal("backlog_10m", "fill_last_to_first", at_least=0.8),
    Goal("backlog_10m", "drain_to_live", at_least=0.5),
    Goal("backlog_10m", "disk_mb_left", at_most=0.1),
    Goal("restart", "recovery_seconds", at_most=5.0),
    Goal("restart_10m", "recovery_seconds", at_most=15.0),
]
