"""Users and permissions: what a user may configure, write and read.

Permissions are RabbitMQ's: three regular expressions per user and virtual host, matched anywhere in the
name (as RabbitMQ does: `^` and `$` are the writer's business); the empty pattern matches nothing. Topic
permissions look at the routing key besides, per topic exchange; a user without one for an exchange is not
looked at.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from embermq.broker.security.password import NO_PASSWORD, Secret, quick_digest
from embermq.broker.security.safe_regex import EXPANDED_CHARACTERS_MAX, Matches, PatternError, compile_pattern
from embermq.errors import AccessRefused

log = logging.getLogger("embermq.broker")

DECISIONS_MAX = 1024  # remembered answers per permission
COMPILED_MAX = 1024  # patterns that are kept: many users have the same
RIGHTS = ("configure", "write", "read")
NO_VARIABLES: Mapping[str, str] = {}


class Permission:
    """What one user may do in one virtual host."""

    def __init__(self, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
        self.patterns = {"configure": configure, "write": write, "read": read}
        self.compiled = {right: compiled(pattern) for right, pattern in self.patterns.items()}
        self.decisions: dict[tuple[str, str], bool] = {}

    def allows(self, right: str, name: str) -> bool:
        decision = self.decisions.get((right, name))
        if decision is None:
            if len(self.decisions) >= DECISIONS_MAX:
                self.decisions.clear()
            decision = bool(self.patterns[right]) and self.compiled[right](name)
            self.decisions[(right, name)] = decision
        return decision


class TopicPermission:
    """The routing keys that one user may publish and bind with, at one topic exchange.

    `{username}`, `{vhost}` and `{client_id}` in a pattern stand for those of the connection. What they
    stand for is taken literally: a user called `.*` gets no more than others.
    """

    def __init__(self, write: str = ".*", read: str = ".*") -> None:
        self.patterns = {"write": write, "read": read}
        self.compiled: dict[tuple[str, ...], Matches] = {}
        self.decisions: dict[tuple[str, ...], bool] = {}

    def allows(self, right: str, routing_key: str, variables: Mapping[str, str]) -> bool:
        expansion = (right, *variables.values())
        decision = self.decisions.get((routing_key, *expansion))
        if decision is None:
            if len(self.decisions) >= DECISIONS_MAX:
                self.decisions.clear()
                self.compiled.clear()
            if expansion not in self.compiled:
                self.compiled[expansion] = usable(expanded(self.patterns[right], variables))
            decision = bool(self.patterns[right]) and self.compiled[expansion](routing_key)
            self.decisions[(routing_key, *expansion)] = decision
        return decision


def usable(pattern: str) -> Matches:
    """A pattern that cannot be used (another version of EmberMQ let it in) allows nothing."""
    try:
        return compile_pattern(pattern, characters_max=EXPANDED_CHARACTERS_MAX)
    except PatternError as error:
        log.error("nothing is allowed by the permission %.200r: %s", pattern, error)
        return lambda name: False


compiled = lru_cache(COMPILED_MAX)(usable)


def expanded(pattern: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        pattern = pattern.replace(f"{{{name}}}", re.escape(value))
    return pattern


@dataclass(eq=False)
class User:
    name: str
    secret: Secret = field(default=NO_PASSWORD, repr=False)
    tags: frozenset[str] = frozenset()
    loopback_only: bool = False
    permissions: dict[str, Permission] = field(default_factory=dict)  # by virtual host
    topic_permissions: dict[str, dict[str, TopicPermission]] = field(default_factory=dict)  # and exchange
    limits: dict[str, int] = field(default_factory=dict)  # max-connections, max-channels
    verified: bytes | None = field(default=None, repr=False)  # quick digest of the password last found right
    verified_until: float = 0.0
    expires_at: float = math.inf  # seconds since 1970; of a token
    connection_count: int = 0
    channel_count: int = 0

    @classmethod
    def with_password(cls, name: str, password: str, **more: object) -> User:
        return cls(name, Secret.of(password.encode()), **more)  # type: ignore[arg-type]

    def recognises(self, password: bytes, now: float) -> bool:
        """Was this password found right a while ago? Quick, and False says nothing."""
        if self.verified is None or now >= self.verified_until:
            return False
        return hmac.compare_digest(quick_digest(password), self.verified)

    @property
    def sees_all_vhosts(self) -> bool:
        return bool(self.tags & {"administrator", "monitoring"})

    def may_enter(self, vhost: str) -> bool:
        return vhost in self.permissions

    def allows(self, right: str, vhost: str, name: str) -> bool:
        permission = self.permissions.get(vhost)
        # RabbitMQ knows the default exchange as amq.default where permissions are concerned.
        return permission is not None and permission.allows(right, name or "amq.default")

    def looks_at_topics(self, vhost: str) -> bool:
        """Has this user topic permissions at all?"""
        return vhost in self.topic_permissions

    def allows_topic(
        self, right: str, vhost: str, exchange: str, routing_key: str, variables: Mapping[str, str]
    ) -> bool:
        permission = self.topic_permissions.get(vhost, {}).get(exchange)
        if permission is None:
            return True
        return permission.allows(right, routing_key, {"username": self.name, "vhost": vhost, **variables})

    def require(self, right: str, vhost: str, kind: str, name: str) -> None:
        """AccessRefused unless this user has the right to the thing of that name."""
        if not self.allows(right, vhost, name):
            raise AccessRefused(
                f"{right} access to {kind} '{name}' in vhost '{vhost}' refused for user '{self.name}'"
            )

    def require_any(self, vhost: str, kind: str, name: str) -> None:
        """AccessRefused for a user that may do nothing at all with it, and so may not know whether it
        exists."""
        if not any(self.allows(right, vhost, name) for right in RIGHTS):
            raise AccessRefused(
                f"access to {kind} '{name}' in vhost '{vhost}' refused for user '{self.name}'"
            )

    def require_topic(
        self,
        right: str,
        vhost: str,
        exchange: str,
        routing_key: str,
        variables: Mapping[str, str] = NO_VARIABLES,
    ) -> None:
        if not self.allows_topic(right, vhost, exchange, routing_key, variables):
            raise AccessRefused(
                f"{right} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{vhost}' "
                f"refused for user '{self.name}'"
            )


def is_loopback(address: str) -> bool:
    """True for addresses of this machine."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback
