"""The tables in docs/foreign-suites.md, written from the last results between two marks.

Rows of suites that have no results here stay as they are.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tools.brokers import REPOSITORY
from tools.foreign_suites.comparison import Comparison
from tools.foreign_suites.results import RESULTS, counts
from tools.foreign_suites.table import SUITES

PAGE = REPOSITORY / "docs" / "foreign-suites.md"
BEGIN, END = "<!-- written by python -m tools.foreign_suites --document -->", "<!-- end -->"
SUITE_ROW = (
    "| {0.name} {0.version} | {0.language} | {0.about} | {tests} | {rabbitmq} | {embermq} | {equal} | {day} |"
)


def suite_row(comparison: Comparison) -> str:
    tests = len({*comparison.rabbitmq, *comparison.embermq})
    written_s = (RESULTS / f"{comparison.suite.name}.embermq.json").stat().st_mtime
    return SUITE_ROW.format(
        comparison.suite,
        tests=tests,
        rabbitmq=counts(comparison.rabbitmq)["passed"],
        embermq=counts(comparison.embermq)["passed"],
        equal=tests - len(comparison.differences),
        day=datetime.fromtimestamp(written_s, UTC).date().isoformat(),
    )


def suite_table(comparisons: list[Comparison], before: str) -> list[str]:
    lines = [
        "| suite | language | what is run | tests | RabbitMQ passes | EmberMQ passes | end alike | of |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for comparison in comparisons:
        if comparison.rabbitmq and comparison.embermq:
            lines.append(suite_row(comparison))
        else:
            lines += rows_before(before, f"| {comparison.suite.name} {comparison.suite.version} |")
    return lines


def rows_before(before: str, start: str) -> list[str]:
    return [line for line in before.splitlines() if line.startswith(start)]


def difference_table(comparisons: list[Comparison], before: str) -> list[str]:
    lines = ["| suite | test | RabbitMQ | EmberMQ | why |", "| --- | --- | --- | --- | --- |"]
    for comparison in comparisons:
        if not comparison.rabbitmq or not comparison.embermq:
            lines += rows_before(before, f"| {comparison.suite.name} | `")
            continue
        for found in comparison.differences:
            test = found.test.replace("|", "\\|")
            reason = found.reason or ("" if found.ember_is_better else "**not explained**")
            states = f"{found.rabbitmq.state} | {found.embermq.state}"
            lines.append(f"| {comparison.suite.name} | `{test}` | {states} | {reason} |")
    return lines


def write_document() -> None:
    comparisons = [Comparison.of(suite) for suite in SUITES.values()]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    tables_before, _, after = rest.partition(END)
    tables = [*suite_table(comparisons, tables_before), "", "Tests that end differently:", ""]
    tables += difference_table(comparisons, tables_before)
    PAGE.write_text("\n".join([before + BEGIN, "", *tables, "", END + after]))
