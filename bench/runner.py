"""Run scenarios against brokers in turn (A B A B ...), print what comes out, keep it as JSON.

Taking turns matters more than the number of runs: whatever else happens on the machine then hits both
brokers alike.
"""

from __future__ import annotations

import json
import shlex
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import (
    beside,
    crowd,
    delayed,
    durable,
    idle,
    latency,
    machine,
    management,
    routing,
    selector,
    stream,
    throughput,
)
from bench.metric import describe, middle
from bench.scenario import Options, Scenario, Target
from tools.brokers import Broker, EmberBroker, RabbitBroker

RESULTS = Path(__file__).resolve().parent / "results"
BROKERS: dict[str, Callable[[], Broker]] = {"rabbitmq": RabbitBroker, "embermq": EmberBroker}
MODULES = (throughput, latency, beside, routing, selector, crowd, idle, durable, stream, delayed, management)
SCENARIOS = {scenario.name: scenario for module in MODULES for scenario in module.SCENARIOS}
WARM_UP_SECONDS = 1.0


@dataclass
class Fleet:
    """The brokers under test, started when first needed."""

    running: dict[str, Broker] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def get(self, name: str) -> Broker:
        if name not in self.running:
            broker = BROKERS[name]()
            broker.start()
            self.running[name] = broker
            self.versions[name] = getattr(broker, "version", "unknown")
        return self.running[name]

    def discard(self, name: str) -> None:
        """End a broker; the next `get` starts a new one on an empty directory."""
        if name in self.running:
            with self.running.pop(name):
                pass

    def close(self) -> None:
        for name in list(self.running):
            self.discard(name)


@dataclass
class Record:
    """The runs of one scenario, as they are kept."""

    scenario: Scenario
    options: Options
    quick: bool
    runs: dict[str, list[dict[str, Any]]]
    errors: dict[str, str] = field(default_factory=dict)

    def metrics(self, broker: str) -> list[dict[str, float]]:
        return [run["metrics"] for run in self.runs[broker]]

    def save(self, versions: dict[str, str], described: dict[str, str]) -> Path:
        now = datetime.now(UTC)
        scenario = self.scenario
        content = {
            "format": 1,
            "scenario": scenario.name,
            "date": now.isoformat(timespec="seconds"),
            "command": shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
            "quick": self.quick,
            "options": asdict(self.options),
            "machine": described,
            "versions": {name: versions.get(name, "unknown") for name in self.runs},
            "runs": self.runs,
            "errors": self.errors,
        }
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{now:%Y%m%dT%H%M%S}-{scenario.name}.json"
        path.write_text(json.dumps(content))
        return path


def run_once(scenario: Scenario, target: Target, options: Options) -> dict[str, Any]:
    outcome = scenario.run(target, options)
    return {"metrics": outcome.metrics, "series": outcome.series}


def summary_line(scenario: Scenario, metrics: dict[str, float]) -> str:
    names = dict.fromkeys((scenario.headline, *scenario.shown, "other_cores_busy"))
    return ", ".join(f"{describe(n).label} {describe(n).show(metrics[n])}" for n in names if n in metrics)


def run_scenario(
    scenario: Scenario, brokers: list[str], fleet: Fleet, options: Options, runs: int, *, quick: bool
) -> Record:
    brokers = [name for name in brokers if not scenario.only or name in scenario.only]
    record = Record(scenario, options, quick, {name: [] for name in brokers})
    runs = min(runs, scenario.runs_max or runs)
    if scenario.owns_broker:
        fleet.close()  # nothing else should use memory or CPU
    elif not quick:
        for name in brokers:
            attempt(
                record, name, fleet, Options(min(WARM_UP_SECONDS, options.seconds), options.scale), keep=False
            )
    for number in range(1, runs + 1):
        for name in brokers:
            if name in record.errors:
                continue
            run = attempt(record, name, fleet, options, keep=True)
            if run is not None:
                print(f"  {number}/{runs} {name:9} {summary_line(scenario, run['metrics'])}", flush=True)
            if scenario.owns_broker:
                fleet.discard(name)
    return record


def attempt(
    record: Record, name: str, fleet: Fleet, options: Options, *, keep: bool
) -> dict[str, Any] | None:
    """One run. A failure is kept with the results, and the broker replaced."""
    try:
        run = run_once(record.scenario, fleet.get(name), options)
    except Exception as error:
        record.errors[name] = f"{type(error).__name__}: {error}"
        print(f"  {name} FAILED: {record.errors[name]}", flush=True)
        traceback.print_exc()
        fleet.discard(name)
        return None
    if keep:
        record.runs[name].append(run)
    return run


def comparison(record: Record) -> str:
    """A small table of medians, and how much better the last broker is than the first."""
    brokers = list(record.runs)
    if not brokers:
        return "  none of these brokers can do that"
    lines = [
        f"  {'':38}"
        + "".join(f"{name:>14}" for name in brokers)
        + (f"{'advantage':>12}" if brokers[1:] else "")
    ]
    for name in dict.fromkeys((record.scenario.headline, *record.scenario.shown)):
        metric = describe(name)
        values = [middle(record.metrics(broker), name) for broker in brokers]
        line = f"  {metric.label:38}" + "".join(f"{metric.show(value):>14}" for value in values)
        advantage = metric.advantage(values[-1], values[0])
        lines.append(line + (f"{advantage:>11.2f}x" if advantage and brokers[1:] else ""))
    return "\n".join(lines)


def run_all(names: list[str], brokers: list[str], options: Options, runs: int, *, quick: bool) -> bool:
    """True when every run of every scenario succeeded."""
    fleet = Fleet()
    described = machine.describe()
    fine = True
    try:
        for name in names:
            scenario = SCENARIOS[name]
            print(f"{name}: {scenario.titled(options)}", flush=True)
            record = run_scenario(scenario, brokers, fleet, options, runs, quick=quick)
            print(comparison(record), flush=True)
            record.save(fleet.versions, described)
            fine = fine and not record.errors
    finally:
        fleet.close()
    return fine
