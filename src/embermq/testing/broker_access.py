"""Operations of a test inside a broker, by name: each runs on the broker's own loop.

Arguments and answers are plain values, so that they pass through a pipe to a broker in another process.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from embermq.app.app import App
from embermq.errors import NotFound

if TYPE_CHECKING:
    from embermq.amqp.connection.connection import Connection
    from embermq.broker.message.message import Message
    from embermq.broker.vhost import VirtualHost
    from embermq.net.protocol import AMQPProtocol

DEFAULT_VHOST = "/"


class BrokerNotRunning(RuntimeError):
    """The broker was asked for something before it was started, or after it was stopped or killed."""


@dataclass(frozen=True)
class MessageView:
    """A message as it waits in a queue."""

    body: bytes
    exchange: str
    routing_key: str
    headers: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)  # those that are set, headers aside


@dataclass(frozen=True)
class QueueView:
    """A queue at one moment: messages waiting, messages out with consumers, consumers."""

    name: str
    ready: int
    unacked: int
    consumers: int

    @property
    def is_empty(self) -> bool:
        return not self.ready and not self.unacked


class Inside:
    """The operations; `App` runs on the loop that calls them."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.failures_left = 0
        self.paused = False
        self.welcome = app.server.welcome
        app.server.welcome = self.welcome_or_fail  # type: ignore[method-assign]

    def welcome_or_fail(self, protocol: AMQPProtocol) -> Connection:
        connection = self.welcome(protocol)
        if self.failures_left:
            self.failures_left -= 1
            self.app.loop.call_soon(protocol.transport.abort)
        elif self.paused:
            connection.pause_writing()
        return connection

    # -- looking

    def vhost(self, name: str) -> VirtualHost:
        found = self.app.broker.vhosts.get(name)
        if found is None:
            raise NotFound(f"no vhost '{name}'")
        return found

    def messages(self, queue: str, vhost: str, limit: int) -> list[MessageView]:
        found = self.vhost(vhost).queue(queue).messages()
        return [view_of(message) for message in islice(found, limit)]

    def queue(self, name: str, vhost: str) -> QueueView | None:
        queue = self.vhost(vhost).queues.get(name)
        if queue is None:
            return None
        return QueueView(queue.name, queue.ready_count, queue.unacked_count, len(queue.consumers))

    def queues(self, vhost: str) -> list[str]:
        return sorted(self.vhost(vhost).queues)

    def connection_count(self) -> int:
        return len(self.app.server.protocols)

    # -- changing

    def add_vhost(self, name: str) -> None:
        broker = self.app.broker
        broker.add_vhost(name)
        guest = broker.users["guest"]
        broker.users.grant(guest, name, guest.permissions[DEFAULT_VHOST])

    def delete_vhost(self, name: str) -> None:
        vhost = self.app.broker.vhosts.get(name)
        if vhost is None:
            return
        for protocol in list(self.app.server.protocols):
            if protocol.connection.vhost is vhost:
                protocol.force_close(f"vhost '{name}' is deleted")
        self.app.broker.delete_vhost(vhost)

    def purge(self, queue: str, vhost: str) -> int:
        return self.vhost(vhost).queue(queue).purge()

    # -- hurting

    def fail_next_connections(self, count: int) -> None:
        self.failures_left = count

    def close_connections(self, reason: str) -> int:
        """As an operator would: with connection.close, 320. How many there were."""
        protocols = list(self.app.server.protocols)
        for protocol in protocols:
            protocol.force_close(reason)
        return len(protocols)

    def drop_connections(self) -> int:
        """As a network would: without a word."""
        protocols = list(self.app.server.protocols)
        for protocol in protocols:
            protocol.transport.abort()
        return len(protocols)

    def pause_deliveries(self) -> None:
        self.paused = True
        for protocol in self.app.server.protocols:
            protocol.connection.pause_writing()

    def resume_deliveries(self) -> None:
        self.paused = False
        for protocol in self.app.server.protocols:
            protocol.resume_writing()

    def set_alarm(self, active: bool) -> None:
        """Publishers are stopped and told so (connection.blocked) until the alarm is cleared."""
        self.app.broker.alarms.set("test resources", active, "a test asked for it")


def view_of(message: Message) -> MessageView:
    properties = message.properties
    named = {name: getattr(properties, name) for name in type(properties).__slots__}
    headers = named.pop("headers") or {}
    present = {name: value for name, value in named.items() if value is not None}
    return MessageView(message.body, message.exchange, message.routing_key, headers, present)


async def call(inside: Inside, operation: str, arguments: tuple[Any, ...]) -> Any:
    """Run one operation and let the turn that it began end."""
    answer = getattr(inside, operation)(*arguments)
    await asyncio.sleep(0)
    return answer
