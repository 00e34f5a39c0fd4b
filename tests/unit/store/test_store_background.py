"""A thread for what nobody waits for: whatever becomes of one job, the others are done."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from embermq.store.background import Background

PATIENCE_SECONDS = 60
TOO_MUCH_BYTES = 1 << 46  # of stack: no machine has so much


@pytest.fixture
def background() -> Iterator[Background]:
    made = Background("store-test")
    yield made
    made.close()


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", [OSError("refused"), ValueError("a mistake of ours")])
def test_a_job_that_fails_is_not_the_last(
    background: Background, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    done = threading.Event()
    background.put(lambda: fail(error))
    background.put(done.set)
    assert done.wait(PATIENCE_SECONDS)
    assert ("a fault of ours" in caplog.text) == isinstance(error, ValueError)


def test_where_no_thread_can_be_had_the_next_job_tries_again(background: Background) -> None:
    done: list[int] = []
    threading.stack_size(TOO_MUCH_BYTES)
    try:
        background.put(lambda: done.append(1))
    finally:
        threading.stack_size(0)
    background.put(lambda: done.append(2))
    background.wait()
    assert done == [1, 2]
