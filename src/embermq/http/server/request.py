"""Request, response and refusal: what goes between the HTTP server and the handlers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

import msgspec

from embermq.broker.security.user import User

if TYPE_CHECKING:
    from embermq.http.server.context import Context

JSON = "application/json"
QUERY_FIELDS_MAX = 100
FIELD_NAME_BYTES_MAX = 255
TABLE_DEPTH_MAX = 32
ECHO_CHARACTERS_MAX = 100
DOUBLY_ENCODED = (
    "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
)

quick_encode = msgspec.json.Encoder().encode


class Refusal(Exception):
    """A request that cannot be granted; becomes RabbitMQ's {"error": ..., "reason": ...}."""

    def __init__(
        self, status: int, error: str, reason: object, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers

    @property
    def response(self) -> Response:
        return Response.of({"error": self.error, "reason": self.reason}, self.status, self.headers)


def bad_request(reason: object) -> Refusal:
    return Refusal(400, "bad_request", reason)


def not_authorised(reason: str) -> Refusal:
    return Refusal(401, "not_authorised", reason)


def not_found() -> Refusal:
    return Refusal(404, "Object Not Found", "Not Found")


@dataclass(frozen=True)
class Response:
    status: int = 204
    body: bytes = b""
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    # The answer is about messages: it leaves when those are as safe as a confirm would promise.
    after_messages: bool = False
    # What follows the body, for as long as it goes on: server-sent events.
    endless: AsyncGenerator[bytes] | None = None

    @classmethod
    def of(cls, value: object, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Response:
        return cls(status, encode(value), JSON, headers)


def encode(value: object) -> bytes:
    try:
        return quick_encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError):
        # A timestamp (an int of a kind of its own), or a lone surrogate (bytes that were no UTF-8), which is
        # no error when it is escaped to ASCII.
        return json.dumps(value, separators=(",", ":")).encode("ascii")


@dataclass(frozen=True)
class Incoming:
    """The head of a request; its body comes when it is asked for."""

    method: str
    target: str
    headers: dict[str, str]
    peer_address: str
    read_body: Callable[[int], Awaitable[bytes]]  # so many bytes at most
    on_login: Callable[[], None] = lambda: None
    is_tls: bool = False
    user: User | None = None  # that asks, where it is known: a service does, for a client of AMQP


@dataclass
class Request:
    context: Context
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    peer_address: str
    names: dict[str, str] = field(default_factory=dict)  # what stands in the path for {vhost} and the like
    login: User | None = None
    pairs: list[tuple[str, str]] = field(default_factory=list)  # the query, with what comes twice
    is_tls: bool = False

    @classmethod
    def parse(cls, context: Context, incoming: Incoming) -> Request:
        address, _, query = incoming.target.partition("#")[0].partition("?")
        if not address.startswith("/") and "://" in address:  # as it is written to a proxy
            address = "/" + address.partition("://")[2].partition("/")[2]
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
        except ValueError:
            raise bad_request("too many query parameters") from None
        method, headers, peer = incoming.method, incoming.headers, incoming.peer_address
        tls = incoming.is_tls
        return cls(context, method, address, dict(pairs), headers, b"", peer, pairs=pairs, is_tls=tls)

    @property
    def segments(self) -> list[str]:
        """The path, cut before it is unquoted: %2F is part of a name."""
        return [unquote(segment) for segment in self.path.strip("/").split("/")]

    @property
    def user(self) -> User:
        assert self.login is not None, "a route without a user asked for one"
        return self.login

    def all(self, name: str) -> list[str]:
        """Every value of a query parameter that may come more than once."""
        return [value for key, value in self.pairs if key == name]

    def flag(self, name: str) -> bool:
        return self.query.get(name) == "true"

    def json(self) -> dict[str, Any]:
        """The body, which must be an object; one that says nothing counts as {}."""
        if not self.body.strip():
            return {}
        value = parsed_json(self.body)
        if value is None or isinstance(value, bool):
            return {}
        if isinstance(value, str):
            raise bad_request(DOUBLY_ENCODED)
        if not isinstance(value, dict):
            raise bad_request("not_json")
        return value


def parsed_json(text: bytes) -> Any:
    try:
        return json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError):
        raise bad_request("not_json") from None


def no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def echoed(value: object) -> object:
    """A wrong value as an error may repeat it: short, and certainly JSON."""
    if isinstance(value, str):
        return value[:ECHO_CHARACTERS_MAX]
    written = json.dumps(value)
    return value if len(written) <= ECHO_CHARACTERS_MAX else written[:ECHO_CHARACTERS_MAX]


Handler = Callable[[Request], Any]  # answers a Response, or an awaitable of one


def require_keys(body: dict[str, Any], *names: str) -> None:
    missing = [f"{{key_missing,{name}}}" for name in names if name not in body]
    if missing:
        raise bad_request(f"[{','.join(missing)}]")


def boolean(body: dict[str, Any], name: str, default: bool = False) -> bool:
    """A flag; rabbitmqadmin sends "true" and "false" as text."""
    value = body.get(name, default)
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        raise bad_request(["not_boolean", echoed(value)])
    return value


def text(body: dict[str, Any], name: str, default: str = "") -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        raise bad_request(f"{name} must be text")
    return value


def routing_key_of(body: dict[str, Any]) -> str:
    """Empty where there is none, or null, which RabbitMQ's API takes as well."""
    return "" if body.get("routing_key") is None else text(body, "routing_key")


def integer(body: dict[str, Any], name: str, minimum: int, maximum: int) -> int:
    value = body[name]
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, float):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_request(["not_integer", echoed(value)])
    if not minimum <= value <= maximum:
        raise bad_request(f"{name} must be {minimum} to {maximum}")
    return value


def table(body: dict[str, Any], name: str) -> dict[str, Any]:
    """Arguments or headers: what a field table can hold."""
    value = body.get(name, {})
    if value == []:  # as RabbitMQ's own tools write an empty table
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"{name} must be an object")
    check_field(name, value, 0)
    return value


def check_field(where: str, value: object, depth: int) -> None:
    if value is None:
        raise bad_request("null_not_allowed")
    if depth > TABLE_DEPTH_MAX:
        raise bad_request(f"{where} is nested too deeply")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise bad_request(f"{where} has a number that does not fit 64 bits")
    if isinstance(value, str) and not is_unicode(value):
        raise bad_request(f"{where} has text that is not valid Unicode")
    if isinstance(value, list):
        for item in value:
            check_field(where, item, depth + 1)
    if isinstance(value, dict):
        for key, item in value.items():
            if not is_unicode(key) or len(key.encode()) > FIELD_NAME_BYTES_MAX:
                raise bad_request(f"{where} has a name that cannot be: {key[:50]!r}")
            check_field(where, item, depth + 1)


def is_unicode(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
