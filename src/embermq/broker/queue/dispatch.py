"""Selective dispatch: for queues where it matters which consumer gets which message.

- A no-local consumer is not given what its own connection published; messages that no consumer here may have
  are passed over.
- Consumers with a higher `x-priority` come first; those with the same take turns.
- With `x-single-active-consumer` only one gets messages; when it goes, the next one takes over.
- With `x-max-priority` there are more levels than two.
- With `x-selector` a consumer gets only what it has selected: then `selection` does all of this.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from embermq.broker.queue.consumer import NO_CONNECTION, Consumer
from embermq.broker.queue.selection import Selection

if TYPE_CHECKING:
    from embermq.broker.message.message import Message
    from embermq.broker.queue.classic import ClassicQueue
    from embermq.broker.queue.level import Entry
    from embermq.broker.queue.queue import Queue

DRAIN_BYTES_MAX = 512 * 1024  # what one queue may hand out in one turn
SKIPPED_MAX = 16  # consumers of a queue that take no more, and are tried for every message
PASSED_OVER_BYTES_MAX = 32 * 1024 * 1024  # what a no-local consumer may skip in one turn


def is_selective(queue: ClassicQueue) -> bool:
    """Does it matter which consumer gets which message?"""
    return selects_by_arguments(queue) or any(selects_by_consumer(consumer) for consumer in queue.consumers)


def selects_by_arguments(queue: ClassicQueue) -> bool:
    """Is it selective with any consumers?"""
    rules = queue.rules
    if queue.vhost.trace is not None:  # only selective dispatch traces deliveries
        return True
    return rules is not None and (rules.single_active or rules.priorities is not None)


def selects_by_consumer(consumer: Consumer) -> bool:
    """Does this consumer make its queue selective?"""
    return consumer.no_local_of != NO_CONNECTION or consumer.priority != 0 or consumer.selector is not None


def selects(queue: Queue) -> bool:
    """Has it consumers with a selector?"""
    return queue.selection is not None and queue.selection.is_used


def candidates(queue: Queue) -> list[Consumer]:
    """The consumers that may get messages at all, in the order in which they are tried."""
    if queue.rules is not None and queue.rules.single_active:
        return [queue.rules.active] if queue.rules.active is not None else []
    return queue.consumers


def may_have(consumer: Consumer, message: Message) -> bool:
    if consumer.selector is not None and not consumer.selector.matches(message):
        return False
    return consumer.no_local_of == NO_CONNECTION or consumer.no_local_of != message.publisher


def has_ready_consumer(queue: Queue, message: Message) -> bool:
    """Could this message leave at once? What `immediate` asks."""
    if queue.ready_count and not selects(queue):
        return False
    return any(
        may_have(consumer, message) and consumer.can_take(message.size) for consumer in candidates(queue)
    )


def room_for(queue: Queue, message: Message) -> int:
    """How many messages like this one consumers could take at the end of the turn, with what is ready."""
    return sum(consumer.room() for consumer in candidates(queue) if may_have(consumer, message))


def consumer_added(queue: ClassicQueue, consumer: Consumer) -> None:
    """A new consumer is served after all others.

    There may be thousands: they are sorted only where it matters.
    """
    consumers, turn = queue.consumers, queue.next_consumer
    if 0 < turn < len(consumers):
        consumers.insert(turn, consumer)
        queue.next_consumer = turn + 1
    else:
        consumers.append(consumer)
        queue.next_consumer = 0
    if queue.rules is not None and queue.rules.active is None:
        queue.rules.active = consumer
    queue.selective = queue.selective or selects_by_arguments(queue) or selects_by_consumer(consumer)
    if queue.selective:
        turn, queue.next_consumer = queue.next_consumer, 0
        consumers[:] = sorted(consumers[turn:] + consumers[:turn], key=lambda c: -c.priority)
    if queue.selection is not None:
        queue.selection.add(consumer)
    elif consumer.selector is not None:
        queue.selection = Selection(queue)


def consumer_removed(queue: ClassicQueue, consumer: Consumer) -> None:
    with suppress(ValueError):
        place = queue.consumers.index(consumer)
        del queue.consumers[place]
        queue.next_consumer -= place < queue.next_consumer
    if queue.selection is not None:
        queue.selection.remove(consumer)
    if queue.rules is not None and queue.rules.active is consumer:
        queue.rules.active = queue.consumers[0] if queue.consumers else None
        queue.mark()
    if selects_by_consumer(consumer):
        queue.selective = is_selective(queue)


def remove_consumers(queue: ClassicQueue, leaving: set[Consumer]) -> bool:
    """See `Queue.remove_at_once`: deliveries need not skip many consumers while they end one by one, and an
    exclusive consumer does not keep others out. An active consumer stays: it is not followed by another
    before its messages are back."""
    rules = queue.rules
    if rules is not None and rules.single_active:
        return False
    if len(leaving) <= SKIPPED_MAX and not (queue.consumers and queue.consumers[0].exclusive):
        return False
    queue.next_consumer -= sum(consumer in leaving for consumer in queue.consumers[: queue.next_consumer])
    queue.consumers = [consumer for consumer in queue.consumers if consumer not in leaving]
    if queue.selection is not None:
        for consumer in leaving:
            queue.selection.remove(consumer)
    if rules is not None and rules.active in leaving:
        rules.active = queue.consumers[0] if queue.consumers else None
    if queue.selective:
        queue.selective = is_selective(queue)
    return True


def consumer_left(queue: Queue) -> None:
    """A consumer was removed; an auto-delete queue goes with the last of them."""
    if not queue.consumers and queue.auto_delete and not queue.deleted:
        queue.vhost.delete_queue(queue)
    elif queue.rules is not None and not queue.deleted:
        queue.rules.used()


def move_behind_others(queue: ClassicQueue, consumer: Consumer) -> None:
    """The consumer goes behind all others of its priority."""
    consumers = queue.consumers
    consumers.remove(consumer)
    place = len(consumers)
    while place and consumers[place - 1].priority < consumer.priority:
        place -= 1
    consumers.insert(place, consumer)


def awaits_disk(queue: Queue) -> bool:
    """Is the message that has to leave next on its way from the disk?"""
    for level in queue.levels:
        if level.ring.count:
            return False
        if level.paged_count:
            return not level.is_at_hand()
    return False


def drain_selectively(queue: ClassicQueue) -> bool:
    """What `Queue.drain` does, for a selective queue."""
    if queue.selection is not None and queue.selection.is_used:
        return queue.selection.drain()
    passed_over: list[Entry] = []
    budget = DRAIN_BYTES_MAX
    overhead = queue.turn.fairness.delivery_bytes
    # What is passed over comes back next time, so it is not charged to the turn: that would never end.
    passed_over_budget = PASSED_OVER_BYTES_MAX
    while queue.ready_count and budget > 0 and passed_over_budget > 0 and not awaits_disk(queue):
        entry = queue.take_head()
        if entry is None:
            break
        message = entry.message
        willing = [consumer for consumer in candidates(queue) if may_have(consumer, message)]
        taker = next((consumer for consumer in willing if consumer.can_take(message.size)), None)
        if taker is not None:
            move_behind_others(queue, taker)
            budget -= message.size + overhead
            if queue.vhost.trace is not None:
                queue.vhost.trace.delivered(queue, entry, getattr(taker, "channel", None))
            queue.hand_over(entry, taker)
            continue
        passed_over.append(entry)
        passed_over_budget -= message.size + overhead
        if willing:  # they only lack credit; later messages must not overtake
            break
    queue.put_back(passed_over)
    return budget <= 0 and bool(queue.ready_count > len(passed_over))
