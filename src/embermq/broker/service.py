"""System services (000, 3.1.3.5): a message to a `system` exchange goes to the service that its key names.

The answer goes to the message's `reply-to`, with its correlation-id. Services are plug-ins, or built in
(`amq.`); how they are run is the application's business.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from embermq.broker.message.rewrite import composed
from embermq.broker.publish import publish
from embermq.broker.queue.queue import Queue
from embermq.broker.security.user import User
from embermq.plugin import Reply, Request, Service
from embermq.wire.properties import Properties

if TYPE_CHECKING:
    from embermq.broker.message.message import Message
    from embermq.broker.vhost import VirtualHost

log = logging.getLogger("embermq.service")

FAILED = "embermq.rpc.failed"  # the property `type` of an answer that is the text of an error

Done = Callable[[object], None]  # gets the answer, or the exception
Run = Callable[[Service, Request, User, Done], None]


class Services:
    """The services of a broker, by their names."""

    def __init__(self) -> None:
        self.known: dict[str, Service] = {}
        self.run: Run | None = None
        self.user_of: Callable[[int], User | None] = lambda connection_number: None

    def queue(self, vhost: VirtualHost, name: str) -> ServiceQueue | None:
        """Where messages to a service go."""
        found = self.known.get(name)
        return None if found is None else ServiceQueue(self, vhost, found)

    def take(self, vhost: VirtualHost, service: Service, message: Message) -> None:
        user = self.user_of(message.publisher)
        if user is None or self.run is None:
            log.info("service %s: a message that is no client's is dropped", service.name)
            return
        properties = message.properties
        request = Request(service.name, message.body, properties, user.name, vhost.name)
        self.run(service, request, user, lambda answer: reply(vhost, user, properties, answer))


class ServiceQueue(Queue):
    """A service in the place of a queue: what it gets is not kept."""

    def __init__(self, services: Services, vhost: VirtualHost, service: Service) -> None:
        super().__init__(vhost, f"service {service.name}", vhost.turn)
        self.services = services
        self.service = service

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServiceQueue) and (other.vhost, other.name) == (self.vhost, self.name)

    def __hash__(self) -> int:
        return hash((self.vhost.name, self.name))

    def append(self, message: Message) -> int:
        self.services.take(self.vhost, self.service, message)
        return 0

    def mark(self) -> int:
        return 0


def reply(vhost: VirtualHost, user: User, asked: Properties, answer: object) -> None:
    """Send the answer, where one is wanted and the user may write to the default exchange."""
    if not asked.reply_to or not user.allows("write", vhost.name, ""):
        return
    try:
        told = reply_of(answer)
    except (TypeError, ValueError) as error:
        answer = TypeError(f"the service's answer is no JSON: {error}")
        told = reply_of(answer)
    properties = Properties(
        content_type=told.content_type,
        headers=dict(told.headers) or None,
        correlation_id=asked.correlation_id,
        type=FAILED if isinstance(answer, Exception) else None,
    )
    publish(vhost.exchanges[""], composed("", asked.reply_to, properties, told.body))


def reply_of(answer: object) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, Exception):
        return reply_of(str(answer) or type(answer).__name__)
    if isinstance(answer, bytes):
        return Reply(answer)
    if isinstance(answer, str):
        return Reply(answer.encode(), "text/plain; charset=utf-8")
    return Reply(json.dumps(answer).encode(), "application/json")
