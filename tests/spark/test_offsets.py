"""Offsets: what options mean, limits that starve nobody, parts that cover a range exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.offsets import Place, Range, limited, parts, places_from


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Place("earliest")),
        ("LATEST", Place("latest")),
        ("42", Place("offset", 42)),
        ("offset:42", Place("offset", 42)),
        ("timestamp:1700000000000", Place("timestamp", 1_700_000_000_000)),
    ],
)
def test_a_place_for_all_queues(text: str, place: Place) -> None:
    assert places_from("startingOffsets", text, ["a", "b"]) == {"a": place, "b": place}


def test_a_place_for_each() -> None:
    found = places_from("startingOffsets", '{"a": 42, "b": "latest"}', ["a", "b"])
    assert found == {"a": Place("offset", 42), "b": Place("latest")}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("soon", "'startingOffsets' is 'soon'; expected earliest, latest, an offset"),
        ("-3", "'startingOffsets' is '-3'; expected"),
        ("{a: 1}", "'startingOffsets' is not JSON"),
        ('{"a": 1}', "'startingOffsets' says nothing of b"),
        ('{"a": 1, "b": 2, "bb": 3}', "'startingOffsets' names bb, which is not read"),
    ],
)
def test_mistakes_are_told(text: str, sentence: str) -> None:
    with pytest.raises(AMQPSourceError, match=sentence):
        places_from("startingOffsets", text, ["a", "b"])


QUEUES = st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 50), st.integers(0, 500)))


@given(QUEUES, st.integers(1, 200))
def test_a_limit_holds_and_everything_is_reached(queues: dict[str, tuple[int, int]], rows: int) -> None:
    start = {queue: first for queue, (first, _) in queues.items()}
    end = {queue: first + count for queue, (first, count) in queues.items()}
    for _ in range(3000):
        reached = limited(start, end, rows)
        assert list(reached) == sorted(reached)
        taken = sum(reached[queue] - start[queue] for queue in reached)
        assert all(start[queue] <= reached[queue] <= end[queue] for queue in reached)
        assert taken == min(rows, sum(end[queue] - start[queue] for queue in end))
        if reached == end:
            return
        start = reached
    raise AssertionError("some queue was passed over for ever")


@given(QUEUES, st.integers(1, 9))
def test_parts_cover_the_range_once(queues: dict[str, tuple[int, int]], count: int) -> None:
    start = {queue: first for queue, (first, _) in queues.items()}
    end = {queue: first + size for queue, (first, size) in queues.items()}
    found = parts(start, end, count)
    assert found == parts(start, end, count)
    for queue in queues:
        covered = [offset for part in found if part.queue == queue for offset in range(part.start, part.end)]
        assert covered == list(range(start[queue], end[queue]))
    total = sum(size for _, size in queues.values())
    assert len(found) >= min(count, total)


def test_one_stream_in_several_parts() -> None:
    assert parts({"q": 0}, {"q": 10}, 3) == [Range("q", 0, 3), Range("q", 3, 6), Range("q", 6, 10)]


def test_places_of_all_others() -> None:
    text = '{"a": 5, "*": "latest"}'
    assert places_from("o", text, ["a", "b"]) == {"a": Place("offset", 5), "b": Place("latest")}


def test_places_as_kafka_and_people_write_them() -> None:
    text = '{"a": -2, "b": -1, "c": "timestamp:2023-11-14T22:13:20Z", "d": "timestamp:2023-11-14 22:13:20"}'
    moment = Place("timestamp", 1_700_000_000_000)
    found = places_from("o", text, ["a", "b", "c", "d"])
    assert found == {"a": Place("earliest"), "b": Place("latest"), "c": moment, "d": moment}
    with pytest.raises(AMQPSourceError, match="timestamp:2026-11-18T12:00:00Z"):
        places_from("o", "timestamp:yesterday", ["a"])
