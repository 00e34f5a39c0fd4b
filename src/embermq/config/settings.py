"""The settings, each with its default, its bounds and its meaning in a sentence.

A new one is one line here and one in docs/configuration.md (a test compares them). `live=True` marks what a
reload applies; code that keeps a copy must read it anew then (see app.reload).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from embermq.config.predeclared import (
    BindingSetting,
    ExchangeSetting,
    PermissionSetting,
    QueueSetting,
    TopicPermissionSetting,
    UserSetting,
    VhostSetting,
)
from embermq.config.rule import Checked, ConfigError, settings_in, url_problem
from embermq.config.rule import setting as setting

PORT_MAX = 65535
FRAME_MAX_MIN, FRAME_MAX_MAX = 4096, 131072
BODY_BYTES_MAX = 512 * 1024 * 1024
SYNC_MODES = ("always", "os")
LOG_LEVELS = ("debug", "info", "warning", "error")
MECHANISMS = ("PLAIN", "AMQPLAIN", "EXTERNAL", "SCRAM-SHA-256", "ANONYMOUS")
DAY_S = 86400


@dataclass(frozen=True)
class TLS(Checked):
    certificate: str = setting(
        "", "The server's certificate with its chain (PEM); TLS is on where one is given, and a restart "
        "turns it on or off.", live=True,
    )  # fmt: skip
    key: str = setting("", "The certificate's private key (PEM); by default in the same file.", live=True)
    key_password: str = setting("", "What the key is encrypted with.", secret=True, live=True)
    authorities: str = setting(
        "", "Certificates of those whose client certificates are believed (PEM).", live=True
    )
    client_certificates: str = setting(
        "none",
        "Whether clients of AMQP must show a certificate: `none`, `optional` or `required`.",
        choices=("none", "optional", "required"),
        live=True,
    )
    amqp_port: int = setting(5671, "Port for AMQP over TLS.", minimum=0, maximum=PORT_MAX)
    http_port: int = setting(15671, "Port for management over TLS.", minimum=0, maximum=PORT_MAX)
    only: bool = setting(False, "Listen with TLS only: the ports without it stay closed.")
    version: str = setting("1.2", "The oldest version of TLS.", choices=("1.2", "1.3"), live=True)
    ciphers: str = setting("", "Ciphers of TLS 1.2 as OpenSSL names them; empty: sound ones.", live=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.certificate and (self.only or self.key):
            raise ConfigError("tls.certificate is missing; expected a file, because TLS is asked for")
        if self.client_certificates != "none" and not self.authorities:
            raise ConfigError(
                "tls.authorities is missing; expected a file, to check client certificates with"
            )


@dataclass(frozen=True)
class Limits(Checked):
    connections: int = setting(
        0, "AMQP connections of all clients together; 0: no limit.", minimum=0, live=True
    )
    handshake_s: float = setting(
        10.0, "Seconds in which a client must have logged in.", minimum=0.1, maximum=600, live=True
    )
    unauthenticated: int = setting(
        1000, "Connections that may be at TLS or logging in at a time (at most a quarter of the files that "
        "the process may open); more stand in line.",
        minimum=1, maximum=10**6, live=True,
    )  # fmt: skip
    unauthenticated_per_address: int = setting(
        300, "The same for each address (IPv6: each network of 64 bits), and never more than are left for "
        "others.",
        minimum=1, maximum=10**6, live=True,
    )  # fmt: skip
    unauthenticated_waiting: int = setting(
        20_000, "Connections that may stand in line for that (at most a quarter of the files that the "
        "process may open); an address has at most half of it.", minimum=0, maximum=10**6, live=True,
    )  # fmt: skip
    tcp_keepalive_s: int = setting(
        60,
        "Seconds of silence after which the system asks whether a peer is alive; 0: never.",
        minimum=0,
        maximum=DAY_S,
    )
    tcp_user_timeout_s: int = setting(
        30, "Seconds in which a peer must take something of what it is sent, or its connection ends; "
        "0: as long as the system waits.",
        minimum=0, maximum=DAY_S,
    )  # fmt: skip


@dataclass(frozen=True)
class Auth(Checked):
    mechanisms: tuple[str, ...] = setting(
        ("PLAIN", "AMQPLAIN", "EXTERNAL", "SCRAM-SHA-256"),
        "What clients are offered; `EXTERNAL` only where their certificate names a user.",
        choices=MECHANISMS,
        live=True,
    )
    anonymous_user: str = setting(
        "", "The user that a client without a name is, where `ANONYMOUS` is among the mechanisms.", live=True
    )
    certificate_name: str = setting(
        "common_name",
        "What of a client certificate is the user's name for `EXTERNAL`.",
        choices=("common_name", "distinguished_name", "dns", "email", "uri"),
        live=True,
    )
    refusal_pause_s: float = setting(
        1.0, "Seconds before an error during the handshake is answered.", minimum=0.0, maximum=60.0, live=True
    )
    failures_free: int = setting(
        20,
        "Failed logins of an address that are not slowed down further.",
        minimum=1,
        maximum=10_000,
        live=True,
    )
    cache_s: int = setting(
        600, "Seconds for which a password that was right need not be hashed again; 0: always hash.",
        minimum=0, maximum=DAY_S, live=True,
    )  # fmt: skip


@dataclass(frozen=True)
class OAuth(Checked):
    keys: tuple[str, ...] = setting(
        (), "Files with the keys that tokens are signed with: PEM, or JWKS (.json).", live=True
    )
    jwks_url: str = setting(
        "", "Where the issuer of tokens publishes their keys (JWKS): https, or http on this machine.",
        live=True,
    )  # fmt: skip
    jwks_authorities: str = setting(
        "", "Certificates to believe at `jwks_url` (PEM); empty: those that the system believes.", live=True
    )
    jwks_refresh_s: int = setting(
        3600, "Seconds after which the published keys are fetched anew.", minimum=1, maximum=DAY_S, live=True
    )
    jwks_interval_s: int = setting(
        30, "Seconds between two fetches at least, also where a token names a key that is not known.",
        minimum=1, maximum=DAY_S, live=True,
    )  # fmt: skip
    jwks_timeout_s: float = setting(
        5.0, "Seconds that a fetch may take in all; a login waits for it, but not longer than "
        "`limits.handshake_s`.", minimum=0.1, maximum=60, live=True,
    )  # fmt: skip
    audience: str = setting("", "What a token's `aud` must name; also the prefix of its scopes.", live=True)
    issuer: str = setting("", "What a token's `iss` must be; empty: any.", live=True)
    algorithms: tuple[str, ...] = setting(
        ("RS256", "ES256"),
        "Signatures that are believed.",
        choices=("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"),
        live=True,
    )
    scope_prefix: str = setting("", "Prefix of scopes; empty: the audience and a dot.", live=True)
    username_claims: tuple[str, ...] = setting(
        ("sub", "client_id"), "Claims that hold the user's name; the first that is there counts.", live=True
    )
    leeway_s: int = setting(5, "Seconds that clocks may differ.", minimum=0, maximum=300, live=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        problem = url_problem(self.jwks_url) if self.jwks_url else ""
        if problem:
            raise ConfigError(f"oauth.jwks_url is {self.jwks_url!r}; {problem}")
        if (self.keys or self.jwks_url) and not self.audience:
            raise ConfigError("oauth.audience is missing; expected the name of this broker in tokens")


@dataclass(frozen=True)
class Proxy(Checked):
    trusted: tuple[str, ...] = setting(
        (), "Addresses or networks of proxies: their connections begin with the PROXY protocol (v1 or v2).",
        live=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        from ipaddress import ip_network

        for network in self.trusted:
            try:
                ip_network(network, strict=False)
            except ValueError:
                raise ConfigError(f"proxy.trusted is {network!r}; expected an address or a network") from None


@dataclass(frozen=True)
class Log(Checked):
    format: str = setting(
        "auto",
        "`text`, `json`, or `auto`: text on a terminal, JSON otherwise.",
        choices=("auto", "text", "json"),
    )
    file: str = setting("", "Where the log goes; empty: standard error. SIGHUP opens it anew.", live=True)
    audit_file: str = setting(
        "", "Where the audit log goes, as JSON; empty: with the rest, as logger `embermq.audit`.", live=True
    )


@dataclass(frozen=True)
class Default(Checked):
    """The user that may log in to a broker that has no data yet."""

    user: str = setting("", "The first user, an administrator; empty: `guest`, from this machine only.")
    password: str = setting("", "Its password; better in a file.", secret=True)
    password_file: str = setting("", "A file whose first line is the password.")
    vhost: str = setting("/", "The virtual host in which it has all rights.")

    def require_whole(self) -> None:
        """Name and password may come from two places, so this is asked when both have spoken."""
        if bool(self.user) != (bool(self.password) != bool(self.password_file)):
            raise ConfigError("expected default.user with one of default.password and default.password_file")


@dataclass(frozen=True)
class Plugins(Checked):
    modules: tuple[str, ...] = setting((), "Python modules with exchange types and services of your own.")
    disabled: tuple[str, ...] = setting((), "Exchange types of plug-ins that refuse all messages.", live=True)


@dataclass(frozen=True)
class Config(Checked):
    bind: str = setting(
        "127.0.0.1",
        "Address to listen on. `0.0.0.0`: all of IPv4; `::`: all of IPv6 and IPv4. It may not be empty.",
        required=True,
    )
    amqp_port: int = setting(
        5672, "Port for AMQP; 0 picks a free one, which the ready line names.", minimum=0, maximum=PORT_MAX
    )
    http_port: int = setting(
        15672,
        "Port for the HTTP API, metrics and the start page; 0 picks a free one.",
        minimum=0,
        maximum=PORT_MAX,
    )
    data_dir: Path = setting(Path("data"), "Where the broker keeps its data.")
    frame_max: int = setting(
        FRAME_MAX_MAX,
        "Largest frame in bytes that is offered to clients.",
        minimum=FRAME_MAX_MIN,
        maximum=FRAME_MAX_MAX,
    )
    channel_max: int = setting(
        2047, "Channels per connection that are offered to clients.", minimum=1, maximum=65535
    )
    heartbeat: int = setting(
        60,
        "Heartbeat interval in seconds that is suggested to clients; 0: none.",
        minimum=0,
        maximum=65535,
        live=True,
    )
    max_message_size: int = setting(
        128 * 1024 * 1024, "Largest message body in bytes.", minimum=1, maximum=BODY_BYTES_MAX
    )
    sync: str = setting(
        "always",
        "What a confirm promises: `always` on disk, `os` with the operating system.",
        choices=SYNC_MODES,
    )
    memory_high_watermark: float = setting(
        0.4,
        "Share of the machine's memory beyond which publishers wait.",
        minimum=0.001,
        maximum=1.0,
        live=True,
    )
    disk_free_limit: int = setting(
        0, "Bytes that must stay free on the disk, or publishers wait; 0 lets the broker choose.",
        minimum=0, maximum=2**63, live=True,
    )  # fmt: skip
    default_delivery_limit: int = setting(
        20, "How often a message may come back to a quorum queue, or to a durable one with dead letters, "
        "that has no limit of its own; 0 or less: for ever.", minimum=-1, maximum=2**31 - 1,
    )  # fmt: skip
    consumer_timeout: int = setting(
        1_800_000, "Milliseconds in which a delivery must be acknowledged, or its channel is closed; 0: any.",
        minimum=0, maximum=2**53, live=True,
    )  # fmt: skip
    log_level: str = setting("info", "How much is logged.", choices=LOG_LEVELS, live=True)

    tls: TLS = TLS()
    limits: Limits = Limits()
    auth: Auth = Auth()
    oauth: OAuth = OAuth()
    proxy: Proxy = Proxy()
    log: Log = Log()
    default: Default = Default()
    plugins: Plugins = Plugins()

    vhosts: tuple[VhostSetting, ...] = ()
    users: tuple[UserSetting, ...] = ()
    permissions: tuple[PermissionSetting, ...] = ()
    topic_permissions: tuple[TopicPermissionSetting, ...] = ()
    exchanges: tuple[ExchangeSetting, ...] = ()
    queues: tuple[QueueSetting, ...] = ()
    bindings: tuple[BindingSetting, ...] = ()
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)  # by name, arguments for queues


# The settings that stand at the top of the file; and the sections, which are tables of settings.
NAMES = tuple(settings_in(Config))
SECTIONS: dict[str, type] = {
    field.name: type(field.default) for field in fields(Config) if isinstance(field.default, Checked)
}
# Tables of which there may be many: what the broker declares at start, where it is missing.
TABLES: dict[str, type] = {
    "vhosts": VhostSetting,
    "users": UserSetting,
    "permissions": PermissionSetting,
    "topic_permissions": TopicPermissionSetting,
    "exchanges": ExchangeSetting,
    "queues": QueueSetting,
    "bindings": BindingSetting,
}
