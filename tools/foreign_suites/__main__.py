"""Run the suites, compare, write the table: see the package."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from tools.brokers import REPOSITORY
from tools.foreign_suites import results
from tools.foreign_suites.comparison import Comparison
from tools.foreign_suites.document import write_document
from tools.foreign_suites.sources import BUILD
from tools.foreign_suites.suite import PYTHON, STAND_INS, Suite
from tools.foreign_suites.table import SUITES

BROKERS = ("rabbitmq", "embermq")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.foreign_suites", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--broker", choices=BROKERS, help="only this one")
    parser.add_argument("--compare", action="store_true", help="run nothing, compare the last results")
    parser.add_argument("--document", action="store_true", help="run nothing, write docs/foreign-suites.md")
    parser.add_argument("--part", default="1/1", help="2/5: the second fifth of the files; results add up")
    parser.add_argument("--only", default="", help="files with this in their names; results add up")
    given = parser.parse_args()
    unknown = [name for name in given.suites if name not in SUITES]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}")
    whole = [name for name in given.suites or SUITES if not SUITES[name].tests]
    if whole and (given.part != "1/1" or given.only):
        parser.error(f"not in parts: {', '.join(whole)}")
    return given


def make_python() -> None:
    """The Python clients and what their tests need, away from our own environment."""
    stamp, requirements = BUILD / "python" / ".ready", STAND_INS / "requirements.txt"
    if stamp.exists() and stamp.read_text() == requirements.read_text():
        return
    subprocess.run([sys.executable, "-m", "venv", str(PYTHON.parent.parent)], check=True)
    subprocess.run(
        [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements],
        check=True,
    )
    stamp.write_text(requirements.read_text())


def run(suite: Suite, broker: str, part: str, only: str) -> None:
    began = time.monotonic()
    inside = [sys.executable, "-m", "tools.foreign_suites.inside"]
    subprocess.run(
        ["unshare", "--net", *inside, suite.name, broker, part, only],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'src'}"},
        check=True,
    )
    counts = results.counts(results.load(suite.name, broker) or {})
    print(f"{suite.name} on {broker}: {dict(counts)}, {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    given = arguments()
    if given.document:
        write_document()
        return 0
    suites = [SUITES[name] for name in given.suites or SUITES]
    if not given.compare:
        make_python()
        for suite in suites:
            suite.make_ready()
            for broker in [given.broker] if given.broker else BROKERS:
                run(suite, broker, given.part, given.only)
    comparisons = [Comparison.of(suite) for suite in suites]
    for comparison in comparisons:
        comparison.show()
    return 1 if any(comparison.unexplained for comparison in comparisons) else 0


if __name__ == "__main__":
    sys.exit(main())
