"""The table of identities against a dict that does the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.deduplication.table import IdTable

# Few values, so that they meet: in the slots of the index, and as the same identity once more.
halves = st.one_of(st.integers(0, 3), st.sampled_from([511, 512, 1023, 2**64 - 1]))
steps = st.lists(st.one_of(st.tuples(halves, halves), st.just("drop")), max_size=300)


@given(steps)
def test_like_a_dict(steps: list[tuple[int, int] | str]) -> None:
    table, ring, times = IdTable(), [], {}
    for now, step in enumerate(steps):
        if isinstance(step, tuple):
            table.add(*step, now)
            ring.append((step, now))
            times[step] = now
        elif ring:
            identity, came = ring.pop(0)
            table.drop_oldest()
            if times[identity] == came:
                del times[identity]
        assert table.count == len(ring)
        assert table.oldest_ms() == (ring[0][1] if ring else -1)
        for identity in {(0, 0), (511, 1), *times, *(step for step in steps if isinstance(step, tuple))}:
            assert table.find(*identity) == times.get(identity, -1)


def test_it_grows_and_turns_round() -> None:
    table = IdTable()
    factor = 0x9E3779B97F4A7C15
    for number in range(5000):
        table.add(number * factor % 2**64, number, number)
        if number % 3 == 0:
            table.drop_oldest()
    oldest = table.oldest_ms()
    assert oldest == 1667 and table.count == 3333
    for number in range(5000):
        assert table.find(number * factor % 2**64, number) == (number if number >= oldest else -1)
