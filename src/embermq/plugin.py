"""The interface of plug-ins: exchange types and services of your own, in Python.

A plug-in is a module that the configuration names (`plugins.modules`), or an entry point of the group
`embermq.plugins` of an installed distribution. Its exchange types are the subclasses of `ExchangeType` that
it defines, its services the functions that are decorated with `service`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from embermq.wire.properties import Properties as Properties

API_VERSION = 1
SERVICE_TIMEOUT_S = 10.0


class Binding(NamedTuple):
    """A binding of an exchange. Those of one exchange that are equal are one."""

    number: int
    destination: str
    destination_type: str  # "queue" or "exchange"
    routing_key: str
    arguments: Mapping[str, object]


class Message:
    """A message that is to be routed."""

    __slots__ = ("_body", "_decode", "_properties", "exchange", "routing_key")

    def __init__(
        self, exchange: str, routing_key: str, decode: Callable[[], Properties], body: Callable[[], bytes]
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self._decode = decode
        self._body = body
        self._properties: Properties | None = None

    @property
    def properties(self) -> Properties:
        if self._properties is None:
            self._properties = self._decode()
        return self._properties

    @property
    def headers(self) -> Mapping[str, Any]:
        return self.properties.headers or {}

    @property
    def body(self) -> bytes:
        return self._body()


class ExchangeType:
    """An exchange type: an instance for each exchange. Its methods must be quick: messages wait for them."""

    name: ClassVar[str] = ""  # begins with "x-"
    api_version: ClassVar[int] = API_VERSION

    def __init__(self, arguments: Mapping[str, object]) -> None:
        """`arguments` are those of the exchange; a ValueError refuses them, with its text."""

    def check(self, binding: Binding) -> None:
        """Refuse a binding that makes no sense, by a ValueError with a sentence."""

    def bind(self, binding: Binding) -> None:
        raise NotImplementedError

    def unbind(self, binding: Binding) -> None:
        raise NotImplementedError

    def route(self, message: Message) -> Iterable[Binding]:
        """The bindings that the message goes by."""
        raise NotImplementedError


@dataclass(frozen=True)
class Request:
    """A message to a service."""

    service: str
    body: bytes
    properties: Properties
    user: str
    vhost: str

    @property
    def headers(self) -> Mapping[str, Any]:
        return self.properties.headers or {}


@dataclass(frozen=True)
class Reply:
    """A service's answer; one that is bytes, text or anything that JSON can hold needs no Reply."""

    body: bytes
    content_type: str = "application/octet-stream"
    headers: Mapping[str, Any] = field(default_factory=dict)


Answer = Callable[[Request], Any]


@dataclass(frozen=True)
class Service:
    name: str
    answer: Answer
    timeout_s: float = SERVICE_TIMEOUT_S


def service(name: str, *, timeout_s: float = SERVICE_TIMEOUT_S) -> Callable[[Answer], Service]:
    """Make a function a service: messages with this routing key at a `system` exchange are handed to it."""

    def decorate(answer: Answer) -> Service:
        return Service(name, answer, timeout_s)

    return decorate
