"""AMQP URLs and the settings of a connection, with the query parameters that pika knows.

    amqp://user:password@host:port/vhost?heartbeat=30&connection_attempts=3
    amqps://user:password@first:5671,second:5671/vhost        several hosts, tried in turn

`Settings` holds everything that a URL or a keyword can say; a keyword beats the URL.
"""

from __future__ import annotations

import ssl
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict
from urllib.parse import parse_qsl, unquote, urlsplit

from embermq.client.core.login import MECHANISMS
from embermq.client.errors import BadAddress

PORT_PLAIN, PORT_TLS = 5672, 5671


@dataclass(frozen=True)
class Endpoint:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Settings:
    """All options of a connection; times are in seconds."""

    endpoints: tuple[Endpoint, ...] = (Endpoint("localhost", PORT_PLAIN),)
    virtual_host: str = "/"
    username: str = field(default="guest", repr=False)
    password: str = field(default="guest", repr=False)
    # Or SCRAM-SHA-256: the password is proven, not sent; EXTERNAL: the client's certificate names the user;
    # ANONYMOUS.
    mechanism: str = "PLAIN"
    tls: ssl.SSLContext | None = None  # amqps makes one that checks the broker's certificate
    server_hostname: str | None = None  # the name in the certificate, when it is not the host
    heartbeat_s: int | None = None  # None: what the broker proposes; 0: none
    channel_max: int = 0  # 0: what the broker allows
    frame_max: int = 131072
    locale: str = "en_US"
    name: str = ""  # shown by the broker's management pages
    client_properties: Mapping[str, object] = field(default_factory=dict)
    connect_timeout_s: float = 10.0  # for one host: TCP, TLS and the AMQP handshake
    connection_attempts: int = 1  # rounds through all hosts before `connect` gives up
    retry_delay_s: float = 2.0  # between those rounds
    blocked_timeout_s: float | None = None  # close when the broker has blocked us for so long
    call_timeout_s: float | None = 60.0  # for an answer, a reconnection included; None: wait for ever
    strict_acks: bool = False  # settling a message twice or too late raises instead of doing nothing
    reconnect: bool = True
    reconnect_delay_s: float = 0.2  # doubled with each failure, and varied at random
    reconnect_delay_max_s: float = 30.0
    reconnect_attempts: int = 0  # rounds through all hosts; 0: no limit


class ConnectOptions(TypedDict, total=False):
    """The options of `connect`, so that type checkers know them; `Settings` says what they mean."""

    virtual_host: str
    username: str
    password: str
    mechanism: str
    tls: ssl.SSLContext | None
    server_hostname: str | None
    heartbeat_s: int | None
    channel_max: int
    frame_max: int
    locale: str
    name: str
    client_properties: Mapping[str, object]
    connect_timeout_s: float
    connection_attempts: int
    retry_delay_s: float
    blocked_timeout_s: float | None
    call_timeout_s: float | None
    strict_acks: bool
    reconnect: bool
    reconnect_delay_s: float
    reconnect_delay_max_s: float
    reconnect_attempts: int


def settings_of(url: str | Sequence[str] = "", **options: Any) -> Settings:
    """Settings from a URL, or from several that differ in host and port only, and keywords."""
    urls = [url] if isinstance(url, str) else list(url)
    if not urls:
        raise BadAddress("no URL given: at least one is needed, such as amqp://localhost")
    settings = parse_url(urls[0]) if urls[0] else Settings()
    endpoints = [endpoint for text in urls if text for endpoint in parse_url(text).endpoints]
    if endpoints:
        settings = replace(settings, endpoints=tuple(endpoints))
    known = {field.name for field in fields(Settings)}
    for option in options:
        if option not in known:
            raise BadAddress(f"unknown option '{option}', there are: {', '.join(sorted(known))}")
    settings = replace(settings, **options)
    check_kinds(settings)
    if settings.mechanism not in MECHANISMS:
        raise BadAddress(f"unknown mechanism '{settings.mechanism}', there are: {', '.join(MECHANISMS)}")
    if settings.name:
        named = {"connection_name": settings.name} | dict(settings.client_properties)
        settings = replace(settings, client_properties=named)
    return settings


def check_kinds(settings: Settings) -> None:
    """An option of the wrong kind is said here, and not by whatever stumbles over it later."""
    for option, (kinds, what) in KINDS.items():
        value = getattr(settings, option)
        if not isinstance(value, kinds) or isinstance(value, bool) and bool not in kinds:
            raise BadAddress(f"the option {option} must be {what}, not {value!r}")
        if isinstance(value, (int, float)) and (value < 0 or option in SHORT and value > SHORT_MAX):
            most = f" to {SHORT_MAX}" if option in SHORT else " on"
            raise BadAddress(f"the option {option} must be a number from 0{most}, not {value!r}")


def parse_url(url: str) -> Settings:
    try:
        return _parse_url(url)
    except BadAddress:
        raise
    except ValueError as error:
        raise BadAddress(f"the URL {without_password(url)} cannot be understood: {error}") from None


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    login, at, place = rest.rpartition("@")
    return f"{scheme}{mark}{login.partition(':')[0]}{at}{place}" if at else url


def _parse_url(url: str) -> Settings:
    scheme, _, rest = url.partition("://")
    authority, rest = _cut(rest)  # several hosts, which `urlsplit` does not know
    parts = urlsplit(f"//{rest}")
    if scheme.lower() not in ("amqp", "amqps"):
        raise BadAddress(
            f"the URL {without_password(url)} must begin with amqp:// or amqps://, "
            "such as amqp://guest:guest@localhost:5672/%2F"
        )
    secure = scheme.lower() == "amqps"
    login, _, places = authority.rpartition("@")
    user, colon, password = login.partition(":")
    default_port = PORT_TLS if secure else PORT_PLAIN
    changes: dict[str, Any] = {
        "endpoints": tuple(_endpoint(place, default_port) for place in places.split(",")),
    }
    if login:
        changes["username"] = unquote(user)
        changes["password"] = unquote(password) if colon else ""
    # As pika and RabbitMQ have it: no path is the default virtual host, "/name" is "name", "/%2F" is "/".
    if len(parts.path) > 1:
        changes["virtual_host"] = unquote(parts.path[1:])
    settings = replace(Settings(), **changes)
    tls: dict[str, Any] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True):
        if name in TLS_PARAMETERS:
            tls[name] = value
        elif name in PARAMETERS:
            field_name, convert = PARAMETERS[name]
            settings = replace(settings, **{field_name: convert(value)})
        elif name not in IGNORED_PARAMETERS:
            known = sorted([*PARAMETERS, *TLS_PARAMETERS])
            raise BadAddress(f"unknown parameter '{name}' in the URL, there are: {', '.join(known)}")
    return replace(settings, **_tls_changes(tls)) if secure else settings


def _cut(rest: str) -> tuple[str, str]:
    """What stands before the path, the query or the fragment, and these."""
    end = min(at for mark in "/?#" if (at := (rest + mark).find(mark)) >= 0)
    return rest[:end], rest[end:]


def _endpoint(place: str, default_port: int) -> Endpoint:
    split = urlsplit(f"//{place}")
    return Endpoint(split.hostname or "localhost", split.port or default_port)


def _tls_changes(parameters: dict[str, str]) -> dict[str, Any]:
    """pika's `ssl_options` (a dict), or the names that RabbitMQ's URI specification gives to the parts."""
    options: dict[str, Any] = dict(literal_eval(parameters.pop("ssl_options", "{}")))
    options |= parameters
    authorities = options.get("cacertfile") or options.get("ca_certs")
    context = ssl.create_default_context(cafile=authorities)
    certificate = options.get("certfile")
    if certificate:
        key = options.get("keyfile")
        context.load_cert_chain(certificate, key, options.get("password") or options.get("keyfile_password"))
    if options.get("verify") == "verify_none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return {
        "tls": context,
        "server_hostname": options.get("server_name_indication") or options.get("server_hostname"),
    }


def _boolean(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _mapping(text: str) -> dict[str, object]:
    value = literal_eval(text)
    if not isinstance(value, dict):
        raise ValueError(f"{text!r} is no dict")
    return value


PARAMETERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "heartbeat": ("heartbeat_s", int),
    "channel_max": ("channel_max", int),
    "frame_max": ("frame_max", int),
    "locale": ("locale", str),
    "client_properties": ("client_properties", _mapping),
    "connection_attempts": ("connection_attempts", int),
    "retry_delay": ("retry_delay_s", float),
    "socket_timeout": ("connect_timeout_s", float),
    "stack_timeout": ("connect_timeout_s", float),
    "connection_timeout": ("connect_timeout_s", lambda text: int(text) / 1000),  # RabbitMQ's: milliseconds
    "blocked_connection_timeout": ("blocked_timeout_s", float),
    "auth_mechanism": ("mechanism", str.upper),
    "name": ("name", str),
    "call_timeout": ("call_timeout_s", float),
    "strict_acks": ("strict_acks", _boolean),
    "reconnect": ("reconnect", _boolean),
    "reconnect_delay": ("reconnect_delay_s", float),
    "reconnect_delay_max": ("reconnect_delay_max_s", float),
    "reconnect_attempts": ("reconnect_attempts", int),
}
TLS_PARAMETERS = (
    "ssl_options",
    "cacertfile",
    "certfile",
    "keyfile",
    "password",
    "server_name_indication",
    "verify",
)
IGNORED_PARAMETERS = ("backpressure_detection", "tcp_options")

SHORT, SHORT_MAX = ("heartbeat_s", "channel_max"), 0xFFFF  # two bytes on the wire
WHOLE, SECONDS, TEXT, NONE = (int,), (int, float), (str,), (type(None),)
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "heartbeat_s": (WHOLE + NONE, "a whole number of seconds, or None"),
    "channel_max": (WHOLE, "a whole number"),
    "frame_max": (WHOLE, "a whole number"),
    "connection_attempts": (WHOLE, "a whole number"),
    "reconnect_attempts": (WHOLE, "a whole number"),
    "connect_timeout_s": (SECONDS, "a number of seconds"),
    "retry_delay_s": (SECONDS, "a number of seconds"),
    "reconnect_delay_s": (SECONDS, "a number of seconds"),
    "reconnect_delay_max_s": (SECONDS, "a number of seconds"),
    "blocked_timeout_s": (SECONDS + NONE, "a number of seconds, or None"),
    "call_timeout_s": (SECONDS + NONE, "a number of seconds, or None"),
    "strict_acks": ((bool,), "True or False"),
    "reconnect": ((bool,), "True or False"),
    "username": (TEXT, "text"),
    "password": (TEXT, "text"),
    "virtual_host": (TEXT, "text"),
    "mechanism": (TEXT, "text"),
    "locale": (TEXT, "text"),
    "name": (TEXT, "text"),
    "server_hostname": (TEXT + NONE, "text, or None"),
    "client_properties": ((Mapping,), "a dict"),
    "tls": ((ssl.SSLContext, *NONE), "an ssl.SSLContext, or None"),
}
