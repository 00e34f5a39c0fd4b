"""What the test programs of many languages report, brought to one form: test -> outcome.

The outcomes are "passed", "failed" and "skipped". Results are kept as JSON files in build/foreign/results.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tools.foreign_suites.sources import BUILD

RESULTS = BUILD / "results"
DETAIL_CHARACTERS_MAX = 400
GO_OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped"}
RSPEC_OUTCOMES = {"passed": "passed", "failed": "failed", "pending": "skipped"}
PHPT_OUTCOMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped", "XFAIL": "passed"}
TAP_LINE = re.compile(r"^(not )?ok (\d+)(?: - )?(.*)$")


@dataclass(frozen=True)
class Outcome:
    state: str
    detail: str = ""


Outcomes = dict[str, Outcome]


def junit(path: Path, output: str) -> Outcomes:
    """JUnit's XML, which pytest, mocha, PHPUnit and our runner for Java write."""
    found: Outcomes = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname') or case.get('class') or ''}::{case.get('name')}"
        found[name] = junit_outcome(case)
    return found


def junit_outcome(case: ElementTree.Element) -> Outcome:
    skipped = None
    for child in case:
        text = child.get("message") or child.text or ""
        if child.tag in ("failure", "error"):
            return Outcome("failed", shortened(text))
        if child.tag == "skipped":
            skipped = Outcome("skipped", shortened(text))
    return skipped or Outcome("passed")


def go(path: Path, output: str) -> Outcomes:
    """The events of `go test -json`. A test that was begun and has no end took the program down with it."""
    states: dict[str, str] = {}
    lines: dict[str, list[str]] = {}
    for event in go_events(output):
        name = event.get("Test", "")
        if not name:
            continue
        states.setdefault(name, "failed")
        if event["Action"] in GO_OUTCOMES:
            states[name] = GO_OUTCOMES[event["Action"]]
        elif event["Action"] == "output":
            lines.setdefault(name, []).append(event["Output"])
    return {name: Outcome(state, detail_of(state, lines.get(name, []))) for name, state in states.items()}


def go_events(output: str) -> Iterator[dict[str, str]]:
    for line in output.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def rspec(path: Path, output: str) -> Outcomes:
    found: Outcomes = {}
    for example in json.loads(path.read_text())["examples"]:
        name = f"{example['file_path']}[{example['full_description']}]"
        while name in found:
            name += "'"
        message = example.get("exception", {}).get("message", "")
        found[name] = Outcome(RSPEC_OUTCOMES[example["status"]], shortened(message))
    return found


def phpt(path: Path, output: str) -> Outcomes:
    """The lines of PHP's run-tests.php."""
    pattern = re.compile(r"^(PASS|FAIL|SKIP|XFAIL|BORK|WARN) .*?\[([^\]]+\.phpt)\](.*)$", re.M)
    return {
        match[2]: Outcome(PHPT_OUTCOMES.get(match[1], "failed"), shortened(match[3]))
        for match in pattern.finditer(output)
    }


def tap(path: Path, output: str) -> Outcomes:
    """TAP of one or many files, each announced by a line `# file: NAME`."""
    found: Outcomes = {}
    file = ""
    for line in output.splitlines():
        if line.startswith("# file: "):
            file = line.removeprefix("# file: ")
        elif match := TAP_LINE.match(line):
            state = "failed" if match[1] else "skipped" if "# skip" in match[3].lower() else "passed"
            found[f"{file} {match[2]} {match[3]}".strip()] = Outcome(state)
    return found


def detail_of(state: str, lines: list[str]) -> str:
    return "" if state == "passed" else shortened("".join(lines[-8:]))


def shortened(text: str) -> str:
    return " ".join(text.split())[:DETAIL_CHARACTERS_MAX]


def counts(outcomes: Outcomes) -> Counter[str]:
    return Counter(outcome.state for outcome in outcomes.values())


def save(suite: str, broker: str, outcomes: Outcomes) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    # Some test programs name tests by the full path of their file.
    folder = re.compile(rf"\S*/build/foreign/suites/{re.escape(suite)}/")
    rows = {folder.sub("", name): [found.state, found.detail] for name, found in sorted(outcomes.items())}
    (RESULTS / f"{suite}.{broker}.json").write_text(json.dumps(rows, indent=1) + "\n")


def load(suite: str, broker: str) -> Outcomes | None:
    path = RESULTS / f"{suite}.{broker}.json"
    if not path.exists():
        return None
    return {name: Outcome(*row) for name, row in json.loads(path.read_text()).items()}
