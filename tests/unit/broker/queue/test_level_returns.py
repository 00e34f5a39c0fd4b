"""How often a message came back, where it goes to the end of a queue that is on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.queue.level import RETURNS_IN_FLAGS_MAX as IN_FLAGS_MAX
from tests.support.domain import message, new_queue
from tests.support.stored_domain import StoredBroker


@pytest.mark.parametrize("returns", [1, IN_FLAGS_MAX, IN_FLAGS_MAX + 1, 100_000])
@pytest.mark.parametrize("persistent", [False, True])
def test_the_number_is_right_without_a_restart_in_between(
    tmp_path: Path, returns: int, persistent: bool
) -> None:
    stored = StoredBroker(tmp_path)
    new_queue(stored.vhost, durable=True).append(message(b"before", persistent=True))
    stored.wait_until_safe()
    with stored.restarted() as stored:
        queue = stored.vhost.queues["q"]
        queue.low.append_returned(message(b"again", persistent=persistent), 1000, returns)
        queue.correct(1, len(b"again"))
        assert queue.low.paged_count == 2
        entries = [queue.get(), queue.get()]
        assert [entry and (entry.message.body, entry.returns) for entry in entries] == [
            (b"before", 0),
            (b"again", returns),
        ]
