"""The order of a turn: queues drain, logs are written, actions follow, and only then is anything sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embermq.broker.interfaces import Logged, LogWriter, Sink
from embermq.broker.turn import Turn

LIGHT_SINKS_MAX = 16


class Diary(LogWriter):
    """A queue, a sink and a storage that write down when they were called."""

    def __init__(self) -> None:
        self.scheduled: list[Callable[[], None]] = []
        self.turn = Turn(self.scheduled.append, lambda: 12.345)
        self.turn.storage = self
        self.notes: list[str] = []

    def write(self, levels: list[Logged], turn: int) -> list[Logged]:
        self.notes.append(f"write {len(levels)}")
        return []

    def run(self) -> None:
        """One pass of the loop."""
        scheduled, self.scheduled[:] = list(self.scheduled), []
        for action in scheduled:
            action()


class Part(Sink):
    def __init__(self, diary: Diary, name: str, leftovers: int = 0, fails: bool = False) -> None:
        super().__init__()
        self.diary, self.name, self.leftovers, self.fails = diary, name, leftovers, fails
        self.dirty = True
        self.little = False

    def has_little(self) -> bool:
        return self.little

    def drain(self) -> bool:
        assert not self.dirty, "from here on it may be marked again"
        self.diary.notes.append(f"drain {self.name}")
        if self.fails:
            raise RuntimeError("a mistake of ours")
        self.leftovers -= 1
        return self.leftovers >= 0

    def end_turn(self) -> int:
        assert not self.dirty
        self.diary.notes.append(f"send {self.name}")
        if self.fails:
            raise RuntimeError("a mistake of ours")
        return 0


@pytest.fixture
def diary() -> Diary:
    return Diary()


def test_the_order_of_a_turn(diary: Diary) -> None:
    diary.turn.add_sink(Part(diary, "a"))
    diary.turn.after_write(lambda: diary.notes.append("action"))
    diary.turn.add_log(Logged(""))
    diary.turn.add_log(Logged(""))
    diary.turn.add_queue(Part(diary, "q"))
    assert len(diary.scheduled) == 1, "a turn is scheduled once"
    diary.run()
    assert diary.notes == ["drain q", "write 2", "action", "send a"]
    assert diary.scheduled == []


def test_a_queue_that_has_more_comes_again_in_the_next_turn(diary: Diary) -> None:
    queue = Part(diary, "q", leftovers=2)
    diary.turn.add_queue(queue)
    for turn in range(1, 4):
        diary.run()
        assert diary.notes == ["drain q"] * turn
        assert queue.dirty == (turn < 3)
    assert diary.scheduled == []


def test_a_queue_that_has_more_lets_others_go_first(diary: Diary) -> None:
    diary.turn.add_queue(Part(diary, "long", leftovers=1))
    diary.run()
    diary.turn.add_queue(Part(diary, "short"))
    diary.run()
    assert diary.notes == ["drain long", "drain short", "drain long"]


def test_what_is_marked_while_a_turn_runs_belongs_to_the_next(diary: Diary) -> None:
    late = Part(diary, "late")
    diary.turn.after_write(lambda: diary.turn.add_queue(late) and None)
    diary.run()
    assert diary.notes == []
    diary.run()
    assert diary.notes == ["drain late"]


def test_sinks_that_are_marked_by_draining_are_served_in_the_same_turn(diary: Diary) -> None:
    class Feeding(Part):
        def drain(self) -> bool:
            self.diary.turn.add_sink(Part(self.diary, "fed"))
            self.diary.turn.add_log(Logged(""))
            return super().drain()

    diary.turn.add_queue(Feeding(diary, "q"))
    diary.turn.at_end(lambda quiet: diary.notes.append(f"end, quiet: {quiet}"))
    diary.run()
    assert diary.notes == ["drain q", "write 1", "send fed", "end, quiet: True"]


def test_a_turn_that_only_notes_something_tells_nobody(diary: Diary) -> None:
    diary.turn.add_log(Logged(""))
    diary.run()
    assert (diary.turn.count, diary.turn.active_count) == (1, 0)
    for mark in (diary.turn.add_queue, diary.turn.add_sink):
        mark(Part(diary, "a"))
        diary.run()
    assert (diary.turn.count, diary.turn.active_count) == (3, 2)


def test_what_is_wrong_with_one_does_not_silence_the_others(
    diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "c"):
        diary.turn.add_queue(Part(diary, name, fails=name == "b"))
        diary.turn.add_sink(Part(diary, name, fails=name == "b"))
    diary.turn.after_write(lambda: [].clear(1))  # type: ignore[call-arg]
    diary.run()
    assert diary.notes == ["drain a", "drain b", "drain c", "send a", "send b", "send c"]
    assert caplog.text.count("a fault of ours") == 3


def test_an_end_that_goes_wrong_is_not_the_end_of_all_turns(
    diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    diary.turn.at_end(lambda quiet: [].clear(1))  # type: ignore[call-arg]
    diary.turn.at_end(lambda quiet: diary.turn.add_sink(Part(diary, "answer")) and None)
    diary.run()
    diary.turn.add_queue(Part(diary, "q"))
    diary.run()
    assert diary.notes == ["send answer", "drain q"]
    assert caplog.text.count("a fault of ours") == 1


def test_the_clock_is_looked_at_when_asked(diary: Diary) -> None:
    diary.turn.refresh()
    assert diary.turn.now_ms == 12345


def test_the_end_comes_last_and_what_it_has_others_send_goes_out_at_once() -> None:
    diary = Diary()

    def end(quiet: bool) -> None:
        diary.notes.append(f"end, quiet: {quiet}")
        diary.turn.add_sink(Part(diary, "answer"))

    def action() -> None:
        diary.turn.at_end(end)

    diary.turn.add_sink(Part(diary, "sink"))
    diary.turn.after_write(action)
    diary.run()
    assert diary.notes == ["send sink", "end, quiet: True", "send answer"]
    assert diary.scheduled == [], "no further turn is needed"


def test_the_end_is_told_when_another_turn_follows() -> None:
    diary = Diary()
    diary.turn.add_queue(Part(diary, "queue", leftovers=1))
    diary.turn.at_end(lambda quiet: diary.notes.append(f"end, quiet: {quiet}"))
    diary.run()
    diary.run()
    assert diary.notes == ["drain queue", "end, quiet: False", "drain queue"]


def test_what_the_end_leaves_gets_a_turn() -> None:
    diary = Diary()
    diary.turn.at_end(lambda quiet: diary.turn.after_write(lambda: diary.notes.append("action")))
    diary.run()
    assert diary.notes == []
    diary.run()
    assert diary.notes == ["action"]


@pytest.mark.parametrize("load", ["light", "much for one", "many"])
def test_a_message_leaves_before_its_confirm_unless_there_is_much_to_send(diary: Diary, load: str) -> None:
    """A publisher is marked when its message comes, the consumer when the queue drains."""
    consumers = [f"consumer {number}" for number in range(LIGHT_SINKS_MAX if load == "many" else 1)]
    for name in ["publisher", *consumers]:
        part = Part(diary, name)
        part.little = load != "much for one"
        diary.turn.add_sink(part)
    diary.run()
    order = ["publisher", *consumers] if load != "light" else [*consumers, "publisher"]
    assert diary.notes == [f"send {name}" for name in order]
