"""Write the measured part of docs/performance.md, and its pictures, from the newest results.

Only what stands between the two markers is replaced; the explanation around it is written by people.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench import plots
from bench.goal import GOALS
from bench.metric import describe, middle
from bench.runner import RESULTS, SCENARIOS
from bench.scenario import Options, Scenario

PAGE = RESULTS.parent.parent / "docs" / "performance.md"
PICTURES = PAGE.parent / "performance"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SHOWN = re.compile(r"<!-- scenarios: (.*?) -->")
HEADINGS = {
    "throughput": "Throughput",
    "latency": "Latency",
    "routing": "Routing, many queues, many connections",
    "fairness": "A publisher at full speed",
    "idle": "Idle cost",
    "management": "The management API beside messages",
    "durable": "Durable queues, persistent messages",
    "stream": "Streams",
    "delayed": "Delayed messages",
}
NAMES = plots.NAMES


def newest() -> dict[str, dict[str, Any]]:
    """The last full result of each scenario; one with both brokers beats a later one with a single broker."""
    best: dict[str, dict[str, Any]] = {}
    for path in sorted(RESULTS.glob("*.json")):
        record = json.loads(path.read_text())
        if record["quick"] or record["scenario"] not in SCENARIOS:
            continue
        before = best.get(record["scenario"])
        if before is None or len(compared(record)) >= len(compared(before)):
            best[record["scenario"]] = record
    return best


def compared(record: dict[str, Any]) -> list[str]:
    return [broker for broker, runs in record["runs"].items() if runs]


def metrics_of(record: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
    return {broker: [run["metrics"] for run in runs] for broker, runs in record["runs"].items()}


def times(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}x" if value < 100 else f"{value:,.0f}x"


def spread(runs: list[dict[str, float]], name: str) -> str:
    """Median, and the range when there were several runs."""
    metric, value = describe(name), middle(runs, name)
    if value is None:
        return "-"
    values = [run[name] for run in runs if name in run]
    if len(values) == 1:
        return metric.show(value)
    return f"{metric.show(value)} ({metric.show(min(values))} to {metric.show(max(values))})"


def title(scenario: Scenario, record: dict[str, Any]) -> str:
    """What was measured, and the name by which to measure it again."""
    scale = record["options"]["scale"]
    tells = scale == 1 or scenario.messages or not scenario.scales
    scaled = "" if tells else f", at scale {scale:g}"
    return f"**{scenario.titled(Options(**record['options']))}** (`{scenario.name}`{scaled})"


def rows(scenario: Scenario, record: dict[str, Any]) -> list[str]:
    """A line that says what was measured, then one for each metric, the main one first."""
    runs = metrics_of(record)
    lines = [f"| {title(scenario, record)} | | | |"]
    for name in dict.fromkeys((scenario.headline, *scenario.shown)):
        metric = describe(name)
        values = {broker: middle(runs.get(broker, []), name) for broker in NAMES}
        if all(value is None for value in values.values()):
            continue
        advantage = times(metric.advantage(values["embermq"], values["rabbitmq"]))
        if name == scenario.headline:
            cells = [spread(runs.get(broker, []), name) for broker in NAMES]
            advantage = advantage and f"**{advantage}**"
        else:
            cells = [metric.show(values[broker]) for broker in NAMES]
        lines.append(f"| {metric.label} | {cells[0]} | {cells[1]} | {advantage} |")
    for broker, error in record["errors"].items():
        first_line = error.partition("\n")[0]
        lines.append(f"| {NAMES[broker]} failed | `{first_line}` | | |")
    return lines


def group_section(group: str, records: dict[str, dict[str, Any]], pictures: list[str]) -> list[str]:
    members = [s for s in SCENARIOS.values() if s.group == group and s.name in records]
    if not members:
        return []
    lines = [
        "",
        f"### {HEADINGS[group]}",
        "",
        "| | RabbitMQ | EmberMQ | EmberMQ better by |",
        "| --- | --- | --- | --- |",
    ]
    for scenario in members:
        lines += rows(scenario, records[scenario.name])
    for name in pictures:
        lines += ["", f"![{HEADINGS[group]}](performance/{name})"]
    return lines


def goal_section(records: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["", "### Goals", "", "| scenario | goal | measured | met |", "| --- | --- | --- | --- |"]
    for goal in GOALS:
        record = records.get(goal.scenario)
        value = goal.measured(metrics_of(record)) if record else None
        shown = (
            "not measured"
            if value is None
            else times(value)
            if goal.versus_rabbitmq
            else describe(goal.metric).show(value)
        )
        verdict = "" if value is None else "yes" if goal.met(value) else "**no**"
        lines.append(f"| `{goal.scenario}` | {goal.text()} | {shown} | {verdict} |")
    return lines


def conditions(records: dict[str, dict[str, Any]]) -> list[str]:
    """Machine, versions and dates in a table, and the commands that led to these results."""

    def distinct(values: list[str]) -> str:
        return "; ".join(dict.fromkeys(value for value in values if value))

    every = list(records.values())
    dates = sorted(record["date"] for record in every)
    lines = ["", "| | |", "| --- | --- |"]
    for name in every[0]["machine"]:
        lines.append(f"| {name} | {distinct([record['machine'].get(name, '') for record in every])} |")
    for broker, label in NAMES.items():
        lines.append(f"| {label} | {distinct([record['versions'].get(broker, '') for record in every])} |")
    lines.append(f"| measured | {dates[0]} to {dates[-1]} |")
    busy = [
        run["metrics"]["other_cores_busy"]
        for record in every
        for runs in record["runs"].values()
        for run in runs
        if "other_cores_busy" in run["metrics"]
    ]
    if busy:
        lines.append(
            f"| cores used by other processes during a run | {sum(busy) / len(busy):.2f} on average |"
        )
    commands = dict.fromkeys(record["command"] for record in every)
    return [*lines, "", "The commands:", "", "```sh", *commands, "```"]


def measured(records: dict[str, dict[str, Any]], pictures: dict[str, list[str]]) -> str:
    lines = [BEGIN, "", "<!-- Written by `python -m bench report`; edits between the markers are lost. -->"]
    if not records:
        lines += ["", "No results yet: run `make bench`, then `python -m bench report`."]
    else:
        lines += [f"<!-- scenarios: {' '.join(sorted(records))} -->"]
        lines += conditions(records)
        for group in HEADINGS:
            lines += group_section(group, records, pictures.get(group, []))
        lines += goal_section(records)
    return "\n".join([*lines, "", END])


def replace(page: str, part: str) -> str:
    """The page with a new measured part; everything around it stays."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"the page must hold {BEGIN} and {END} once each, in this order")
    before, _, rest = page.partition(BEGIN)
    return before + part + rest.partition(END)[2]


def shown(page: str) -> set[str]:
    """The scenarios whose results the page has."""
    found = SHOWN.search(page)
    return set() if found is None else set(found[1].split())


class ResultsMissing(Exception):
    """The page shows results that are nowhere else any more."""


def write(page: Path = PAGE, pictures: Path = PICTURES, *, drop: bool = False) -> None:
    """What the page shows and nobody has measured here would be lost; that has to be wanted."""
    records, text = newest(), page.read_text()
    missing = sorted(shown(text) - set(records))
    if missing and not drop:
        raise ResultsMissing(
            f"{page} shows results that are not in {RESULTS}: {', '.join(missing)}. "
            "Measure these, too, or say --drop to have them removed."
        )
    drawn = plots.draw(records, pictures)
    page.write_text(replace(text, measured(records, drawn)))
    print(f"wrote {page} from {len(records)} results")
