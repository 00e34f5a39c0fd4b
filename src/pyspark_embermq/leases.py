"""Leases of EmberMQ (docs/leases.md) over AMQP: taken, renewed, read in parts, settled."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from embermq.client import NotFound, PreconditionFailed
from pyspark_embermq.broker import BrokerLink, until_cancelled
from pyspark_embermq.decoding.received_columns import Arrivals
from pyspark_embermq.errors import AMQPSourceError, DataLossError, Missing
from pyspark_embermq.options import Options

log = logging.getLogger("pyspark_embermq")

ANSWER_S_MAX = 300.0  # a million messages are taken in a while
RENEWED_TIMES = 3  # within one time-out
MESSAGES_MAX, BYTES_MAX = 1_000_000, 1024**3  # in one lease: the broker's limits
OPEN, SETTLED = "open", "settled"


@dataclass(frozen=True)
class LeasePart:
    """Messages [start, end) of a lease: what one task reads."""

    queue: str
    lease: str
    start: int
    end: int


@dataclass(frozen=True)
class Lease:
    """What the broker says of a lease."""

    state: str
    count: int


class Leases:
    """The leases of one queue."""

    def __init__(self, link: BrokerLink, queue: str) -> None:
        self.link = link
        self.queue = queue

    def take(self, name: str, messages_max: int, bytes_max: int = 0, timeout_ms: int = 0) -> Lease:
        """Take a lease, or find the one of that name; it has no messages when the queue is empty."""
        limits: dict[str, object] = {"messages": min(messages_max, MESSAGES_MAX), "timeout": timeout_ms}
        limits |= {"bytes": min(bytes_max, BYTES_MAX)} if bytes_max else {}
        return self.ask("take", name, limits)

    def take_again(self, name: str, timeout_ms: int = 0) -> Lease | None:
        """A lease that should be there. One that was released is taken again, if it can be had unchanged."""
        try:
            return self.ask("take-again", name, {"timeout": timeout_ms})
        except AMQPSourceError as refusal:
            if is_of_lease(refusal, name):
                return None
            raise

    def find(self, name: str) -> Lease | None:
        try:
            return self.ask("show", name)
        except Missing as refusal:
            if is_of_lease(refusal, name):
                return None
            raise

    def settle(self, name: str, forget: str = "") -> bool:
        """Its messages are done with; asking twice is fine. False if it is not there and cannot be had again.

        `forget` is an earlier one that will not be asked for any more.
        """
        more = {"forget": forget} if forget else {}
        for _ in range(2):
            try:
                self.ask("settle", name, more)
                return True
            except Missing as refusal:
                if not is_of_lease(refusal, name):
                    raise
            if self.take_again(name) is None:
                return False
        return False

    def release(self, name: str) -> None:
        """Its messages go back to the queue."""
        self.ask("release", name)

    def renew(self, name: str, timeout_ms: int) -> None:
        self.ask("renew", name, {"timeout": timeout_ms})

    def ask(self, action: str, name: str, more: Mapping[str, object] | None = None) -> Lease:
        arguments: dict[str, object] = {"x-lease": name, "x-lease-action": action}
        arguments |= {f"x-lease-{key}": value for key, value in (more or {}).items()}
        with self.link.channel(prefetch=None, confirms=False) as channel:
            answers = channel.consume(self.queue, no_ack=True, arguments=arguments).fetch(1, ANSWER_S_MAX)
            if not answers:
                raise AMQPSourceError(f"the broker at {self.link.options.place} does not answer")
            found = json.loads(answers[0].body)
        return Lease(found["state"], found["count"])


def is_of_lease(refusal: AMQPSourceError, name: str) -> bool:
    """Is it the lease that is not there (or not whole), and not the queue?"""
    return (
        isinstance(refusal.__cause__, NotFound | PreconditionFailed)
        and f"lease '{name}'" in refusal.__cause__.reply_text
    )


class Renewal:
    """Keeps leases that have a time-out, from a thread, for as long as this process lives."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.leases: set[tuple[str, str]] = set()  # queues and names
        self.over = threading.Event()
        self.thread: threading.Thread | None = None

    def add(self, queue: str, name: str) -> None:
        self.leases.add((queue, name))
        if self.options.lease_timeout_ms and self.thread is None:
            self.thread = threading.Thread(target=self.run, name="leases", daemon=True)
            self.thread.start()

    def discard(self, queue: str, name: str) -> None:
        self.leases.discard((queue, name))

    def run(self) -> None:
        with BrokerLink(self.options) as link:
            self.renew(link)  # a driver that has just been started may find one that is nearly over
            while not self.over.wait(self.options.lease_timeout_ms / 1000 / RENEWED_TIMES):
                self.renew(link)

    def renew(self, link: BrokerLink) -> None:
        for queue, name in list(self.leases):
            try:
                Leases(link, queue).renew(name, self.options.lease_timeout_ms)
            except AMQPSourceError as problem:
                # A broker that is away may be back in time. What is lost, the next step of the query finds.
                if isinstance(problem.__cause__, NotFound | PreconditionFailed):
                    self.discard(queue, name)

    def stop(self) -> None:
        self.over.set()


def check_kind(offset: Mapping[str, Any], of_leases: bool) -> None:
    """Refuse the checkpoint of a query that reads in another way."""
    if ("next" in offset and isinstance(offset.get("lease"), str)) == of_leases:
        return
    was, now = "delivery = exactly-once from a queue", "at-least-once, or of a stream"
    if of_leases:
        was, now = now, was
    raise AMQPSourceError(
        f"the checkpoint is of a query with {was}; this one is {now}. What one has read the other cannot "
        "know: use another checkpointLocation, or the options of before"
    )


def parts_of(queue: str, lease: str, count: int, parts: int) -> list[LeasePart]:
    """A lease cut into about equal parts; the same every time."""
    pieces = max(min(parts, count), 1)
    return [
        LeasePart(queue, lease, count * index // pieces, count * (index + 1) // pieces)
        for index in range(pieces)
        if count
    ]


def read(link: BrokerLink, part: LeasePart, wanted: Collection[str]) -> Iterator[Arrivals]:
    """The messages of a part, in order. What is missing is an error, unless the user accepts that."""
    arguments: dict[str, object] = {
        "x-lease": part.lease,
        "x-lease-from": part.start,
        "x-lease-to": part.end,
    }
    left = part.end - part.start
    with link.channel(prefetch=None, confirms=False) as channel:
        consumer = channel.consume_columns(part.queue, wanted, no_ack=True, arguments=arguments)
        for arrived in until_cancelled(consumer, link.options):
            left -= len(arrived)
            yield arrived
    if left:
        problem = (
            f"lease '{part.lease}' of queue '{part.queue}' lacks {left} of its messages: those that are not "
            "persistent end with the broker"
        )
        if link.options.fail_on_data_loss:
            raise DataLossError(f"{problem}. With failOnDataLoss=false the query goes on without them")
        log.warning("%s", problem)


def name_of(lease: str, number: int) -> str:
    """Of the parts of what one lease cannot hold."""
    return lease if number == 1 else f"{lease}/{number}"


def take_all(
    leases: Leases, name: str, options: Options, waiting: int, messages_max: int = MESSAGES_MAX
) -> list[tuple[str, int]]:
    """What waits in a queue, in as many leases as that takes; or those taken under this name before.

    Their names and counts. If the batch is limited, there is one lease.
    """
    taken: list[tuple[str, int]] = []
    first = leases.find(name)
    limited = options.max_records_per_trigger or options.max_bytes_per_trigger
    while first is not None or sum(count for _, count in taken) < max(waiting, 1):
        part = name_of(name, len(taken) + 1)
        if first is not None:
            found = leases.find(part)
            if found is None:
                break
        else:
            count_max = options.max_records_per_trigger or messages_max
            found = leases.take(part, count_max, options.max_bytes_per_trigger, options.lease_timeout_ms)
        if found.state == SETTLED:
            raise AMQPSourceError(
                f"lease '{part}' of queue '{leases.queue}' is settled: its messages are done with. "
                "Take another name in option 'leaseName'"
            )
        if not found.count:
            break
        taken.append((part, found.count))
        if limited:
            break
    return taken


def settle(queue: str, lease: str, **options: Any) -> None:
    """Settle a lease that was read with mode "lease": settle("orders", "run-7", url=...)."""
    with BrokerLink(Options(**options)) as link:
        leases = Leases(link, queue)
        number = 1
        while number == 1 or leases.find(name_of(lease, number)) is not None:
            if not leases.settle(name_of(lease, number)):
                raise lost(queue, name_of(lease, number))
            number += 1


def lost(queue: str, lease: str) -> DataLossError:
    return DataLossError(
        f"lease '{lease}' of queue '{queue}' was over before its batch was committed: its messages went back "
        "to the queue, and not all of them are still there. Option 'leaseTimeoutMs' says how long it lasts; "
        "without, until it is settled or released"
    )
