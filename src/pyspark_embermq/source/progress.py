"""Progress of each queue of a query: lag, bytes, rates and redeliveries, in Spark's StreamingQueryProgress.

Spark (4.3) takes no metrics from a source in Python, but it shows the latest offset that the source reports.
That one is for showing only, so it has these under the empty name, which no queue has:

    {"": {"queues": {"orders": {"lag": 12, "lag_bytes": 3400, ...}}}, "orders": 1500}
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.offsets import ABOUT

QUEUES = "queues"
Numbers = dict[str, float]


class Progress:
    """Of one query, in the driver's process."""

    def __init__(self, link: BrokerLink, clock: Callable[[], float] = time.monotonic) -> None:
        self.link = link
        self.clock = clock
        self.before: dict[str, tuple[int, int]] = {}  # what was read and what was there, at the last report
        self.before_s = clock()

    def report(
        self, read: Mapping[str, int], latest: Mapping[str, int], redelivered: Mapping[str, int] | None = None
    ) -> dict[str, Any]:
        """The latest offsets with the progress of each queue."""
        now_s = self.clock()
        passed_s = now_s - self.before_s
        found: dict[str, Numbers] = {}
        for queue, there in latest.items():
            done = int(read.get(queue, there))
            lag = max(there - done, 0)
            numbers: Numbers = {"lag": lag}
            size = self.message_bytes(queue)
            if size is not None:
                numbers["lag_bytes"] = round(lag * size)
            if queue in self.before and passed_s > 0:
                done_before, there_before = self.before[queue]
                numbers["arrived_per_second"] = round(max(there - there_before, 0) / passed_s, 1)
                numbers["read_per_second"] = round(max(done - done_before, 0) / passed_s, 1)
            if redelivered is not None:
                numbers["redelivered"] = redelivered.get(queue, 0)
            found[queue] = numbers
            self.before[queue] = (done, there)
        self.before_s = now_s
        return {ABOUT: {QUEUES: dict(sorted(found.items()))}, **dict(sorted(latest.items()))}

    def message_bytes(self, queue: str) -> float | None:
        """About how large a message is, where the broker tells."""
        try:
            return self.link.message_bytes(queue) if self.link.is_embermq else None
        except AMQPSourceError:
            return None  # a queue that was just deleted: the next batch says so


def queue_progress(progress: Any) -> dict[str, Numbers]:
    """The progress of each queue in a StreamingQueryProgress: `queue_progress(query.lastProgress)`."""
    found: dict[str, Numbers] = {}
    for source in progress["sources"] if progress else ():
        latest = source["latestOffset"]
        try:
            latest = json.loads(latest) if isinstance(latest, str) else latest
        except ValueError:
            continue  # of another source
        if isinstance(latest, dict) and isinstance(latest.get(ABOUT), dict):
            found |= latest[ABOUT].get(QUEUES, {})
    return found
