"""Python clients against one broker, in one run: publishing with confirms, consuming with acks.

Every client is used as its documentation recommends. pika waits for each confirm, there is
no other way; aio-pika and ours keep a window of publishes unconfirmed; "one by one" is ours used like pika's.
Each measurement is a process of its own, and they take turns: whatever else happens on the machine hits all.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench import client_loads, machine
from bench.runner import BROKERS, RESULTS

PAGE = RESULTS.parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- clients: begin -->", "<!-- clients: end -->"
GOAL_TIMES = 5.0
Load = Callable[[str, float], tuple[float, float]]

# name, what it is compared with, the load
CLIENTS: dict[str, tuple[str, Load]] = {
    "pika, BlockingConnection": ("", client_loads.pika_blocking),
    "embermq, one by one": ("pika, BlockingConnection", client_loads.ember_one_by_one),
    "embermq, blocking": ("pika, BlockingConnection", client_loads.ember_blocking),
    "embermq, blocking, batches": ("pika, BlockingConnection", client_loads.ember_batches),
    "aio-pika": ("", client_loads.aio_pika_window),
    "embermq, asyncio": ("aio-pika", client_loads.ember_asyncio),
    "embermq, asyncio, batches": ("aio-pika", client_loads.ember_asyncio_batches),
}


def in_child(function: Callable[..., tuple[float, float]], *arguments: object) -> tuple[float, float]:
    """Messages per second published and consumed."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(function, arguments)


def ratio(rates: dict[str, tuple[float, float]], name: str) -> list[str]:
    reference = CLIENTS[name][0]
    if not reference:
        return ["", ""]
    return [f"{ours / theirs:.1f}x" for ours, theirs in zip(rates[name], rates[reference], strict=True)]


def table(
    rates: dict[str, tuple[float, float]], processor: dict[str, tuple[float, float]], versions: str
) -> list[str]:
    lines = [
        "| client | published and confirmed/s | | CPU, us each | consumed and acked/s | | CPU, us each |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, (published, consumed) in rates.items():
        times = ratio(rates, name)
        us = [f"{1e6 / rate:.2f}" for rate in processor[name]]
        lines.append(
            f"| {name} | {published:,.0f} | {times[0]} | {us[0]} | {consumed:,.0f} | {times[1]} | {us[1]} |"
        )
    return [*lines, "", versions]


def write_between(begin: str, end: str, lines: list[str]) -> None:
    """Put lines between two markers of docs/performance.md."""
    page = PAGE.read_text()
    before, _, rest = page.partition(begin)
    after = rest.partition(end)[2]
    PAGE.write_text("\n".join([before + begin, "", *lines, "", end]) + after)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench clients",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="publishing time of a run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--broker", choices=list(BROKERS), default="embermq")
    parser.add_argument("--only", help="clients whose name holds this text")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args(arguments)
    chosen = [name for name in CLIENTS if options.only is None or options.only in name]
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    processor: dict[str, tuple[float, float]] = {}
    with BROKERS[options.broker]() as broker:
        versions = f"{broker.name} {broker.version}, {client_loads.versions()}"
        for number in range(1, options.runs + 1):
            for name in chosen:
                rates = in_child(CLIENTS[name][1], broker.url, options.seconds)
                runs[name].append(rates)
                print(
                    f"  {number}/{options.runs} {name:28} {rates[0]:>12,.0f} {rates[1]:>12,.0f}", flush=True
                )
        for name in chosen:
            processor[name] = in_child(client_loads.measured_by_processor_time, CLIENTS[name][1], broker.url)
    middle = {
        name: (median(rate for rate, _ in rates), median(rate for _, rate in rates))
        for name, rates in runs.items()
    }
    now = datetime.now(UTC)
    conditions = (
        f"{client_loads.BODY_BYTES}-byte messages, transient, prefetch {client_loads.PREFETCH}, medians of "
        f"{options.runs} runs in turns; {versions}; {now:%Y-%m-%d}, "
        f"`python -m bench clients --seconds {options.seconds:g} --runs {options.runs}`."
    )
    if options.only is None:
        lines = table(middle, processor, conditions)
        print("\n".join(lines))
        if options.write:
            write_between(BEGIN, END, lines)
    save(now, runs, versions)
    return 0


def save(now: datetime, runs: dict[str, list[tuple[float, float]]], versions: str) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y%m%dT%H%M%S}-clients.json"
    content = {
        "format": 1,
        "scenario": "clients",
        "date": now.isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", "bench", *sys.argv[1:]]),
        "quick": False,
        "machine": machine.describe(),
        "versions": versions,
        "clients": runs,
    }
    path.write_text(json.dumps(content))
    return path
