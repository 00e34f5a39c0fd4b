"""The exchange `amq.rabbitmq.event`: everything that happens in the broker, as messages.

The routing key is the event's key, the headers are its properties, the body is empty. It stands in the first
virtual host; its matcher listens to events while there is a binding, so that events without a reader cost
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.events import Event, Events
from embermq.broker.exchange.binding import Binding
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.exchange.types import TopicMatcher
from embermq.broker.message.rewrite import composed
from embermq.wire.properties import Properties

if TYPE_CHECKING:
    from embermq.broker.vhost import VirtualHost

EVENT_EXCHANGE = "amq.rabbitmq.event"
PERSISTENT = 2


class EventMatcher(TopicMatcher):
    """Matches like a topic exchange, and publishes to it."""

    def __init__(self, exchange: Exchange, events: Events) -> None:
        super().__init__({})
        self.exchange = exchange
        self.events = events
        self.binding_count = 0

    def add(self, binding: Binding) -> None:
        super().add(binding)
        self.binding_count += 1
        if self.binding_count == 1:
            self.events.listen(self.publish)

    def remove(self, binding: Binding) -> None:
        super().remove(binding)
        self.binding_count -= 1
        if self.binding_count == 0:
            self.events.unlisten(self.publish)

    def publish(self, event: Event) -> None:
        headers = {
            **event.properties,
            "user_who_performed_action": event.actor,
            "timestamp_in_ms": event.timestamp_ms,
        }
        properties = Properties(
            headers=headers, delivery_mode=PERSISTENT, timestamp=event.timestamp_ms // 1000
        )
        message = composed(EVENT_EXCHANGE, event.key, properties, b"")
        for queue in self.exchange.resolve_or_none(event.key, message):
            queue.append(message)


def add_event_exchange(vhost: VirtualHost) -> None:
    exchange = Exchange(vhost, EVENT_EXCHANGE, "topic", durable=True, internal=True)
    exchange.matcher = EventMatcher(exchange, vhost.events)
    vhost.exchanges[EVENT_EXCHANGE] = exchange
