"""The queues of a virtual host in the order of their names, kept between requests.

Sorting is much for one request where queues are many, and queues come and go all the time. So the order of
last time is mended: those that are gone are left out, those that came (the last ones of the virtual host's
own dict, which has them in the order of their coming) are put in their places. All in steps; what changes
meanwhile is mended next time.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from operator import attrgetter

from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import VirtualHost
from embermq.http.server.cooperative import Steps, StepScheduler

MENDED_MAX = 1000  # so many changes, beyond that it is sorted anew
LOOKED_AT_TOGETHER = 256
name_of = attrgetter("name")


class NameOrder:
    def __init__(self) -> None:
        self.ordered: list[Queue] = []
        self.changes = 0  # of the virtual host's queues, when `ordered` was right

    async def queues(self, vhost: VirtualHost, scheduler: StepScheduler) -> list[Queue]:
        """Not to be changed."""
        changes = changes_of(vhost)
        if changes == self.changes:
            return self.ordered
        steps = Steps(scheduler)
        if changes - self.changes > MENDED_MAX:
            queues = list(vhost.queues.values())
            ordered = await steps.sorted(queues, name_of, reverse=False, count=len(queues))
        else:
            ordered = await mended(vhost, steps, self.ordered, self.changes)
        self.ordered, self.changes = ordered, changes
        return ordered


def changes_of(vhost: VirtualHost) -> int:
    return vhost.past.queues_created + vhost.past.queues_deleted


async def mended(vhost: VirtualHost, steps: Steps, before: list[Queue], changes: int) -> list[Queue]:
    ordered: list[Queue] = []
    for start in range(0, len(before), LOOKED_AT_TOGETHER):
        ordered += [queue for queue in before[start : start + LOOKED_AT_TOGETHER] if not queue.deleted]
        await steps.pause()
    for queue in list(islice(reversed(vhost.queues.values()), changes_of(vhost) - changes)):
        place = bisect_left(ordered, queue.name, key=name_of)
        if place == len(ordered) or ordered[place] is not queue:
            ordered.insert(place, queue)
        await steps.pause()
    return ordered
