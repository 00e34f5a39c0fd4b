"""The users of a broker, with their permissions and limits, and their definitions on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from embermq.broker.definitions import DefinitionStore, permission_from, user_body, user_from
from embermq.broker.events import (
    Events,
    limits_set,
    name_only,
    permission_created,
    permission_deleted,
    topic_permission_created,
    topic_permission_deleted,
    user_tags,
)
from embermq.broker.limits import changed_limits
from embermq.broker.security.user import Permission, TopicPermission, User
from embermq.store.definitions import Definitions

log = logging.getLogger("embermq.broker")

DEFAULT_VHOST = "/"


class UserStore(Mapping[str, User]):
    """The users of a broker by their names."""

    def __init__(
        self, definitions: DefinitionStore, events: Events, forget_routes: Callable[[str], None]
    ) -> None:
        self.definitions = definitions
        self.events = events
        self.forget_routes = forget_routes  # of a virtual host: routes that publishers were allowed
        self.by_name: dict[str, User] = {}

    def __getitem__(self, name: str) -> User:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    # -- users

    def store(self, user: User) -> None:
        self.definitions.put("user", "", user.name, user_body(user))

    def add(self, user: User) -> None:
        self.by_name[user.name] = user
        self.store(user)
        self.events.emit("user.created", name_only, user.name)
        self.events.emit("user.tags.set", user_tags, user.name, user.tags)

    def update(self, user: User, new: User) -> None:
        """Another password and other tags, for the same user: sessions under way keep their user."""
        # A hash that comes back (with definitions, or beside other tags) is no reason to forget SCRAM's keys.
        password_changed = new.secret not in (user.secret, replace(user.secret, scram=None))
        if password_changed:
            user.secret, user.verified = new.secret, None
        user.tags = new.tags
        self.store(user)
        if password_changed:
            self.events.emit("user.password.changed", name_only, user.name)
        self.events.emit("user.tags.set", user_tags, user.name, user.tags)

    def delete(self, user: User) -> None:
        for vhost in {*user.permissions, *user.topic_permissions}:
            self.revoke(user, vhost)
            self.revoke_topics(user, vhost)
        del self.by_name[user.name]
        self.definitions.delete("user", "", user.name)
        self.events.emit("user.deleted", name_only, user.name)

    def limit(self, user: User, name: str, value: int | None) -> None:
        """Set a limit, or with None do without it."""
        user.limits = changed_limits(user.limits, name, value)
        self.store(user)
        self.events.emit("user.limits.set", limits_set, user.name, user.limits)

    # -- permissions

    def grant(self, user: User, vhost: str, permission: Permission) -> None:
        user.permissions[vhost] = permission
        self.definitions.put("permission", vhost, user.name, permission.patterns)
        self.forget_routes(vhost)
        self.events.emit("permission.created", permission_created, user.name, vhost, permission)

    def revoke(self, user: User, vhost: str) -> None:
        if user.permissions.pop(vhost, None) is not None:
            self.definitions.delete("permission", vhost, user.name)
            self.forget_routes(vhost)
            self.events.emit("permission.deleted", permission_deleted, user.name, vhost)

    def grant_topics(self, user: User, vhost: str, exchange: str, permission: TopicPermission) -> None:
        user.topic_permissions.setdefault(vhost, {})[exchange] = permission
        self.store_topics(user, vhost)
        self.events.emit(
            "topic.permission.created", topic_permission_created, user.name, vhost, exchange, permission
        )

    def revoke_topics(self, user: User, vhost: str, exchange: str | None = None) -> None:
        """For one exchange, or for all."""
        known = user.topic_permissions.get(vhost)
        if known is None:
            return
        for name in [exchange] if exchange is not None else list(known):
            if known.pop(name, None) is not None:
                self.events.emit("topic.permission.deleted", topic_permission_deleted, user.name, vhost, name)
        if not known:
            del user.topic_permissions[vhost]
        self.store_topics(user, vhost)

    def store_topics(self, user: User, vhost: str) -> None:
        known = user.topic_permissions.get(vhost)
        if known:
            body = {exchange: permission.patterns for exchange, permission in known.items()}
            self.definitions.put("topic_permission", vhost, user.name, body)
        else:
            self.definitions.delete("topic_permission", vhost, user.name)
        self.forget_routes(vhost)

    def create_guest(self) -> None:
        """The user of a first start, for this machine only."""
        guest = User.with_password("guest", "guest", tags=frozenset({"administrator"}), loopback_only=True)
        self.add(guest)
        self.grant(guest, DEFAULT_VHOST, Permission())

    def restore(self, stored: Definitions) -> None:
        for definition in stored.all("user"):
            self.by_name[definition.name] = user_from(definition.name, definition.body)
        for definition in stored.all("permission"):
            user = self.restored_user(definition.name)
            if user is not None:
                user.permissions[definition.vhost] = permission_from(definition.body)
        for definition in stored.all("topic_permission"):
            user = self.restored_user(definition.name)
            if user is not None:
                user.topic_permissions[definition.vhost] = {
                    exchange: TopicPermission(**patterns) for exchange, patterns in definition.body.items()
                }

    def restored_user(self, name: str) -> User | None:
        user = self.by_name.get(name)
        if user is None:
            log.error("permissions of a user that does not exist are passed over: %r", name)
        return user
