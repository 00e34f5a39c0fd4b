"""Predeclaring what the configuration file names: made where it is missing, durable, and left alone where it
exists."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from embermq.broker.broker import Broker
from embermq.broker.queue.template import TEMPLATE
from embermq.broker.security.password import NO_PASSWORD, Secret
from embermq.broker.security.safe_regex import PatternError, compile_pattern
from embermq.broker.security.user import Permission, TopicPermission, User
from embermq.broker.vhost import VirtualHost
from embermq.config import Config, ConfigError
from embermq.config.predeclared import UserSetting
from embermq.config.settings import Default
from embermq.errors import AMQPError


def declare(broker: Broker, config: Config) -> None:
    """All of it, or ConfigError where the file asks for what cannot be: then nothing was declared."""
    settings = {setting.name: setting for setting in reversed(config.users)}  # the first of a name counts
    users = [new_user(setting) for name, setting in settings.items() if name not in broker.users]
    with broker.definitions.together(), ExitStack() as undo:
        declare_vhosts(broker, config, undo)
        declare_users(broker, config, users, undo)
        for part, declare_part in (
            ("exchanges", declare_exchanges),
            ("queues", declare_queues),
            ("bindings", declare_bindings),
        ):
            try:
                declare_part(broker, config, undo)
            except AMQPError as error:
                raise ConfigError(f"[[{part}]]: {error.detail}") from None
        undo.pop_all()  # what is there stays


def vhost_named(broker: Broker, name: str, part: str) -> VirtualHost:
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise ConfigError(f"[[{part}]]: there is no virtual host {name!r}; expected it among [[vhosts]]")
    return vhost


def declare_vhosts(broker: Broker, config: Config, undo: ExitStack) -> None:
    for setting in config.vhosts:
        if setting.name in broker.vhosts:
            continue
        vhost = broker.add_vhost(setting.name)
        undo.callback(broker.delete_vhost, vhost)
        broker.describe_vhost(vhost, setting.description, setting.tags)
        for name, value in (("max-connections", setting.max_connections), ("max-queues", setting.max_queues)):
            if value >= 0:
                vhost.set_limit(name, value)


def new_user(setting: UserSetting) -> User:
    limits = {"max-connections": setting.max_connections, "max-channels": setting.max_channels}
    return User(
        setting.name,
        secret_of(setting),
        frozenset(setting.tags),
        setting.loopback_only,
        limits={name: value for name, value in limits.items() if value >= 0},
    )


def declare_users(broker: Broker, config: Config, users: list[User], undo: ExitStack) -> None:
    for user in users:
        broker.users.add(user)
        undo.callback(broker.users.delete, user)
    for permission in config.permissions:
        user = user_named(broker, permission.user, "permissions")
        vhost = vhost_named(broker, permission.vhost, "permissions")
        if vhost.name not in user.permissions:
            patterns = (permission.configure, permission.write, permission.read)
            require_patterns("permissions", *patterns)
            broker.users.grant(user, vhost.name, Permission(*patterns))
            undo.callback(broker.users.revoke, user, vhost.name)
    for topic in config.topic_permissions:
        user = user_named(broker, topic.user, "topic_permissions")
        vhost = vhost_named(broker, topic.vhost, "topic_permissions")
        if topic.exchange not in user.topic_permissions.get(vhost.name, {}):
            require_patterns("topic_permissions", topic.write, topic.read)
            allowed = TopicPermission(topic.write, topic.read)
            broker.users.grant_topics(user, vhost.name, topic.exchange, allowed)
            undo.callback(broker.users.revoke_topics, user, vhost.name, topic.exchange)


def first_user(first: Default) -> User | None:
    if not first.user:
        return None
    setting = UserSetting(first.user, first.password, first.password_file)
    return User(first.user, secret_of(setting), frozenset({"administrator"}), False)


def declare_first_user(broker: Broker, user: User, vhost_name: str) -> None:
    vhost = broker.vhosts.get(vhost_name) or broker.add_vhost(vhost_name)
    broker.users.add(user)
    broker.users.grant(user, vhost.name, Permission(".*", ".*", ".*"))


def user_named(broker: Broker, name: str, part: str) -> User:
    user = broker.users.get(name)
    if user is None:
        raise ConfigError(f"[[{part}]]: there is no user {name!r}; expected it among [[users]]")
    return user


def require_patterns(part: str, *patterns: str) -> None:
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except PatternError as error:
            raise ConfigError(f"[[{part}]]: {pattern!r} is no good pattern: {error}") from None


def secret_of(setting: UserSetting) -> Secret:
    if setting.password_hash:
        try:
            return Secret.from_hash(setting.password_hash, setting.hashing_algorithm)
        except ValueError as error:
            raise ConfigError(f"[[users]]: the hash of user {setting.name!r}: {error}") from None
    password = setting.password
    if setting.password_file:
        try:
            password = Path(setting.password_file).read_text().split("\n")[0]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"[[users]]: the password of user {setting.name!r}: {error}") from None
    return Secret.of(password.encode()) if password else NO_PASSWORD


def declare_exchanges(broker: Broker, config: Config, undo: ExitStack) -> None:
    for setting in config.exchanges:
        vhost = vhost_named(broker, setting.vhost, "exchanges")
        if setting.name not in vhost.exchanges:
            exchange = vhost.declare_exchange(
                setting.name,
                setting.type,
                durable=True,
                auto_delete=setting.auto_delete,
                internal=setting.internal,
                arguments=dict(setting.arguments),
            )
            undo.callback(vhost.delete_exchange, exchange)


def declare_queues(broker: Broker, config: Config, undo: ExitStack) -> None:
    for setting in config.queues:
        vhost = vhost_named(broker, setting.vhost, "queues")
        if setting.name not in vhost.queues:
            queue = vhost.declare_queue(
                setting.name,
                owner=None,
                durable=True,
                exclusive=False,
                auto_delete=setting.auto_delete,
                arguments={**({TEMPLATE: setting.template} if setting.template else {}), **setting.arguments},
            )
            undo.callback(vhost.delete_queue, queue)


def declare_bindings(broker: Broker, config: Config, undo: ExitStack) -> None:
    for setting in config.bindings:
        vhost = vhost_named(broker, setting.vhost, "bindings")
        source = vhost.exchange(setting.source)
        is_queue = setting.destination_type == "queue"
        destination = vhost.queue(setting.destination) if is_queue else vhost.exchange(setting.destination)
        count = len(source.bindings)
        vhost.bind(source, destination, setting.routing_key, dict(setting.arguments))
        if len(source.bindings) > count:
            undo.callback(vhost.remove_binding, next(reversed(source.bindings.values())))
