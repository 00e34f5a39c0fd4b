"""What models of a queue have in common: messages that are out with somebody, and what becomes of them."""

from __future__ import annotations

from typing import Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue


class HasOut(Protocol):
    out: list[Entry]  # what was taken from the queue

    @property
    def queue(self) -> Queue: ...


class SettlingRules(RuleBasedStateMachine):
    """A machine that has a queue, and what is out of it."""

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def settle(self: HasOut, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.out))
        self.out.remove(entry)
        self.queue.settle(entry)

    def some_out(self: HasOut, data: st.DataObject) -> list[Entry]:
        """Some of what is out, and no longer."""
        entries = data.draw(st.lists(st.sampled_from(self.out), unique_by=id, min_size=1))
        self.out = [entry for entry in self.out if entry not in entries]
        return entries
