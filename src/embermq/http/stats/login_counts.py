"""Counters of logins: by protocol, and by user and address."""

from __future__ import annotations

from dataclasses import dataclass, field

from embermq.broker.events import Event, Events

SUCCESS, FAILURE = "user.authentication.success", "user.authentication.failure"
PROTOCOLS = {"http": "http", "network": "amqp091"}  # of a connection's type, as RabbitMQ names them
SOURCES_MAX = 1000
NAME_CHARACTERS_MAX = 255  # that are kept: names that failed to log in may be as long as a request


@dataclass
class Attempts:
    succeeded: int = 0
    failed: int = 0

    def add(self, key: str) -> None:
        if key == SUCCESS:
            self.succeeded += 1
        else:
            self.failed += 1

    def view(self, protocol: str) -> dict[str, object]:
        return {
            "protocol": protocol,
            "auth_attempts": self.succeeded + self.failed,
            "auth_attempts_succeeded": self.succeeded,
            "auth_attempts_failed": self.failed,
        }


@dataclass
class LoginCounts:
    protocols: dict[str, Attempts] = field(default_factory=dict)
    sources: dict[tuple[str, str, str], Attempts] = field(default_factory=dict)  # address, user, protocol

    def listen(self, events: Events) -> None:
        events.listen(self.note)

    def note(self, event: Event) -> None:
        if event.key not in (SUCCESS, FAILURE):
            return
        about = event.properties
        protocol = PROTOCOLS.get(str(about.get("connection_type")), "amqp091")
        self.protocols.setdefault(protocol, Attempts()).add(event.key)
        source = (str(about.get("peer_host", "")), str(about.get("name", ""))[:NAME_CHARACTERS_MAX], protocol)
        if source not in self.sources and len(self.sources) >= SOURCES_MAX:
            del self.sources[next(iter(self.sources))]  # the one that came first
        self.sources.setdefault(source, Attempts()).add(event.key)
