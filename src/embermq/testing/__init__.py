"""A real broker inside a test: started in milliseconds, inspected, made to fail, and removed without a trace.

    from embermq.testing import EmbeddedBroker

    with EmbeddedBroker() as broker:
        connect(broker.url)                       # pika, aio-pika, Celery: any AMQP client
        assert [message.body for message in broker.messages("orders")] == [b"one"]

The pytest plugin (fixtures `amqp_broker`, `amqp_vhost`, `amqp_url`) comes with the package; docs/testing.md
shows both at work.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embermq.testing.async_embedded import AsyncEmbeddedBroker
    from embermq.testing.broker_access import BrokerNotRunning, MessageView, QueueView
    from embermq.testing.embedded import EmbeddedBroker

__all__ = ["AsyncEmbeddedBroker", "BrokerNotRunning", "EmbeddedBroker", "MessageView", "QueueView"]

WHERE = {
    "AsyncEmbeddedBroker": "embermq.testing.async_embedded",
    "EmbeddedBroker": "embermq.testing.embedded",
    "BrokerNotRunning": "embermq.testing.broker_access",
    "MessageView": "embermq.testing.broker_access",
    "QueueView": "embermq.testing.broker_access",
}


def __getattr__(name: str) -> object:
    # On first use: pytest imports this package for its plugin in every run, used or not.
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(WHERE[name]), name)
    globals()[name] = value
    return value
