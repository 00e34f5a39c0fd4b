"""What the report says follows from the results."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from bench import report, routing, runner
from bench.goal import GOALS, Goal
from bench.latency import summary
from bench.metric import METRICS, describe


def record(
    scenario: str, date: str, *, quick: bool = False, **brokers: list[dict[str, float]]
) -> dict[str, Any]:
    return {
        "scenario": scenario,
        "date": date,
        "command": "python -m bench",
        "quick": quick,
        "options": {"seconds": 5.0, "scale": 1.0},
        "machine": {"cpu": "abacus"},
        "versions": dict.fromkeys(brokers, "1.2.3"),
        "runs": {
            broker: [{"metrics": metrics, "series": {}} for metrics in runs]
            for broker, runs in brokers.items()
        },
        "errors": {},
    }


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    return tmp_path


def keep(folder: Path, name: str, content: dict[str, Any]) -> None:
    (folder / f"{name}.json").write_text(json.dumps(content))


def rate(value: float) -> dict[str, float]:
    return {"messages_per_second": value, "broker_us_per_message": 1e6 / value}


def test_the_newest_comparison_wins_and_smoke_tests_do_not_count(results: Path) -> None:
    keep(results, "1", record("throughput_16", "a", rabbitmq=[rate(10)], embermq=[rate(100)]))
    keep(results, "2", record("throughput_16", "b", rabbitmq=[rate(10)], embermq=[rate(200)]))
    keep(results, "3", record("throughput_16", "c", embermq=[rate(300)]))
    keep(results, "4", record("throughput_16", "d", quick=True, rabbitmq=[rate(1)], embermq=[rate(1)]))
    assert report.newest()["throughput_16"]["date"] == "b"


def test_the_table_shows_medians_and_how_much_better_we_are(results: Path) -> None:
    ours = [rate(900_000), rate(1_100_000), rate(1_000_000)]
    keep(results, "1", record("throughput_16", "a", rabbitmq=[rate(50_000)] * 3, embermq=ours))
    text = report.measured(report.newest(), {"throughput": ["throughput.svg"]})
    assert "| 1,000,000 (900,000 to 1,100,000) | **20.0x** |" in text
    assert "| broker CPU per message, us | 20.00 | 1.00 | 20.0x |" in text
    assert "(performance/throughput.svg)" in text
    assert "times as good as RabbitMQ | 20.0x | yes |" in text


def test_a_scenario_is_named_above_its_numbers_and_commands_can_be_copied(results: Path) -> None:
    keep(results, "1", record("throughput_16", "a", rabbitmq=[rate(50_000)], embermq=[rate(100_000)]))
    text = report.measured(report.newest(), {})
    titled = "| **1 publisher, 1 consumer, 16 B, automatic acks, transient** (`throughput_16`) | | | |\n"
    assert titled + "| messages/s | 50,000 | 100,000 | **2.0x** |\n" in text
    assert "```sh\npython -m bench\n```" in text


def test_a_goal_that_was_missed_says_so(results: Path) -> None:
    keep(results, "1", record("throughput_16", "a", rabbitmq=[rate(50_000)], embermq=[rate(100_000)]))
    lines = report.goal_section(report.newest())
    assert "| 2.0x | **no** |" in "\n".join(lines)
    assert "not measured" in "\n".join(lines)


def test_only_the_part_between_the_markers_is_replaced() -> None:
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    new = report.replace(page, f"{report.BEGIN}\nnew\n{report.END}")
    assert new == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    with pytest.raises(ValueError):
        report.replace("no markers", "new")


def test_what_was_not_measured_here_is_not_removed_by_accident(results: Path) -> None:
    page = results / "page.md"
    page.write_text(f"{report.BEGIN}{report.END}")
    for scenario in ("stream_read", "stream_range"):
        (results / f"{scenario}.json").write_text(json.dumps(record(scenario, "2026", embermq=[{}])))
    report.write(page, results)
    before = page.read_text()
    (results / "stream_range.json").unlink()
    with pytest.raises(report.ResultsMissing, match=r"stream_range\. Measure"):
        report.write(page, results)
    assert page.read_text() == before
    report.write(page, results, drop=True)
    assert report.shown(page.read_text()) == {"stream_read"}


def test_the_page_has_its_markers() -> None:
    assert report.replace(report.PAGE.read_text(), f"{report.BEGIN}{report.END}")


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.scenario}-{goal.metric}")
def test_goals_are_about_scenarios_and_metrics_that_exist(goal: Goal) -> None:
    assert goal.scenario in runner.SCENARIOS
    assert goal.metric in METRICS
    if goal.versus_rabbitmq:
        assert describe(goal.metric).higher_is_better is not None


def test_less_is_more_where_it_should_be() -> None:
    assert describe("p99_us").advantage(ours=100, theirs=300) == 3
    assert describe("messages_per_second").advantage(ours=300, theirs=100) == 3
    assert describe("depth_max").advantage(ours=1, theirs=2) is None


def test_quantiles_leave_out_the_first_tenth() -> None:
    microseconds = [10**9] * 100 + list(range(1000, 901_000, 1000))
    figures = summary(microseconds, "")
    assert (figures["p50_us"], figures["p99_us"], figures["max_us"]) == (451, 892, 900)


def test_the_judge_of_topics_knows_each_form_of_pattern() -> None:
    bindings = [
        ("a", "x.y.z"),
        ("b", "x.*.z"),
        ("c", "x.y.*"),
        ("d", "x.y.#"),
        ("d", "x.*.z"),
        ("e", "x.z.*"),
    ]
    assert routing.fans(bindings, ["x.y.z", "x.q.z", "x.y.q", "q.q.q"]) == [4, 2, 2, 0]


def test_topic_bindings_come_in_all_forms() -> None:
    bindings = routing.topic_bindings(1000, ["a", "b"], random.Random(1))
    assert len(set(bindings)) == 1000
    ends = {pattern.rpartition(".")[2] for _, pattern in bindings}
    assert {"*", "#"} < ends
    assert any("*" not in pattern and "#" not in pattern for _, pattern in bindings)
