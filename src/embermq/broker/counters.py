"""Totals of message counters; those of deleted queues and closed channels are kept, so that none goes down.

Queues, exchanges and channels count for themselves, in numbers of their own that cost next to nothing. When
one goes, its virtual host keeps the sum (`vhost.past`); when that goes, the broker does (`broker.past`).
"""

from __future__ import annotations


class Counters:
    __slots__ = (
        "acked",
        "channels_closed",
        "channels_opened",
        "confirmed",
        "connections_opened",
        "dead_deleted",
        "dead_delivery_limit",
        "dead_expired",
        "dead_maxlen",
        "dead_rejected",
        "delivered",
        "delivered_no_ack",
        "dropped_delivery_limit",
        "dropped_expired",
        "dropped_maxlen",
        "dropped_rejected",
        "duplicates",
        "got",
        "got_empty",
        "got_no_ack",
        "published",
        "queues_created",
        "queues_declared",
        "queues_deleted",
        "received",
        "received_confirm",
        "redelivered",
        "returned",
        "routed",
        "unroutable",
    )

    def __init__(self) -> None:
        self.received = 0  # messages that came from publishers
        self.routed = 0  # copies of them that went to queues
        self.unroutable = 0  # messages that no queue was for, returned or dropped
        self.returned = 0
        self.received_confirm = 0
        self.confirmed = 0
        self.published = 0  # messages that queues took, from publishers or as dead letters
        self.delivered = 0  # in whatever way
        self.delivered_no_ack = 0
        self.got = 0
        self.got_no_ack = 0
        self.got_empty = 0
        self.acked = 0
        self.duplicates = 0  # that queues recognised and dropped
        self.redelivered = 0
        self.dead_expired = 0
        self.dead_rejected = 0
        self.dead_maxlen = 0
        self.dead_delivery_limit = 0
        self.dead_deleted = 0
        self.dropped_expired = 0  # the same without an exchange for dead letters
        self.dropped_rejected = 0
        self.dropped_maxlen = 0
        self.dropped_delivery_limit = 0
        self.queues_declared = 0
        self.queues_created = 0
        self.queues_deleted = 0
        self.channels_opened = 0
        self.channels_closed = 0
        self.connections_opened = 0

    def add_exchange(self, received: int, routed: int, unroutable: int) -> None:
        self.received += received
        self.routed += routed
        self.unroutable += unroutable

    def add_channel(self, received_confirm: int, confirmed: int, returned: int) -> None:
        self.received_confirm += received_confirm
        self.confirmed += confirmed
        self.returned += returned

    def channel_closed(self, received_confirm: int, confirmed: int, returned: int) -> None:
        self.channels_closed += 1
        self.add_channel(received_confirm, confirmed, returned)

    def count_dead(self, reason: str) -> None:
        name = f"dead_{reason}"
        setattr(self, name, getattr(self, name) + 1)

    def count_dropped(self, reason: str, count: int) -> None:
        if reason == "rejected":
            self.dropped_rejected += count
        elif reason == "delivery_limit":
            self.dropped_delivery_limit += count

    def add(self, other: Counters) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
