"""How each number is called, written and judged."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Metric:
    label: str
    pattern: str = "{:,.0f}"
    higher_is_better: bool | None = None  # None: neither, no ratio is shown

    def show(self, value: float | None) -> str:
        return "-" if value is None else self.pattern.format(value)

    def advantage(self, ours: float | None, theirs: float | None) -> float | None:
        """How many times better ours is than theirs; above 1 is better, whatever the direction."""
        if self.higher_is_better is None or not ours or not theirs:
            return None
        return ours / theirs if self.higher_is_better else theirs / ours


METRICS = {
    "messages_per_second": Metric("messages/s", higher_is_better=True),
    "published_per_second": Metric("publishes/s", higher_is_better=True),
    "megabytes_per_second": Metric("MB/s", "{:,.0f}", higher_is_better=True),
    "broker_us_per_message": Metric("broker CPU per message, us", "{:.2f}", higher_is_better=False),
    "broker_us_per_publish": Metric("broker CPU per publish, us", "{:.2f}", higher_is_better=False),
    "load_us_per_message": Metric("load generator CPU per message, us", "{:.2f}"),
    "mean_fan": Metric("queues reached per message", "{:.2f}"),
    "p50_us": Metric("delivery p50, us", higher_is_better=False),
    "p90_us": Metric("delivery p90, us", higher_is_better=False),
    "p99_us": Metric("delivery p99, us", higher_is_better=False),
    "p999_us": Metric("delivery p99.9, us", higher_is_better=False),
    "confirm_p50_us": Metric("confirm p50, us", higher_is_better=False),
    "confirm_p99_us": Metric("confirm p99, us", higher_is_better=False),
    "confirm_p999_us": Metric("confirm p99.9, us", higher_is_better=False),
    "lag_p50_us": Metric("the load generator was late by, p50, us"),
    "lag_p99_us": Metric("the load generator was late by, p99, us"),
    "lag_p999_us": Metric("the load generator was late by, p99.9, us"),
    "floor_p50_us": Metric("a server that does nothing else, p50, us"),
    "floor_p99_us": Metric("a server that does nothing else, p99, us"),
    "floor_p999_us": Metric("a server that does nothing else, p99.9, us"),
    "flood_per_second": Metric("messages/s of the flood", higher_is_better=True),
    "consumer_to_publisher": Metric("consumer rate / publisher rate", "{:.3f}"),
    "steady_published_per_second": Metric("published/s in the second half", higher_is_better=True),
    "steady_delivered_per_second": Metric("delivered/s in the second half", higher_is_better=True),
    "depth_max": Metric("queue depth, largest seen"),
    "depth_median": Metric("queue depth, median"),
    "start_seconds": Metric("start to first handshake, s", "{:.2f}", higher_is_better=False),
    "fresh_rss_mb": Metric("memory of a fresh broker, MB", "{:.1f}", higher_is_better=False),
    "rss_mb": Metric("resident memory, MB", "{:.1f}", higher_is_better=False),
    "kb_per_connection": Metric("memory per connection, kB", "{:.1f}", higher_is_better=False),
    "connections_per_second": Metric("connections opened/s", higher_is_better=True),
    "idle_cpu_percent": Metric("CPU while idle, % of a core", "{:.1f}"),
    "page_p50_ms": Metric("a page, p50, ms", "{:.1f}", higher_is_better=False),
    "page_p99_ms": Metric("a page, p99, ms", "{:.1f}", higher_is_better=False),
    "page_max_ms": Metric("a page, at most, ms", "{:.1f}", higher_is_better=False),
    "api_p99_us": Metric("delivery p99 meanwhile, us", higher_is_better=False),
    "other_p99_us": Metric("delivery p99 beside a process that computes as the reader does, us"),
    "fdatasync_per_second": Metric("plain fdatasync/s of the disk"),
    "least_server_per_second": Metric("confirms/s of a server that does nothing else"),
    "to_fdatasync": Metric("confirms / plain syncs of the disk in the same seconds", "{:.2f}"),
    "to_least_server": Metric("confirms / those of a server that does nothing else", "{:.2f}"),
    "rss_mb_full": Metric("resident memory with the backlog, MB", "{:.1f}", higher_is_better=False),
    "rss_bytes_per_message": Metric("memory per waiting message, bytes", "{:,.1f}"),
    "fill_per_second": Metric("confirmed publishes/s while filling", higher_is_better=True),
    "fill_last_to_first": Metric("publish rate of the last fifth / of the first", "{:.2f}"),
    "fill_cpu_last_to_first": Metric("CPU per publish of the last fifth / of the first", "{:.2f}"),
    "drain_to_live": Metric("draining rate / live rate", "{:.2f}"),
    "disk_mb_full": Metric("disk with the backlog, MB", "{:,.1f}"),
    "disk_mb_left": Metric("disk left when it is drained, MB", "{:,.2f}"),
    "drain_per_second": Metric("messages/s while draining", higher_is_better=True),
    "in_per_second": Metric("confirmed delayed publishes/s", higher_is_better=True),
    "out_per_second": Metric("messages/s put into the queue when due", higher_is_better=True),
    "late_p50_us": Metric("late by, p50, us", higher_is_better=False),
    "late_p99_us": Metric("late by, p99, us", higher_is_better=False),
    "late_max_us": Metric("late by, at most, us", higher_is_better=False),
    "recovery_seconds": Metric("start after SIGKILL, s", "{:.2f}", higher_is_better=False),
    "restart_seconds": Metric("start after a clean stop, s", "{:.2f}", higher_is_better=False),
    "stop_seconds": Metric("clean stop, s", "{:.2f}", higher_is_better=False),
    "other_cores_busy": Metric("cores used by other processes", "{:.2f}"),
}


def describe(name: str) -> Metric:
    return METRICS.get(name, Metric(name.replace("_", " "), "{:,.2f}"))


def middle(runs: list[dict[str, float]], name: str) -> float | None:
    """The median over the runs, None when no run has the metric."""
    values = [run[name] for run in runs if name in run]
    return median(values) if values else None
