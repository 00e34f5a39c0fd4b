"""The results of one suite side by side: which tests end differently, and is that meant?"""

from __future__ import annotations

from dataclasses import dataclass

from tools.foreign_suites.results import Outcome, Outcomes, counts, load
from tools.foreign_suites.suite import Suite

MISSING = Outcome("missing")


@dataclass(frozen=True)
class Difference:
    test: str
    rabbitmq: Outcome
    embermq: Outcome
    reason: str | None

    @property
    def ember_is_better(self) -> bool:
        return self.embermq.state == "passed"


@dataclass(frozen=True)
class Comparison:
    suite: Suite
    rabbitmq: Outcomes
    embermq: Outcomes
    differences: tuple[Difference, ...]

    @classmethod
    def of(cls, suite: Suite) -> Comparison:
        rabbitmq, embermq = load(suite.name, "rabbitmq") or {}, load(suite.name, "embermq") or {}
        differences = []
        for test in sorted({*rabbitmq, *embermq}):
            one, other = rabbitmq.get(test, MISSING), embermq.get(test, MISSING)
            if one.state != other.state:
                differences.append(Difference(test, one, other, suite.reason(test)))
        return cls(suite, rabbitmq, embermq, tuple(differences))

    @property
    def unexplained(self) -> list[Difference]:
        return [found for found in self.differences if found.reason is None and not found.ember_is_better]

    def show(self) -> None:
        for broker, outcomes in (("RabbitMQ", self.rabbitmq), ("EmberMQ", self.embermq)):
            numbers = counts(outcomes)
            print(f"{self.suite.name} {self.suite.version}: {broker} passed {numbers['passed']}", end=", ")
            print(f"failed {numbers['failed']}, skipped {numbers['skipped']}")
        for found in self.differences:
            print(f"  {found.test}\n    RabbitMQ: {found.rabbitmq.state} {found.rabbitmq.detail}")
            print(f"    EmberMQ: {found.embermq.state} {found.embermq.detail}")
            print(f"    {found.reason or ('better' if found.ember_is_better else 'NOT EXPLAINED')}")
