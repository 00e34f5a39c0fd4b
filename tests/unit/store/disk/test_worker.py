"""A thread for what takes long: one after the other, whatever becomes of each."""

from __future__ import annotations

import gc
import logging
import threading
import weakref

import pytest

from embermq.store.disk.worker import Background

TOO_MUCH_BYTES = 1 << 46  # of stack: no machine has so much


def test_jobs_are_done_in_order_by_a_thread_of_that_name() -> None:
    background = Background("test-jobs")
    done: list[tuple[int, str]] = []
    for number in range(100):
        background.put(lambda number=number: done.append((number, threading.current_thread().name)))
    background.wait()
    assert done == [(number, "test-jobs") for number in range(100)]
    background.close()


def test_without_a_job_there_is_no_thread() -> None:
    background = Background("test-idle")
    background.wait()
    background.close()
    assert "test-idle" not in [thread.name for thread in threading.enumerate()]


def test_closing_finishes_what_was_asked_for_and_the_next_job_starts_again() -> None:
    background = Background("test-again")
    done: list[int] = []
    for number in range(3):
        background.put(lambda number=number: done.append(number))
        background.close()
    assert done == [0, 1, 2]


def test_a_job_that_fails_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    background = Background("test-failing")
    done: list[str] = []

    def refused() -> None:
        raise PermissionError(13, "not yours")

    def wrong() -> None:
        raise ValueError("a mistake")

    with caplog.at_level(logging.INFO, "embermq.store"):
        for job in (refused, wrong, lambda: done.append("after")):
            background.put(job)
        background.wait()
    assert done == ["after"]
    assert [record.message for record in caplog.records] == ["a fault of ours, in the thread test-failing"]
    background.close()


def test_what_a_job_belonged_to_is_let_go_of() -> None:
    class Owner:
        def work(self) -> None:
            pass

    background, owner = Background("test-letting-go"), Owner()
    known = weakref.ref(owner)
    background.put(owner.work)
    background.wait()
    del owner
    gc.collect()
    assert known() is None
    background.close()


def test_where_no_thread_can_be_had_the_next_job_tries_again() -> None:
    background = Background("test-no-thread")
    done: list[int] = []
    threading.stack_size(TOO_MUCH_BYTES)
    try:
        assert not background.put(lambda: done.append(1))
    finally:
        threading.stack_size(0)
    assert background.put(lambda: done.append(2))
    background.wait()
    assert done == [1, 2]
    background.close()


def test_what_has_not_begun_can_be_forgotten() -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []
    background = Background("test-forgetting")
    background.put(lambda: (begun.set(), may_end.wait(60), done.append("first")))
    background.put(lambda: done.append("second"))
    assert begun.wait(60)
    background.forget()
    may_end.set()
    background.close()
    assert done == ["first"]
    background.put(lambda: done.append("third"))
    background.close()
    assert done == ["first", "third"]
