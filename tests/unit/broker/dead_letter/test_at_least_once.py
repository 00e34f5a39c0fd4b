"""Dead letters that nobody takes, and a disk that cannot be read for a while: none is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.dead_letter import at_least_once as held_letters
from tests.support.domain import message, new_queue
from tests.support.stored_domain import StoredBroker

COUNT = 6
KEPT = {
    "x-dead-letter-exchange": "letters",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


def test_what_cannot_be_read_now_is_tried_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with too many open files."""
    monkeypatch.setattr(held_letters, "IN_MEMORY_MAX", 2)
    stored = StoredBroker(tmp_path / "data")
    source, target = (
        new_queue(stored.vhost, "source", durable=True, arguments=KEPT),
        new_queue(stored.vhost, "target", durable=True),
    )
    for number in range(COUNT):
        source.append(message(b"%d" % number, persistent=True))
    source.discard([entry for entry in iter(source.get, None) if entry is not None])
    stored.wait_until_safe()
    held = stored.vhost.dead_letters.held
    assert held.count(source) == COUNT and len(held.waiting) == 2
    log = source.low.log
    assert log is not None
    for segment in log.segments:
        stored.data.disk.forget_file(f"{log.directory}/{segment.name}")
    Path(log.directory).rename(tmp_path / "away")
    for _ in range(2):  # those in memory are tried, and go behind the others, which cannot be read
        held.on_due(0)
        stored.loop.run()
    assert held.count(source) == COUNT
    (tmp_path / "away").rename(log.directory)
    exchange = stored.vhost.declare_exchange(
        "letters", "fanout", durable=True, auto_delete=False, internal=False, arguments={}
    )
    stored.vhost.bind(exchange, target, "", {})
    for _ in range(3):
        held.on_due(0)
        stored.loop.run()
    stored.wait_until_safe()
    assert sorted(found.body for found in target.messages()) == [b"%d" % number for number in range(COUNT)]
    assert held.count(source) == 0
    assert log.count == 0, "they have left their old queue"
    stored.stop()
