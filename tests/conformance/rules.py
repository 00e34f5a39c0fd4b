"""Rules of the specifications, and the decorators that tie them to the tests that prove them.

    @rule("002", "4.2.3", "frame-end", "A frame whose end is not 0xCE closes the connection", level="MUST")
    def test_wrong_frame_end(client): ...

A test may prove several rules (stack the decorators), a rule may be proved by several tests (keep the
decorator in a name and use it twice). `tools/conformance_report.py` makes docs/conformance.md of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

DOCUMENTS = {
    "000": "AMQP 0-9 specification (2006), named tests",
    "001": "AMQP 0-9-1 reference, generated from its XML",
    "002": "AMQP 0-9-1 specification (2008)",
    "004": "RabbitMQ's extensions",
}
LEVELS = ("MUST", "SHOULD", "MAY")

Test = TypeVar("Test", bound=Callable[..., Any])
RULES: dict[str, "Rule"] = {}


@dataclass(frozen=True)
class Rule:
    document: str
    section: str
    name: str
    text: str
    level: str = "MUST"

    @property
    def id(self) -> str:
        return f"{self.document} {self.name}"

    def __call__(self, test: Test) -> Test:
        """As a decorator: the test proves this rule."""
        test.__dict__.setdefault("conformance_rules", []).insert(0, self)
        return test


def rule(document: str, section: str, name: str, text: str, level: str = "MUST") -> Rule:
    """Register a rule. `section` as the document numbers it, `name` unique within the document."""
    assert document in DOCUMENTS, f"unknown document {document!r}"
    assert level in LEVELS, f"unknown level {level!r}"
    made = Rule(document, section, name, text, level)
    known = RULES.setdefault(made.id, made)
    assert known == made, f"rule {made.id!r} is defined twice with different words"
    return known


def rabbitmq_differs(reason: str) -> Callable[[Test], Test]:
    """RabbitMQ breaks the rule, EmberMQ follows it: the test is expected to fail on the RabbitMQ target."""

    def mark(test: Test) -> Test:
        test.__dict__["rabbitmq_differs"] = reason
        return test

    return mark


@dataclass(frozen=True)
class NotTested:
    """A rule without a test. `decided_against` tells a choice of ours from what no test can show."""

    document: str
    section: str
    name: str
    text: str
    reason: str
    decided_against: bool = False

    @property
    def id(self) -> str:
        return f"{self.document} {self.name}"
