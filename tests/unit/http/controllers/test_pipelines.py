"""Pipelines as the broker knows them: what they told, that they died, that they are forgotten."""

from __future__ import annotations

import time

import pytest

from embermq.http.pipeline_registry import FORGOTTEN_MS, PIPELINES_MAX, SILENT_MS
from tests.support.http_api import Desk

PATH = "/api/pipelines/%2F/orders"
RUNNING = {
    "state": "running",
    "host": "here",
    "pid": 7,
    "batches": 2,
    "rows": 10,
    "rows_per_second": 2.5,
    "lag": 3,
    "source": "queue 'orders'",
    "sink": "exchange 'paid'",
}


def metrics_of(desk: Desk) -> dict[str, str]:
    lines = desk.ask("GET", "/metrics/per-object").body.decode().splitlines()
    found = [line.split() for line in lines if line.startswith("embermq_pipeline_")]
    return {name.removeprefix("embermq_pipeline_").partition("{")[0]: value for name, value in found}


def test_what_it_tells_is_shown(desk: Desk) -> None:
    assert desk.get("/api/pipelines") == []
    desk.put(PATH, RUNNING, 201)
    desk.put(PATH, RUNNING | {"lag": None, "rows": 12}, 204)
    view = desk.get(PATH)
    assert desk.get("/api/pipelines") == desk.get("/api/pipelines/%2F") == [view]
    assert (view["state"], view["rows"], view["host"]) == ("running", 12, "here") and "lag" not in view
    assert (view["source"], view["sink"]) == ("queue 'orders'", "exchange 'paid'")
    assert metrics_of(desk)["running"] == "1" and "lag" not in metrics_of(desk)
    assert desk.ask("DELETE", PATH).status == 204
    assert desk.ask("GET", PATH).status == desk.ask("DELETE", PATH).status == 404 and not metrics_of(desk)


def test_one_that_falls_silent_has_died_and_is_forgotten(desk: Desk) -> None:
    begun = time.time()
    desk.put(PATH, RUNNING)
    metrics = metrics_of(desk)
    assert (metrics["running"], metrics["failed"], metrics["lag"]) == ("1", "0", "3")
    desk.set_clock(lambda: begun + SILENT_MS / 1000 + 1)
    view = desk.get(PATH)
    assert (view["state"], view["reason"]) == ("died", "not heard of any more")
    metrics = metrics_of(desk)
    assert (metrics["running"], metrics["failed"], metrics["rows_total"]) == ("0", "1", "10")
    assert "lag" not in metrics and "rows_per_second" not in metrics
    desk.put(PATH, RUNNING, 204)  # it was only held up
    assert desk.get(PATH)["state"] == "running"
    desk.set_clock(lambda: begun + FORGOTTEN_MS / 1000 + 60)
    assert desk.get("/api/pipelines") == [] and desk.ask("GET", PATH).status == 404 and not metrics_of(desk)
    desk.put(PATH + "2", RUNNING)
    assert [view["name"] for view in desk.get("/api/pipelines")] == ["orders2"]


def test_one_that_has_ended_stays_so(desk: Desk) -> None:
    begun = time.time()
    desk.put(PATH, RUNNING | {"state": "ended"})
    desk.set_clock(lambda: begun + SILENT_MS / 1000 + 1)
    assert desk.get(PATH)["state"] == "ended" and metrics_of(desk)["failed"] == "0"
    desk.put(PATH, RUNNING | {"state": "failed", "reason": "why"}, 204)
    assert desk.get(PATH)["reason"] == "why" and metrics_of(desk)["failed"] == "1"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "[{key_missing,state}]"),
        ({"state": "died"}, "state must be one of running, waiting, ended, failed"),
        ({"state": "ended", "lag": -1}, "lag must be a count"),
        ({"state": "ended", "rows": True}, "rows must be a count"),
        ({"state": "ended", "rows_per_second": "3"}, "rows_per_second must be a number"),
        ({"state": "ended", "reason": 3}, "reason must be text"),
    ],
)
def test_what_is_no_state_is_refused(desk: Desk, body: dict[str, object], reason: str) -> None:
    reply = desk.ask("PUT", PATH, body)
    assert (reply.status, reply.reason) == (400, reason)


def test_there_is_an_end_to_their_number(desk: Desk) -> None:
    for number in range(PIPELINES_MAX):
        desk.put(f"{PATH}{number}", {"state": "ended"}, 201)
    assert desk.ask("PUT", PATH, RUNNING).reason == f"there are {PIPELINES_MAX} pipelines already"
    desk.put(f"{PATH}7", RUNNING, 204)


def test_who_may_not_enter_sees_none(desk: Desk) -> None:
    desk.put("/api/vhosts/theirs")
    theirs, login = "/api/pipelines/theirs/orders", "management:secret"
    desk.put(theirs, RUNNING)
    assert desk.get("/api/pipelines", login=login) == []
    assert desk.ask("GET", theirs, login=login).status == 401
    assert desk.ask("PUT", theirs, RUNNING, login=login).status == 401
    assert desk.ask("PUT", PATH, RUNNING, login=login).status == 201
