"""How long a stream keeps its messages, where that is longer than anybody can count."""

from __future__ import annotations

from pathlib import Path

from embermq.broker.timers import Timers
from tests.support.domain import message
from tests.support.stored_domain import StoredBroker
from tests.unit.broker.queue.test_length_limit import NoTimer


def test_for_ever_is_a_long_time(tmp_path: Path) -> None:
    with StoredBroker(tmp_path) as stored:
        turn = stored.loop.turn
        turn.timers = Timers(turn, lambda after_s, action: NoTimer())
        arguments = {"x-max-age": "999999999999Y", "x-stream-max-segment-size-bytes": 65536}
        stream = stored.vhost.declare_queue(
            "s",
            owner=None,
            durable=True,
            exclusive=False,
            auto_delete=False,
            arguments={"x-queue-type": "stream", **arguments},
        )
        for _ in range(5):
            stream.append(message(bytes(40_000)))
            stored.wait_until_safe()
        assert stream.low.log is not None and len(stream.low.log.segments) > 1
        assert stream.ready_count == 5
