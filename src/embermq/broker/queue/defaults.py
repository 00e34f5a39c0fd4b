"""Defaults of queues: the part of the configuration that holds where a declaration says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from embermq.broker.queue.template import Templates

DELIVERY_LIMIT = 20  # as RabbitMQ has for its quorum queues since version 4
CONSUMER_TIMEOUT_MS = 30 * 60 * 1000


@dataclass
class Defaults:
    delivery_limit: int = DELIVERY_LIMIT  # 0 or less: none
    consumer_timeout_ms: int = CONSUMER_TIMEOUT_MS  # 0: none
    templates: Templates = field(default_factory=Templates)
