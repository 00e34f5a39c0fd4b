"""The firehose: a copy of every message published and delivered in a virtual host, to `amq.rabbitmq.trace`.

    publish.<exchange>   once for each message that a client publishes, with the queues it went to
    deliver.<queue>      once for each message that a client gets

The body is the message's; the headers tell the rest. Messages of the trace itself are not traced. It is
switched on for a virtual host while it runs, and is off after a start, as in RabbitMQ.

When it is off it costs nothing: while it is on, no route is kept, so that each message is routed anew, and
all queues are selective; what happens only then looks at `vhost.trace`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from embermq.broker.dead_letter.router import copy_keys
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.message.rewrite import composed
from embermq.broker.node import node_name
from embermq.wire.properties import Properties
from embermq.wire.table import Timestamp, encode_table

if TYPE_CHECKING:
    from embermq.broker.message.message import Message
    from embermq.broker.queue.level import Entry
    from embermq.broker.queue.queue import Queue
    from embermq.broker.vhost import VirtualHost

TRACE_EXCHANGE = "amq.rabbitmq.trace"
NO_CONNECTION = ("none", 0, "none")
INT64_MAX = 2**63 - 1


class HasName(Protocol):
    @property
    def name(self) -> str: ...


class Session(Protocol):
    """A channel that publishes or gets messages."""

    @property
    def connection(self) -> HasName: ...

    @property
    def number(self) -> int: ...

    @property
    def user(self) -> HasName: ...


def properties_told(properties: Properties) -> dict[str, object]:
    """As values of a table; the headers are left out where they are nested too deep to stand in another."""
    told = {name: getattr(properties, name) for name in properties.__slots__}
    if properties.timestamp is not None and properties.timestamp > INT64_MAX:
        told["timestamp"] = Timestamp(properties.timestamp)
    try:
        encode_table({"properties": {"headers": properties.headers or {}}})
    except ValueError:
        del told["headers"]
    return {name: value for name, value in told.items() if value is not None}


class Trace:
    def __init__(self, vhost: VirtualHost) -> None:
        self.exchange = vhost.exchanges[TRACE_EXCHANGE]
        self.vhost_name = vhost.name
        self.node = node_name()

    def published(self, message: Message, queues: Iterable[Queue], session: Session | None) -> None:
        routed = {"routed_queues": [queue.name for queue in queues]}
        self.tell(f"publish.{message.exchange}", message, routed, session)

    def delivered(self, queue: Queue, entry: Entry, session: Session | None) -> None:
        again = {"redelivered": int(entry.redelivered)}
        self.tell(f"deliver.{queue.name}", entry.message, again, session)

    def tell(self, key: str, message: Message, more: Mapping[str, object], session: Session | None) -> None:
        if message.exchange == TRACE_EXCHANGE or not self.exchange.bindings:
            return
        connection, channel, user = NO_CONNECTION
        if session is not None:
            connection, channel, user = session.connection.name, session.number, session.user.name
        properties = message.properties
        told = Properties(
            headers={
                "exchange_name": message.exchange,
                "routing_keys": [message.routing_key, *copy_keys(properties.headers or {})],
                "properties": properties_told(properties),
                "node": self.node,
                "vhost": self.vhost_name,
                "connection": connection,
                "channel": channel,
                "user": user,
                **more,
            }
        )
        key = key.encode("utf-8", "surrogateescape")[:255].decode("utf-8", "surrogateescape")
        copy = composed(TRACE_EXCHANGE, key, told, message.body)
        for queue in self.exchange.resolve_or_none(key, copy):
            queue.append(copy)


def add_trace_exchange(vhost: VirtualHost) -> None:
    vhost.exchanges[TRACE_EXCHANGE] = Exchange(vhost, TRACE_EXCHANGE, "topic", durable=True, internal=True)


def set_tracing(vhost: VirtualHost, wanted: bool) -> None:
    if wanted == (vhost.trace is not None):
        return
    vhost.trace = Trace(vhost) if wanted else None
    for exchange in vhost.exchanges.values():
        exchange.changed()
    for queue in vhost.queues.values():
        queue.trace_changed()
