"""A Ring is a deque with fewer words."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from embermq.broker.queue.ring import Ring


class RingAsDeque(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ring = Ring()
        self.model: deque[int] = deque()
        self.next = 0

    @rule(count=st.integers(1, 40))
    def push_back(self, count: int) -> None:
        for _ in range(count):
            self.next += 1
            self.ring.push_back(self.next)
            self.model.append(self.next)

    @rule(count=st.integers(1, 40))
    def push_front(self, count: int) -> None:
        for _ in range(count):
            self.next += 1
            self.ring.push_front(self.next)
            self.model.appendleft(self.next)

    @precondition(lambda self: self.model)
    @rule(count=st.integers(1, 60))
    def pop_front(self, count: int) -> None:
        for _ in range(min(count, len(self.model))):
            assert self.ring.pop_front() == self.model.popleft()

    @precondition(lambda self: self.model)
    @rule(places=st.lists(st.integers(0, 1000), min_size=1, max_size=20))
    def take_at(self, places: list[int]) -> None:
        for place in places[: len(self.model)]:
            index = place % len(self.model)
            assert self.ring.take_at(index) == self.model[index]
            del self.model[index]

    @rule()
    def clear(self) -> None:
        self.ring.clear()
        self.model.clear()

    @invariant()
    def same_as_the_deque(self) -> None:
        assert len(self.ring) == self.ring.count == len(self.model)
        assert list(self.ring) == list(self.model)
        assert self.ring.front() == (self.model[0] if self.model else None)


RingAsDeque.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestRingAsDeque = RingAsDeque.TestCase


def test_a_ring_that_was_deep_works_on_when_its_memory_is_given_back() -> None:
    ring = Ring()
    for _ in range(3):
        for number in range(20_000):
            ring.push_back(number)
        assert [ring.pop_front() for _ in range(20_000)] == list(range(20_000))
        assert (len(ring), ring.front()) == (0, None)


def test_nothing_can_be_taken_out_of_an_empty_ring() -> None:
    with pytest.raises(AssertionError):
        Ring().pop_front()
