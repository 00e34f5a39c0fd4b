"""The last lines of the log, in memory and by HTTP."""

import logging

from embermq.http.log_lines import LINES_MAX, MESSAGE_CHARACTERS_MAX, LogLines
from tests.support.http_api import Desk


def written(kept: LogLines, level: int, text: str, *arguments: object, **extra: object) -> None:
    record = logging.getLogger("embermq.x").makeRecord(
        "embermq.x", level, "file", 1, text, arguments, None, extra=dict(extra)
    )
    kept.handle(record)


def test_lines_are_numbered_and_bounded() -> None:
    kept = LogLines()
    for number in range(LINES_MAX + 5):
        written(kept, logging.INFO, "line %d", number)
    assert len(kept.lines) == LINES_MAX
    assert [line.message for line in kept.after(LINES_MAX + 3, logging.DEBUG, 10)] == [
        f"line {LINES_MAX + 3}",
        f"line {LINES_MAX + 4}",
    ]
    written(kept, logging.INFO, "x" * 10_000)
    assert len(kept.lines[-1].message) == MESSAGE_CHARACTERS_MAX


def test_graver_lines_only_and_those_after_a_number(desk: Desk) -> None:
    kept = desk.api.context.log_lines
    written(kept, logging.INFO, "nothing much")
    written(kept, logging.WARNING, "login refused for %s", "eve", user="eve")
    told = desk.get("/api/log?level=warning")
    assert told["last"] == 2
    [line] = told["lines"]
    assert (line["message"], line["level"], line["about"]) == (
        "login refused for eve",
        "warning",
        {"user": "eve"},
    )
    assert desk.get("/api/log?after=2")["lines"] == []
    assert [line["number"] for line in desk.get("/api/log?count=1")["lines"]] == [2]


def test_bad_questions_and_users_who_may_not(desk: Desk) -> None:
    for query in ("level=loud", "after=-1", "count=0", "count=x"):
        assert desk.ask("GET", f"/api/log?{query}").status == 400
    assert desk.ask("GET", "/api/log", login="monitoring:secret").status == 401
