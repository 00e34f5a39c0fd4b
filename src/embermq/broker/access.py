"""Users, passwords and permissions: who may configure, write and read what.

Permissions are RabbitMQ's: three regular expressions per user and virtual host, matched anywhere in the name
(as RabbitMQ does: `^` and `$` are the writer's business); the empty pattern matches nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from embermq.errors import AccessRefused

SALT_BYTES = 16
SCRYPT_COST = {"n": 2**12, "r": 8, "p": 1}
PROCESS_KEY = os.urandom(32)  # keys the quick digests; they mean nothing outside this process
DECISIONS_MAX = 1024  # remembered answers per permission


SCRYPT = "embermq_scrypt"
# Those of RabbitMQ (with its names and its salt of four bytes) are for users that come with definitions.
RABBITMQ_SALT_BYTES = 4
HASHES: dict[str, Callable[[bytes, bytes], bytes]] = {
    SCRYPT: lambda password, salt: hashlib.scrypt(password, salt=salt, **SCRYPT_COST),
    "rabbit_password_hashing_sha256": lambda password, salt: hashlib.sha256(salt + password).digest(),
    "rabbit_password_hashing_sha512": lambda password, salt: hashlib.sha512(salt + password).digest(),
}


def hash_password(password: bytes, salt: bytes, algorithm: str = SCRYPT) -> bytes:
    return HASHES[algorithm](password, salt)


class Permission:
    """What one user may do in one virtual host."""

    def __init__(self, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
        self.patterns = {"configure": configure, "write": write, "read": read}
        self.compiled = {right: re.compile(pattern) for right, pattern in self.patterns.items()}
        self.decisions: dict[tuple[str, str], bool] = {}

    def allows(self, right: str, name: str) -> bool:
        decision = self.decisions.get((right, name))
        if decision is None:
            if len(self.decisions) >= DECISIONS_MAX:
                self.decisions.clear()
            decision = bool(self.patterns[right]) and self.compiled[right].search(name) is not None
            self.decisions[(right, name)] = decision
        return decision


def quick_digest(password: bytes) -> bytes:
    return hmac.digest(PROCESS_KEY, password, "sha256")


@dataclass(eq=False)
class User:
    name: str
    salt: bytes
    password_hash: bytes = field(repr=False)
    tags: frozenset[str] = frozenset()
    loopback_only: bool = False
    algorithm: str = SCRYPT
    permissions: dict[str, Permission] = field(default_factory=dict)
    verified: bytes | None = field(default=None, repr=False)  # quick digest of the password last found right

    @classmethod
    def with_password(cls, name: str, password: str, **more: object) -> User:
        salt = os.urandom(SALT_BYTES)
        return cls(name, salt, hash_password(password.encode(), salt), **more)  # type: ignore[arg-type]

    def has_password(self, password: bytes) -> bool:
        """Check a password; one that was right a moment ago is recognised without the slow hash."""
        if self.recognises(password):
            return True
        if not hmac.compare_digest(hash_password(password, self.salt, self.algorithm), self.password_hash):
            return False
        self.verified = quick_digest(password)
        return True

    def recognises(self, password: bytes) -> bool:
        """Was this password found right before? Quick, and False says nothing."""
        return self.verified is not None and hmac.compare_digest(quick_digest(password), self.verified)

    def require(self, right: str, vhost: str, kind: str, name: str) -> None:
        """AccessRefused unless this user has the right to the thing of that name."""
        permission = self.permissions.get(vhost)
        # RabbitMQ knows the default exchange as amq.default where permissions are concerned.
        if permission is None or not permission.allows(right, name or "amq.default"):
            raise AccessRefused(
                f"{right} access to {kind} '{name}' in vhost '{vhost}' refused for user '{self.name}'"
            )


def is_loopback(address: str) -> bool:
    """True for addresses of this machine."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback
