"""The pictures of docs/performance.md, as SVG that changes only when the numbers do."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

COLOURS = {"rabbitmq": "#8a8f98", "embermq": "#e4572e"}
NAMES = {"rabbitmq": "RabbitMQ", "embermq": "EmberMQ"}
STYLE: Any = {
    "svg.hashsalt": "embermq",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "figure.constrained_layout.use": True,
}
Records = dict[str, dict[str, Any]]


def short_number(value: float, _: object = None) -> str:
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _save(figure: Any, folder: Path, name: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)
    return f"{name}.svg"


def _medians(record: dict[str, Any], metric: str) -> dict[str, float]:
    return {
        broker: median(run["metrics"][metric] for run in runs)
        for broker, runs in record["runs"].items()
        if runs and metric in runs[0]["metrics"]
    }


def bars(
    records: Records,
    rows: list[tuple[str, str, str]],
    title: str,
    folder: Path,
    name: str,
    *,
    log: bool = False,
) -> str | None:
    """Horizontal bars, one pair for each (scenario, metric, label) that was measured."""
    present = [(records[scenario], metric, label) for scenario, metric, label in rows if scenario in records]
    if not present:
        return None
    figure, axes = pyplot.subplots(figsize=(7.2, 0.9 + 0.55 * len(present)))
    for position, (record, metric, _) in enumerate(reversed(present)):
        values = _medians(record, metric)
        for offset, broker in ((0.19, "rabbitmq"), (-0.19, "embermq")):
            if broker in values:
                axes.barh(position + offset, values[broker], 0.36, color=COLOURS[broker])
                shown = f" {values[broker]:,.0f}" if values[broker] >= 100 else f" {values[broker]:.2f}"
                axes.text(values[broker], position + offset, shown, va="center", fontsize=8)
    axes.set_yticks(range(len(present)), [label for *_, label in reversed(present)])
    if log:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(short_number))
    axes.margins(x=0.15)
    axes.grid(visible=False, axis="y")
    axes.set_title(title, loc="left")
    handles = [Patch(color=COLOURS[broker]) for broker in NAMES]
    axes.legend(
        handles, list(NAMES.values()), loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False
    )
    return _save(figure, folder, name)


def latency(records: Records, folder: Path) -> str | None:
    """Latency over the share of messages that were faster, on a scale of nines; one faint line per run."""
    record = records.get("latency_10k")
    if record is None:
        return None
    figure, axes = pyplot.subplots(figsize=(7.2, 3.6))
    for broker, runs in record["runs"].items():
        for number, run in enumerate(runs):
            nines = [1 / (1 - share) for share in run["series"]["share"]]
            label = NAMES[broker] if number == 0 else None
            axes.plot(nines, run["series"]["latency_us"], color=COLOURS[broker], alpha=0.7, label=label)
    axes.set(xscale="log", yscale="log", ylabel="microseconds from due to delivered")
    ticks = {2: "50 %", 10: "90 %", 100: "99 %", 1000: "99.9 %", 10_000: "99.99 %"}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xticks([], minor=True)
    axes.axhline(1000, color="black", linewidth=0.6, linestyle=":")
    axes.set_title("Latency at 10,000 msg/s with confirms and acks (every run)", loc="left")
    axes.legend(frameon=False)
    return _save(figure, folder, "latency")


def fairness(records: Records, folder: Path) -> str | None:
    """Rates and queue depth over time of the first run of each broker."""
    record = records.get("fairness")
    if record is None:
        return None
    figure, (rates, depths) = pyplot.subplots(2, 1, figsize=(7.2, 5), sharex=True)
    for broker, runs in record["runs"].items():
        if not runs:
            continue
        series = runs[0]["series"]
        for column, line in (("published", "-"), ("delivered", ":")):
            # Half-second means: single samples of 100 ms show the scheduler more than the broker.
            seconds, counts = series["second"][::5], series[column][::5]
            speed = [
                (after - before) / (until - since)
                for before, after, since, until in zip(counts, counts[1:], seconds, seconds[1:], strict=False)
            ]
            axes_label = f"{NAMES[broker]} {column}"
            rates.plot(seconds[1:], speed, line, color=COLOURS[broker], label=axes_label)
        depths.plot(series["depth_second"], series["depth"], color=COLOURS[broker], label=NAMES[broker])
    rates.set(ylabel="messages/s", yscale="log")
    rates.legend(frameon=False, ncols=2, fontsize=8)
    rates.set_title("A publisher at full speed, a consumer with acks", loc="left")
    depths.set(ylabel="messages in the queue", xlabel="seconds")
    depths.set_yscale("symlog", linthresh=10)
    depths.set_ylim(bottom=0)
    depths.legend(frameon=False)
    return _save(figure, folder, "fairness")


def draw(records: Records, folder: Path) -> dict[str, list[str]]:
    """All pictures whose numbers exist: {group: [file, ...]}."""
    rate, cost, publishes = "messages_per_second", "broker_us_per_message", "published_per_second"
    throughput = [
        ("throughput_16", "16 B, automatic acks"),
        ("throughput_1024", "1 KiB, automatic acks"),
        ("acks_confirms_16", "16 B, acks and confirms"),
    ]
    routing = [
        ("fanout_10", rate, "fanout to 10"),
        ("fanout_100", rate, "fanout to 100"),
        ("fanout_100_deep", rate, "fanout to 100, deep"),
        ("topic_1k_keys", publishes, "topic, 1,000 keys"),
        ("topic_50k_keys", publishes, "topic, 50,000 keys"),
        ("queues_1000", rate, "1,000 queues"),
        ("connections_500", rate, "500 connections"),
    ]
    memory = [
        ("start", "fresh_rss_mb", "fresh broker"),
        ("idle_connections_1000", "rss_mb", "1,000 idle connections"),
        ("backlog", "rss_mb_full", "a million waiting messages"),
    ]
    durable = [
        ("durable_1024", rate, "1 KiB, window 1,000"),
        ("durable_100", rate, "100 B, window 1,000"),
        ("durable_wait_1", rate, "1 waiting publisher"),
        ("durable_wait_20", rate, "20 waiting publishers"),
        ("backlog", "fill_per_second", "filling a backlog"),
        ("backlog", "drain_per_second", "draining a backlog"),
    ]
    with pyplot.rc_context(STYLE):
        pictures = {
            "throughput": [
                bars(
                    records,
                    [(s, rate, t) for s, t in throughput],
                    "Messages per second",
                    folder,
                    "throughput",
                ),
                bars(
                    records,
                    [(s, cost, t) for s, t in throughput],
                    "Broker CPU, us per message",
                    folder,
                    "cpu",
                ),
            ],
            "latency": [latency(records, folder)],
            "routing": [bars(records, routing, "Routing, per second", folder, "routing", log=True)],
            "fairness": [fairness(records, folder)],
            "idle": [bars(records, memory, "Resident memory, MB", folder, "memory", log=True)],
            "durable": [
                bars(records, durable, "Persistent messages per second", folder, "durable", log=True)
            ],
        }
    return {group: [name for name in names if name] for group, names in pictures.items()}
