"""The command line of the benchmarks.

python -m bench [SCENARIO|GROUP ...] [--runs 5] [--seconds 5] [--against rabbitmq,embermq] [--quick]
python -m bench --list              what there is
python -m bench raw SCENARIO --port N [--pid PID]   one scenario against a broker that runs already
python -m bench ceiling             how fast the load generator itself is
python -m bench clients             Python clients against one broker: ours, pika, aio-pika
python -m bench spark               the Spark data source against one that makes its rows in memory
python -m bench bystander           how long others wait while one client asks for something huge
python -m bench slow_disk           and while a queue is read back from a slow disk (as root)
python -m bench report              write the measured part of docs/performance.md from the newest results
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bench import bystander, ceiling, clients, slow_disk
from bench.runner import BROKERS, SCENARIOS, run_all, summary_line
from bench.scenario import Options

QUICK_SCALE = 0.05


class Neighbour:
    """A broker that somebody else started; what its process costs is known only with a pid."""

    def __init__(self, host: str, port: int, pid: int | None) -> None:
        self.host = host
        self.port = port
        self._pid = pid

    def cpu_seconds(self) -> float:
        if self._pid is None:
            return 0.0
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        if self._pid is None:
            return 0
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def chosen(names: list[str]) -> list[str]:
    """Scenario names for names of scenarios and groups; all without any."""
    if not names:
        return list(SCENARIOS)
    picked: list[str] = []
    for name in names:
        group = [scenario.name for scenario in SCENARIOS.values() if scenario.group == name]
        if not group and name not in SCENARIOS:
            raise SystemExit(f"bench: no scenario or group '{name}' (see --list)")
        picked += group or [name]
    return list(dict.fromkeys(picked))


def list_scenarios() -> None:
    for scenario in SCENARIOS.values():
        print(f"{scenario.group:11} {scenario.name:22} {scenario.titled(Options())}")


def run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, formatter_class=Plain)
    parser.add_argument("names", nargs="*", metavar="SCENARIO|GROUP", help="default: all")
    parser.add_argument("--list", action="store_true", help="show scenarios and groups")
    parser.add_argument("--runs", type=int, default=5, help="runs per broker (long scenarios take fewer)")
    parser.add_argument("--seconds", type=float, default=5.0, help="publishing time of a run")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on backlog, queues and connections")
    parser.add_argument("--against", default="rabbitmq,embermq", help="brokers, the reference first")
    parser.add_argument(
        "--quick", action="store_true", help="smoke test: 1 run of 1 s, small numbers, not reported"
    )
    options = parser.parse_args(arguments)
    if options.list:
        list_scenarios()
        return 0
    brokers = options.against.split(",")
    for name in brokers:
        if name not in BROKERS:
            parser.error(f"no broker '{name}', there are {', '.join(BROKERS)}")
    sizes = Options(1.0, QUICK_SCALE) if options.quick else Options(options.seconds, options.scale)
    runs = 1 if options.quick else options.runs
    return 0 if run_all(chosen(options.names), brokers, sizes, runs, quick=options.quick) else 1


def raw(arguments: list[str]) -> int:
    """For a profiler: start the broker yourself, attach perf, then let this load it."""
    parser = argparse.ArgumentParser(prog="python -m bench raw", description=raw.__doc__)
    parser.add_argument("scenario", choices=[s.name for s in SCENARIOS.values() if not s.owns_broker])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, help="process of the broker, for its CPU time")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="print every metric")
    options = parser.parse_args(arguments)
    scenario = SCENARIOS[options.scenario]
    target = Neighbour(options.host, options.port, options.pid)
    for _ in range(options.runs):
        metrics = scenario.run(target, Options(options.seconds, options.scale)).metrics
        if options.pid is None:
            metrics = {
                name: value for name, value in metrics.items() if not name.startswith(("broker_", "rss_"))
            }
        print(summary_line(scenario, metrics), flush=True)
        if options.all:
            print("\n".join(f"  {name:28} {value:,.3f}" for name, value in metrics.items()))
    return 0


def show_ceiling(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench ceiling", description=ceiling.__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args(arguments)
    for body_bytes in (16, 1024):
        for echo in (True, False):
            result = ceiling.measure(options.seconds, body_bytes, echo=echo)
            partner = "echo" if echo else "sink"
            rate, cost = result["messages_per_second"], result["load_us_per_message"]
            print(
                f"{body_bytes:5} B through the {partner}: {rate:,.0f} msg/s, {cost:.3f} us of CPU per message"
            )
    return 0


def report(arguments: list[str]) -> int:
    from bench import report as pages  # matplotlib is needed for nothing else

    parser = argparse.ArgumentParser(prog="python -m bench report", description=pages.__doc__)
    parser.add_argument("--drop", action="store_true", help="remove results that were not measured here")
    try:
        pages.write(drop=parser.parse_args(arguments).drop)
    except pages.ResultsMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


class Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the module's docstring."""


def spark(arguments: list[str]) -> int:
    from bench import spark as on_spark  # Spark is needed for nothing else

    return on_spark.main(arguments)


COMMANDS = {
    "raw": raw,
    "ceiling": show_ceiling,
    "report": report,
    "clients": clients.main,
    "bystander": bystander.main,
    "slow_disk": slow_disk.main,
    "spark": spark,
}


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]](arguments[1:])
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
