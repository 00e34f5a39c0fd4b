"""The tables in docs/foreign-suites.md, written from the last results between two marks."""

from __future__ import annotations

from tools.brokers import REPOSITORY
from tools.foreign_suites.comparison import Comparison
from tools.foreign_suites.results import counts
from tools.foreign_suites.table import SUITES

PAGE = REPOSITORY / "docs" / "foreign-suites.md"
BEGIN, END = "<!-- written by python -m tools.foreign_suites --document -->", "<!-- end -->"
SUITE_ROW = "| {0.name} {0.version} | {0.language} | {0.about} | {tests} | {rabbitmq} | {embermq} | {equal} |"


def suite_table(comparisons: list[Comparison]) -> list[str]:
    lines = [
        "| suite | language | what is run | tests | RabbitMQ passes | EmberMQ passes | end alike |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for comparison in comparisons:
        tests = len({*comparison.rabbitmq, *comparison.embermq})
        lines.append(
            SUITE_ROW.format(
                comparison.suite,
                tests=tests,
                rabbitmq=counts(comparison.rabbitmq)["passed"],
                embermq=counts(comparison.embermq)["passed"],
                equal=tests - len(comparison.differences),
            )
        )
    return lines


def difference_table(comparisons: list[Comparison]) -> list[str]:
    lines = ["| suite | test | RabbitMQ | EmberMQ | why |", "| --- | --- | --- | --- | --- |"]
    for comparison in comparisons:
        for found in comparison.differences:
            test = found.test.replace("|", "\\|")
            reason = found.reason or ("" if found.ember_is_better else "**not explained**")
            states = f"{found.rabbitmq.state} | {found.embermq.state}"
            lines.append(f"| {comparison.suite.name} | `{test}` | {states} | {reason} |")
    return lines


def write_document() -> None:
    comparisons = [Comparison.of(suite) for suite in SUITES.values()]
    comparisons = [found for found in comparisons if found.rabbitmq and found.embermq]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = [*suite_table(comparisons), "", "Tests that end differently:", ""]
    tables += difference_table(comparisons)
    PAGE.write_text("\n".join([before + BEGIN, "", *tables, "", END + after]))
