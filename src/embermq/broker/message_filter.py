"""A filter of messages, for searches and transfers: by exchange, routing key, headers, body, or selector."""

from __future__ import annotations

from dataclasses import dataclass, field

from embermq.broker.exchange.topic import TopicPattern
from embermq.broker.message.message import Message
from embermq.broker.selector.selector import Selector


@dataclass(frozen=True)
class MessageFilter:
    """Everything given must fit. `routing_key` is a topic pattern, so a plain key means itself; a header
    whose value is None must only be there."""

    exchange: str | None = None
    routing_key: str | None = None
    headers: dict[str, object] = field(default_factory=dict)
    body: bytes = b""
    selector: Selector | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", TopicPattern(self.routing_key or ""))

    @property
    def is_empty(self) -> bool:
        return self == EVERYTHING

    def matches(self, message: Message) -> bool:
        if self.exchange is not None and message.exchange != self.exchange:
            return False
        if self.routing_key is not None and not self.key_matches(message.routing_key):
            return False
        if self.body and message.content.find(self.body, message.header_size) < 0:
            return False
        if self.headers and not self.headers_match(message.properties.headers or {}):
            return False
        return self.selector is None or self.selector.matches(message)

    def key_matches(self, routing_key: str) -> bool:
        pattern: TopicPattern = self.pattern  # type: ignore[attr-defined]
        return pattern.matches(routing_key)

    def headers_match(self, headers: dict[str, object]) -> bool:
        return all(
            name in headers and (value is None or same_value(headers[name], value))
            for name, value in self.headers.items()
        )


def same_value(found: object, wanted: object) -> bool:
    """Equal as people see it: 5 is 5.0, but True is not 1; bytes are the text they spell."""
    if isinstance(found, bytes):
        found = found.decode("utf-8", "surrogateescape")
    if isinstance(wanted, str) and isinstance(found, int | float):  # in a URL everything is text
        return wanted == (str(found).lower() if isinstance(found, bool) else str(found))
    if isinstance(found, bool) is not isinstance(wanted, bool):
        return False
    return found == wanted


EVERYTHING = MessageFilter()
