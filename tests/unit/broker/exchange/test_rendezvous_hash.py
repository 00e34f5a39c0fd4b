"""Which destination a key belongs to: fair by weight, and moved only when it must."""

from __future__ import annotations

from embermq.broker.exchange.rendezvous_hash import Rendezvous, number_of

KEYS = [number_of(b"key %d" % number) for number in range(4000)]


def chosen(names: dict[str, float]) -> list[str]:
    places = list(names)
    ring = Rendezvous([(number_of(name.encode()), weight) for name, weight in names.items()])
    return [places[ring.choose(key)] for key in KEYS]


def test_shares_follow_weights() -> None:
    winners = chosen({"one": 1, "two": 2, "five": 5})
    assert abs(winners.count("one") - 500) < 100
    assert abs(winners.count("two") - 1000) < 130
    assert abs(winners.count("five") - 2500) < 150


def test_a_newcomer_only_takes_and_a_leaver_only_gives() -> None:
    few = chosen({"a": 1, "b": 1, "c": 1})
    more = chosen({"a": 1, "b": 1, "c": 1, "d": 1})
    moved = [(before, after) for before, after in zip(few, more, strict=True) if before != after]
    assert moved and {after for _, after in moved} == {"d"}
    assert len(moved) == more.count("d")


def test_more_weight_only_takes() -> None:
    before, after = chosen({"a": 1, "b": 1, "c": 1}), chosen({"a": 1, "b": 3, "c": 1})
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {"b"}


def test_order_does_not_matter() -> None:
    assert chosen({"a": 1, "b": 2, "c": 3}) == chosen({"c": 3, "a": 1, "b": 2})


def test_the_same_in_every_build() -> None:
    """Numbers that compiled and interpreted code must agree on, and tomorrow's version, too."""
    assert number_of(b"key") == 0xCE7CCCADC3A94CF5
    ring = Rendezvous([(number_of(b"%d" % place), 1.0 + place) for place in range(8)])
    assert [ring.choose(key) for key in KEYS[:16]] == [7, 4, 1, 1, 2, 5, 3, 6, 6, 1, 4, 4, 2, 6, 6, 4]


def test_huge_weights() -> None:
    assert set(chosen({"a": 1e200, "b": 1.0})) == {"a"}
