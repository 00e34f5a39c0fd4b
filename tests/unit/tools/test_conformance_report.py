"""docs/conformance.md names the rules and tests of today."""

from tests.conformance.rules import Rule
from tools import conformance_report as report


def test_the_page_is_up_to_date() -> None:
    assert not report.is_stale(report.collect()), "run `python -m tools.conformance_report`"


def test_every_conformance_test_names_a_rule() -> None:
    assert report.collect().without_rule == []


def test_no_rule_is_both_tested_and_listed_as_untested() -> None:
    suite = report.collect()
    tested = {proof.rule.id for proof in suite.proofs}
    assert tested.isdisjoint(entry.id for entry in suite.not_tested)


def test_a_verdict_does_not_make_the_page_stale_but_a_rule_does() -> None:
    rule = Rule("002", "4.2.3", "frame-end", "Frames end with 0xCE")
    suite = report.Suite([report.Proof(rule, ["test_x.py::test_y"])])
    fresh = report.render(suite, {})
    assert "| not run |" in fresh
    after_run = report.render(suite, {"test_x.py::test_y": "passed"})
    assert "| holds |" in after_run
    assert report.without_verdicts(after_run) == report.without_verdicts(fresh)
    other = report.Suite([report.Proof(Rule("002", "4.2.3", "frame-end", "Changed"), ["test_x.py::test_y"])])
    assert report.without_verdicts(report.render(other, {})) != report.without_verdicts(fresh)


def test_a_rule_holds_only_when_all_its_tests_pass() -> None:
    verdicts = {"a": "passed", "b": "failed"}
    assert report.verdict_of(["a"], verdicts) == "holds"
    assert report.verdict_of(["a", "b"], verdicts) == "failed"
    assert report.verdict_of(["a", "c"], verdicts) == "not run"
