"""Predeclared queues, exchanges and users of the configuration file: made at start where they are missing,
and durable.

What exists already stays as it is, as in RabbitMQ: the file says what must be there, not what must not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from embermq.config.rule import Checked, ConfigError, setting

DEFAULT_VHOST = "/"
LIMIT_MAX = 2**31 - 1


@dataclass(frozen=True)
class VhostSetting(Checked):
    name: str = setting("", "Its name.", required=True)
    description: str = setting("", "What it is for.")
    tags: tuple[str, ...] = setting((), "For people.")
    max_connections: int = setting(-1, "Connections at most; -1: no limit.", minimum=-1, maximum=LIMIT_MAX)
    max_queues: int = setting(-1, "Queues at most; -1: no limit.", minimum=-1, maximum=LIMIT_MAX)


@dataclass(frozen=True)
class UserSetting(Checked):
    name: str = setting("", "The name to log in with.", required=True)
    password: str = setting("", "The password; better in a file.", secret=True)
    password_file: str = setting("", "A file whose first line is the password.")
    password_hash: str = setting("", "A hash as `GET /api/users` shows it.", secret=True)
    hashing_algorithm: str = setting("", "The algorithm of that hash; empty: RabbitMQ's SHA-256.")
    tags: tuple[str, ...] = setting((), "administrator, monitoring, policymaker, management.")
    loopback_only: bool = setting(False, "May log in from the broker's machine only.")
    max_connections: int = setting(-1, "Connections at most; -1: no limit.", minimum=-1, maximum=LIMIT_MAX)
    max_channels: int = setting(-1, "Channels at most; -1: no limit.", minimum=-1, maximum=LIMIT_MAX)

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(map(bool, (self.password, self.password_file, self.password_hash))) > 1:
            raise ConfigError(
                f"user {self.name!r} has more than one of password, password_file, password_hash"
            )


@dataclass(frozen=True)
class PermissionSetting(Checked):
    user: str = setting("", "Whose.", required=True)
    vhost: str = setting(DEFAULT_VHOST, "Where.")
    configure: str = setting(".*", "Names that may be declared and deleted (a regular expression).")
    write: str = setting(".*", "Names that may be written to.")
    read: str = setting(".*", "Names that may be read from.")


@dataclass(frozen=True)
class TopicPermissionSetting(Checked):
    user: str = setting("", "Whose.", required=True)
    vhost: str = setting(DEFAULT_VHOST, "Where.")
    exchange: str = setting("", "The topic exchange.", required=True)
    write: str = setting(".*", "Routing keys that may be published with.")
    read: str = setting(".*", "Routing keys that may be bound with.")


@dataclass(frozen=True)
class ExchangeSetting(Checked):
    name: str = setting("", "Its name.", required=True)
    vhost: str = setting(DEFAULT_VHOST, "Where.")
    type: str = setting("direct", "direct, fanout, topic, headers or another that the broker has.")
    auto_delete: bool = setting(False, "Goes with its last binding.")
    internal: bool = setting(False, "Takes messages from other exchanges only.")
    arguments: dict[str, Any] = setting({}, "Arguments of the declaration.")


@dataclass(frozen=True)
class QueueSetting(Checked):
    name: str = setting("", "Its name.", required=True)
    vhost: str = setting(DEFAULT_VHOST, "Where.")
    template: str = setting("", "One of [templates]: arguments that this queue has too.")
    auto_delete: bool = setting(False, "Goes with its last consumer.")
    arguments: dict[str, Any] = setting({}, "Arguments of the declaration.")


@dataclass(frozen=True)
class BindingSetting(Checked):
    source: str = setting("", "The exchange that messages come from.", required=True)
    destination: str = setting("", "The queue or exchange that they go to.", required=True)
    destination_type: str = setting("queue", "`queue` or `exchange`.", choices=("queue", "exchange"))
    vhost: str = setting(DEFAULT_VHOST, "Where.")
    routing_key: str = setting("", "The binding's key.")
    arguments: dict[str, Any] = setting({}, "Arguments of the binding.")
