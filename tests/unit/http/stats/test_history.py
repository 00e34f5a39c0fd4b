"""Rates and samples: what was counted, as it was a while ago."""

from __future__ import annotations

import pytest

from embermq.http.stats import history
from embermq.http.stats.time_series import Ring, Track
from tests.support.http_api import Desk


class Clock:
    """Five seconds pass at a time; the history samples then."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.now_s = 1_000_000.0
        desk.set_clock(lambda: self.now_s)

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.now_s += 5.0
            self.desk.run(self.desk.api.context.history.sample())


@pytest.fixture
def clock(desk: Desk) -> Clock:
    clock = Clock(desk)
    clock.tick()
    return clock


def test_rates_of_the_last_five_seconds(desk: Desk, clock: Clock) -> None:
    desk.put("/api/queues/%2F/q")
    for _ in range(10):
        desk.publish("q", "x")
    clock.tick()
    queue = desk.get("/api/queues/%2F/q")
    assert queue["message_stats"]["publish"] == 10
    assert queue["message_stats"]["publish_details"] == {"rate": 2.0}
    assert queue["messages_details"] == {"rate": 2.0}
    assert queue["message_stats"]["ack_details"] == {"rate": 0.0}
    clock.tick()
    assert desk.get("/api/queues/%2F/q")["message_stats"]["publish_details"] == {"rate": 0.0}


def test_everything_has_rates(desk: Desk, clock: Clock) -> None:
    desk.put("/api/queues/%2F/q")
    desk.publish("q", "x")
    desk.publish("q", "y")
    taken = {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}
    assert len(desk.ask("POST", "/api/queues/%2F/q/get", taken).json) == 1
    clock.tick()
    for path in ("/api/overview", "/api/vhosts/%2F"):
        stats = desk.get(path)["message_stats"]
        assert (stats["publish"], stats["publish_details"]["rate"]) == (2, 0.4)
        assert (stats["get"], stats["deliver"], stats["deliver_get"], stats["ack"]) == (1, 0, 1, 1)
    overview = desk.get("/api/overview")
    assert overview["queue_totals"]["messages_ready"] == 1
    assert overview["churn_rates"]["queue_created"] == 1
    assert overview["churn_rates"]["queue_created_details"] == {"rate": 0.2}
    exchange = desk.get("/api/exchanges/%2F/amq.default")["message_stats"]
    assert (exchange["publish_in"], exchange["publish_out"]) == (2, 2)
    assert exchange["publish_in_details"] == {"rate": 0.4}


def test_samples_of_a_range(desk: Desk, clock: Clock) -> None:
    desk.put("/api/queues/%2F/q")
    for count in (1, 0, 3):
        for _ in range(count):
            desk.publish("q", "x")
        clock.tick()
    path = "/api/queues/%2F/q?lengths_age=20&lengths_incr=5&msg_rates_age=10&msg_rates_incr=5"
    queue = desk.get(path)
    lengths = queue["messages_details"]
    assert [point["sample"] for point in lengths["samples"]] == [4, 1, 1, 0, 0]
    assert lengths["samples"][0]["timestamp"] - lengths["samples"][1]["timestamp"] == 5000
    assert (lengths["rate"], lengths["avg_rate"], lengths["avg"]) == (0.6, 0.2, 1.2)
    assert [point["sample"] for point in queue["message_stats"]["publish_details"]["samples"]] == [4, 1, 1]
    assert "samples" not in desk.get("/api/queues/%2F/q")["messages_details"]


def test_a_queue_that_never_changed_has_samples_too(desk: Desk, clock: Clock) -> None:
    desk.put("/api/queues/%2F/q")
    clock.tick(2)
    details = desk.get("/api/queues/%2F/q?lengths_age=10&lengths_incr=5")["messages_details"]
    assert [point["sample"] for point in details["samples"]] == [0, 0, 0]


@pytest.mark.parametrize("query", ["lengths_age=x&lengths_incr=5", "lengths_age=600&lengths_incr=0"])
def test_ranges_that_cannot_be(desk: Desk, query: str) -> None:
    assert desk.ask("GET", f"/api/overview?{query}").status == 400
    too_many = "msg_rates_age=86400&msg_rates_incr=1"
    assert desk.ask("GET", f"/api/overview?{too_many}").status == 400


def test_a_user_sees_the_rates_of_the_own_virtual_hosts(desk: Desk, clock: Clock) -> None:
    desk.put("/api/vhosts/other")
    desk.put("/api/queues/other/q")
    message = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}}
    assert desk.ask("POST", "/api/exchanges/other/amq.default/publish", message).status == 200
    clock.tick()
    assert desk.get("/api/overview")["message_stats"]["publish_details"]["rate"] == 0.2
    seen = desk.get("/api/overview", login="management:secret")["message_stats"]
    assert (seen["publish"], seen["publish_details"]["rate"]) == (0, 0.0)


def test_what_is_deleted_stays_in_the_sums(desk: Desk, clock: Clock) -> None:
    desk.put("/api/vhosts/other")
    desk.put("/api/queues/other/q")
    message = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}}
    desk.ask("POST", "/api/exchanges/other/amq.default/publish", message)
    clock.tick()
    tracked = len(desk.api.context.history.tracks)
    assert desk.ask("DELETE", "/api/vhosts/other").status == 204
    clock.tick()
    assert desk.get("/api/overview")["message_stats"]["publish"] == 1
    assert len(desk.api.context.history.tracks) < tracked


def test_few_keep_much(desk: Desk, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "LONG_TRACKS_MAX", 2)
    for name in "abcd":
        desk.put(f"/api/queues/%2F/{name}")
        desk.publish(name, "x")
    clock.tick()
    tracks = desk.api.context.history.tracks
    queues = [desk.broker.vhosts["/"].queues[name] for name in "abcd"]
    assert [tracks[queue].rings[0].rows_max for queue in queues] == [123, 123, 3, 3]
    assert desk.get("/api/queues/%2F/d")["message_stats"]["publish_details"] == {"rate": 0.2}
    desk.get("/api/queues/%2F/d?lengths_age=600&lengths_incr=5")
    assert tracks[queues[3]].rings[0].rows_max == 123


def test_stats_can_be_left_out(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    desk.publish("q", "x")
    (brief,) = desk.get("/api/queues?disable_stats=true")
    assert "message_stats" not in brief and "messages" not in brief
    (brief,) = desk.get("/api/queues?disable_stats=true&enable_queue_totals=true")
    assert (brief["messages"], brief["messages_ready"]) == (1, 1)


def test_a_ring_forgets_the_oldest() -> None:
    ring = Ring(1, 5000, 3)
    for number in range(5):
        ring.put(number, [number * 10])
    assert [list(row) for row in ring.newest_first()] == [[4, 40], [3, 30], [2, 20]]


def test_a_coarser_ring_goes_back_further() -> None:
    track = Track(1, ((5, 20), (60, 600)), 0, [0])
    for second in range(5, 605, 5):
        track.put(second * 1000, [second])
    fine = track.samples(0, 600_000, 15, 5)
    assert fine == [(600_000, 600), (595_000, 595), (590_000, 590), (585_000, 585)]
    assert track.samples(0, 600_000, 300, 60)[-1] == (300_000, 300)
