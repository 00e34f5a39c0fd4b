"""Rates and samples as RabbitMQ's API shows them beside a number: `"publish_details": {"rate": 2.5, ...}`.

Samples are there when the request asks for a range, e.g. `?lengths_age=600&lengths_incr=5`: the numbers of
the last ten minutes, every five seconds. `lengths` is for queue lengths, `msg_rates` for messages going by,
`data_rates` for octets, `node_stats` for the machine.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from embermq.http.openapi.route_docs import number
from embermq.http.server.request import Request, bad_request
from embermq.http.stats.history import CHANNEL, EXCHANGE, QUEUE, History
from embermq.http.stats.time_series import Track
from embermq.http.stats.totals import CHURN, COLUMNS, DATA, DELIVERIES, LENGTHS, PUBLISHING

AGE_S_MAX = 24 * 3600
SAMPLES_MAX = 1000
SECONDS = re.compile("[0-9]{1,6}")
KINDS = ("lengths", "msg_rates", "data_rates", "node_stats")
View = dict[str, object]
RANGES = tuple(
    number(f"{kind}_{what}", f"samples of the past: {about}", 1 if what == "incr" else 0, AGE_S_MAX)
    for kind in KINDS
    for what, about in (("age", "how many seconds back"), ("incr", "seconds between two"))
)


AT_REST: View = {"rate": 0.0}
QUEUE_STATS = ("publish", *DELIVERIES)
CHANNEL_STATS = CHANNEL[1:]
VHOST_NUMBERS = (*LENGTHS, *DATA)
VHOST_STATS = (*PUBLISHING, *DELIVERIES)


class Range(NamedTuple):
    age_s: int
    step_s: int


@dataclass(frozen=True)
class Ranges:
    """What a request wants to see of the past, by kind of number."""

    asked: dict[str, Range]

    def of(self, column: str) -> Range | None:
        if not self.asked:
            return None
        if column in LENGTHS:
            return self.asked.get("lengths")
        return self.asked.get("data_rates" if column in DATA else "msg_rates")


NOTHING = Ranges({})


def ranges_asked(request: Request) -> Ranges:
    query = request.query
    asked: dict[str, Range] = {}
    for kind in KINDS:
        age, step = query.get(f"{kind}_age"), query.get(f"{kind}_incr")
        if age is None or step is None:
            continue
        if not SECONDS.fullmatch(age) or not SECONDS.fullmatch(step):
            raise bad_request(f"{kind}_age and {kind}_incr are seconds")
        age_s, step_s = int(age), int(step)
        if step_s < 1 or age_s > AGE_S_MAX or age_s // step_s >= SAMPLES_MAX:
            raise bad_request(f"{kind}: at most {SAMPLES_MAX} samples of the last {AGE_S_MAX} seconds")
        asked[kind] = Range(age_s, step_s)
    return Ranges(asked) if asked else NOTHING


def details(history: History, tracks: Sequence[Track], index: int, value: int, wanted: Range | None) -> View:
    """The rate of one number, and its samples where they are asked for; of several tracks, the sum."""
    if not tracks and wanted is None:
        return AT_REST
    change = sum(track.change(index, history.time_ms) for track in tracks)
    view: View = {"rate": round(change * 1000 / history.elapsed_ms, 4)}
    if wanted is None:
        return view
    end_ms, count = history.time_ms, wanted.age_s // wanted.step_s + 1
    sums = [0 if tracks else value] * count  # without a track it never changed
    for track in tracks:
        for index_of, (_, sample) in enumerate(track.samples(index, end_ms, wanted.age_s, wanted.step_s)):
            sums[index_of] += sample
    span_s = (count - 1) * wanted.step_s
    view["samples"] = [
        {"sample": sample, "timestamp": end_ms - back * wanted.step_s * 1000}
        for back, sample in enumerate(sums)
    ]
    view["avg_rate"] = (sums[0] - sums[-1]) / span_s if span_s else 0.0
    view["avg"] = sum(sums) / count
    return view


class Numbers:
    """The numbers of one thing (or the sum of several) beside what was sampled of them."""

    def __init__(
        self,
        history: History,
        keys: Iterable[Hashable],
        columns: tuple[str, ...],
        values: tuple[int, ...],
        ranges: Ranges,
    ) -> None:
        self.history = history
        self.columns = columns
        self.values = values
        self.ranges = ranges
        found = [history.track(key, lengthen=bool(ranges.asked)) for key in keys]
        self.tracks = [track for track in found if track is not None]

    def view(self, columns: tuple[str, ...]) -> View:
        """This is done for every queue of a page, so what rests is shown without a call for each number."""
        view: View = {}
        values, at_rest = self.values, not self.tracks and not self.ranges.asked
        for column, its_details, index in places_of(self.columns, columns):
            view[column] = values[index]
            view[its_details] = (
                AT_REST
                if at_rest
                else details(self.history, self.tracks, index, values[index], self.ranges.of(column))
            )
        return view


@cache
def places_of(columns: tuple[str, ...], shown: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """What is shown, the name of its details, and where its value stands."""
    return [(column, f"{column}_details", columns.index(column)) for column in shown]


def queue_numbers(history: History, key: Hashable, values: tuple[int, ...], ranges: Ranges) -> View:
    numbers = Numbers(history, [key], QUEUE, values, ranges)
    return {**numbers.view(LENGTHS), "message_stats": numbers.view(QUEUE_STATS)}


def exchange_numbers(history: History, key: Hashable, values: tuple[int, ...], ranges: Ranges) -> View:
    return {"message_stats": Numbers(history, [key], EXCHANGE, values, ranges).view(EXCHANGE)}


def channel_numbers(history: History, key: Hashable, values: tuple[int, ...], ranges: Ranges) -> View:
    return {"message_stats": Numbers(history, [key], CHANNEL, values, ranges).view(CHANNEL_STATS)}


def connection_numbers(history: History, key: Hashable, values: tuple[int, ...], ranges: Ranges) -> View:
    return Numbers(history, [key], DATA, values, ranges).view(DATA)


def vhost_numbers(history: History, name: str, values: tuple[int, ...], ranges: Ranges) -> View:
    numbers = Numbers(history, [("vhost", name)], COLUMNS, values, ranges)
    return {**numbers.view(VHOST_NUMBERS), "message_stats": numbers.view(VHOST_STATS)}


def total_numbers(
    history: History, keys: Iterable[Hashable], values: tuple[int, ...], ranges: Ranges
) -> View:
    numbers = Numbers(history, keys, COLUMNS, values, ranges)
    return {
        "queue_totals": numbers.view(LENGTHS),
        "message_stats": numbers.view(VHOST_STATS),
        "churn_rates": numbers.view(CHURN),
    }
