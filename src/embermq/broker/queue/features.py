"""Optional features of a queue: limits, expiry, dead letters, priorities, retries, deduplication.

A plain queue has no rules. One whose arguments ask for something has them from
the start; any other gets them with the first message that expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from embermq.broker.counters import Counters
from embermq.broker.dead_letter.at_least_once import holds_letters
from embermq.broker.deduplication.deduplication import Deduplication, deduplication_for
from embermq.broker.message.message import expiry_of
from embermq.broker.queue.arguments import TTL_MS_MAX, is_name
from embermq.broker.queue.deletion import REASON as DELETED
from embermq.broker.queue.expiry import Expiry
from embermq.broker.queue.length_limit import ACCEPTED, REFUSED, limits_from
from embermq.broker.queue.max_priority import HIGH_PRIORITY, Priorities

if TYPE_CHECKING:
    from embermq.broker.message.message import Message
    from embermq.broker.queue.classic import ClassicQueue
    from embermq.broker.queue.consumer import Consumer
    from embermq.broker.queue.level import Entry, Level
    from embermq.broker.queue.queue import HasFailed

ARGUMENTS = frozenset(
    {
        "x-message-ttl",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-dead-letter-exchange",
        "x-max-priority",
        "x-single-active-consumer",
        "x-delivery-limit",
        "x-retry-delay",
        "x-deduplication",
    }
)

HIGH_PRIORITY_MIN = HIGH_PRIORITY  # as a C number


def has_rules(arguments: dict[str, object]) -> bool:
    return not ARGUMENTS.isdisjoint(arguments) or arguments.get("x-queue-type") == "quorum"


def delivery_limit_of(queue: ClassicQueue) -> int | None:
    """How often a message may come back; a negative number is no limit.

    The default is for quorum queues, as in RabbitMQ, and for durable queues with an exchange for dead
    letters: there, what comes back too often is not lost.
    """
    arguments = queue.effective
    limit = arguments.get("x-delivery-limit")
    if isinstance(limit, int):
        return limit if limit >= 0 else None
    letters = queue.durable and "x-dead-letter-exchange" in arguments
    default = queue.vhost.defaults.delivery_limit
    return default if default > 0 and (letters or arguments.get("x-queue-type") == "quorum") else None


class Retry:
    """x-retry-delay, x-retry-backoff, x-retry-max-delay: how long a message waits that a consumer gives back.

    The first time for the delay, then each time longer by the factor, up to the maximum. The delivery limit
    ends it.
    """

    def __init__(self, delay_ms: int, factor: float, delay_ms_max: int) -> None:
        self.delay_ms = delay_ms
        self.factor = factor
        self.delay_ms_max = delay_ms_max

    def wait_ms(self, returns: int) -> int:
        """How long a message waits that was given back so often."""
        try:
            return min(int(self.delay_ms * self.factor ** (returns - 1)), self.delay_ms_max)
        except OverflowError:
            return self.delay_ms_max


def retry_from(arguments: Mapping[str, object]) -> Retry | None:
    delay_ms = arguments.get("x-retry-delay")
    if not isinstance(delay_ms, int):
        return None
    factor, delay_ms_max = arguments.get("x-retry-backoff"), arguments.get("x-retry-max-delay")
    return Retry(
        delay_ms,
        float(factor) if isinstance(factor, int | float | Decimal) else 1.0,
        delay_ms_max if isinstance(delay_ms_max, int) else TTL_MS_MAX,
    )


class QueueRules:
    def __init__(self, queue: ClassicQueue) -> None:
        self.queue = queue
        self.turn = queue.vhost.turn
        self.active: Consumer | None = None  # the single one
        self.priorities: Priorities | None = None
        self.fleeting: list[Entry] = []  # that came in this turn, and expire at its end
        self.dropped_maxlen = self.dropped_expired = 0  # for want of an exchange for dead letters
        self.deduplication: Deduplication | None = None
        self.expiry = Expiry(queue, self.turn)
        priority_max = queue.effective.get("x-max-priority")
        if isinstance(priority_max, int):
            self.priorities = Priorities(queue, priority_max)
        self.apply_effective()
        if self.single_active or self.priorities is not None:
            queue.selective = True
        self.schedule_next_check()

    def apply_effective(self) -> None:
        """Take over what holds now. Priorities are for ever, and the single active consumer, too."""
        arguments = self.queue.effective
        self.expiry.apply_effective()
        self.limits = limits_from(arguments)
        exchange, routing_key = (
            arguments.get("x-dead-letter-exchange"),
            arguments.get("x-dead-letter-routing-key"),
        )
        # Names are checked when they come; a store of before may have longer ones.
        self.dead_letter_exchange = exchange if is_name(exchange) else None
        self.dead_letter_routing_key = routing_key if is_name(routing_key) else None
        self.holds_letters = holds_letters(arguments)
        self.single_active = arguments.get("x-single-active-consumer") is True
        self.delivery_limit = delivery_limit_of(self.queue)
        self.retry = retry_from(arguments)
        wanted = arguments.get("x-queue-type") == "quorum" or "x-delivery-limit" in arguments
        self.counts_returns = wanted or self.retry is not None or self.delivery_limit is not None
        self.deduplication = deduplication_for(self.queue, self.deduplication)

    def changed(self) -> None:
        """What holds now is different: limits hold at once."""
        self.measure()
        self.make_room()
        self.schedule_next_check()

    def is_idle(self) -> bool:
        """Is there nothing that a queue of the plain kind would not have?"""
        queue = self.queue
        if queue.unacked_count or self.deduplication is not None or self.fleeting:
            return False
        return not any(level.may_expire() for level in queue.levels)

    # -- messages in

    def append(self, message: Message) -> int:
        """What `Queue.append` does, for a queue with rules."""
        if self.deduplication is not None:
            return self.deduplication.append(self, message)
        return self.take(message)

    def take(self, message: Message) -> int:
        queue, limits = self.queue, self.limits
        if limits is not None and not limits.drops_head and limits.refuses(queue, message):
            if limits.dead_letters_refused:
                self.dead_letter(message, None, "maxlen")
            return REFUSED
        now_ms = self.turn.now_ms
        expires_ms = expiry_of(message, self.expiry.ttl_ms, now_ms)
        if expires_ms == now_ms:
            self.take_fleeting(message)
        else:
            self.accept(message, expires_ms)
            if expires_ms:
                self.schedule_check(expires_ms)
        if limits is not None and limits.drops_head and limits.exceeded(queue.ready_count, queue.ready_bytes):
            # Consumers have their turn first, and then comes `drained`.
            if not limits.behind and not queue.consumers:
                limits.drop_head(self)
        return ACCEPTED

    def take_fleeting(self, message: Message) -> int:
        """A time to live of nothing: for a consumer that takes the message in this turn, or dropped."""
        level = self.level_for(message)
        if not self.queue.consumers:
            self.queue.accept_at(level, message, self.turn.now_ms)
            self.expiry.expire_heads(self.turn.now_ms)
            return 0
        self.queue.accept_at(level, message, 0)
        if not level.paged_count:
            self.fleeting.append(level.ring.at(level.ring.count - 1))
        return 0

    def drained(self, left: bool) -> int:
        """Consumers have taken what they want in this turn; if there is more for them, True."""
        if self.fleeting and not left:
            for entry in self.fleeting:
                entry.expires_ms = self.turn.now_ms  # not even for a consumer that gives it back at once
            self.fleeting.clear()
            self.expiry.expire_heads(self.turn.now_ms)
        limits = self.limits
        if limits is not None and limits.drops_head and not limits.behind:
            if limits.exceeded(self.queue.ready_count, self.queue.ready_bytes):
                limits.drop_head(self)
        return self.expiry.schedule_next_check()

    def accept(self, message: Message, expires_ms: int) -> int:
        return self.queue.accept_at(self.level_for(message), message, expires_ms)

    def level_for(self, message: Message) -> Level:
        if self.priorities is not None:
            return self.priorities.level_for(message)
        return self.queue.high if message.priority >= HIGH_PRIORITY_MIN else self.queue.low

    def returned(self, entries: list[Entry], has_failed: HasFailed) -> list[Entry]:
        """Messages come back from consumers; those that may be delivered again now."""
        if self.queue.deleted:
            self.dispose(entries, DELETED)
            return []
        if not self.counts_returns:
            return entries
        ready: list[Entry] = []
        for entry in entries:
            if not has_failed(entry):
                ready.append(entry)
                continue
            entry.level.count_return(entry)
            if self.delivery_limit is not None and entry.returns > self.delivery_limit:
                self.dispose([entry], "delivery_limit")
            elif self.retry is not None:
                self.try_later(entry, self.retry)
            else:
                ready.append(entry)
        return ready

    def try_later(self, entry: Entry, retry: Retry) -> None:
        """The message waits in the schedule of the virtual host, and has no place here meanwhile."""
        now_ms = self.turn.now_ms
        delays = self.queue.vhost.delays
        since_ms = now_ms
        if entry.expires_ms:
            ttl_ms = expiry_of(entry.message, self.expiry.ttl_ms, 0)
            since_ms = entry.expires_ms - ttl_ms
        delays.give_back(self.queue, entry, now_ms + retry.wait_ms(entry.returns) + 1, since_ms)
        if entry.stored:
            self.turn.after_safe(partial(entry.level.forget, entry))

    def come_back(self, message: Message, since_ms: int, returns: int) -> None:
        """It has waited for its next try."""
        queue = self.queue
        expires_ms = self.level_for(message).append_returned(message, since_ms, returns)
        queue.correct(1, message.size - message.header_size)
        queue.mark()
        if expires_ms:
            self.schedule_check(expires_ms)
        self.make_room()

    def after_return(self) -> None:
        """Messages came back from consumers."""
        self.make_room()
        self.schedule_next_check()

    def before_recovery(self) -> None:
        if self.priorities is not None:
            self.priorities.before_recovery()

    def recovered(self) -> None:
        """The queue has its messages of before the restart."""
        if self.deduplication is not None:
            self.deduplication.recover()
        self.measure()
        self.schedule_next_check()
        if self.limits is not None:
            self.schedule_check(self.turn.now_ms)  # the last run may have stopped before all was dropped

    def measure(self) -> None:
        """Where bytes count, those of messages not read since the start count as well. The limit holds for
        what is known until all are measured."""
        works = self.turn.incremental_work
        if self.limits is None or not self.limits.counts_bytes or works.about(self):
            return
        if self.queue.is_unmeasured():
            works.start(self.queue.measure_pieces(), self.make_room, about=self, share_s=works.share_s)

    def make_room(self) -> None:
        """Within the limits again, should more be known of what is here."""
        if self.limits is not None:
            self.limits.make_room(self)

    # -- messages out

    def dispose(self, entries: list[Entry], reason: str) -> None:
        """Messages end here: as dead letters where there is an exchange for such."""
        if self.dead_letter_exchange is None:
            if reason == "maxlen":  # which many a queue does for every message that it takes
                self.dropped_maxlen += len(entries)
            elif reason == "expired":
                self.dropped_expired += len(entries)
            else:
                self.queue.vhost.dropped.add(self.queue, reason, len(entries))
            for entry in entries:
                entry.level.forget(entry)
        else:
            for entry in entries:
                self.dead_letter(entry.message, entry, reason)

    def dead_letter(self, message: Message, entry: Entry | None, reason: str) -> None:
        if self.dead_letter_exchange is not None:
            self.queue.vhost.dead_letters.send(self, message, entry, reason)

    def add_counts_to(self, counters: Counters) -> None:
        counters.dropped_maxlen += self.dropped_maxlen
        counters.dropped_expired += self.dropped_expired
        if self.deduplication is not None:
            counters.duplicates += self.deduplication.duplicate_count

    def log_ids(self) -> list[str]:
        """What the queue has on disk beside its levels."""
        journal = None if self.deduplication is None else self.deduplication.journal
        return [] if journal is None else [journal.log_id]

    def drop(self) -> None:
        """The queue is deleted."""
        if self.deduplication is not None:
            self.deduplication.drop()

    # -- time

    def used(self) -> None:
        self.expiry.used()

    def schedule_next_check(self) -> int:
        return self.expiry.schedule_next_check()

    def schedule_check(self, due_ms: int) -> int:
        return self.expiry.schedule_check(due_ms)
