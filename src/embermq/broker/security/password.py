"""Password hashes: hashes that are slow to guess, RabbitMQ's, and the keys of SCRAM-SHA-256.

A password that is set here is kept twice: as a scrypt hash, for clients that send it (PLAIN, AMQPLAIN, HTTP),
and as the keys of SCRAM (RFC 5802), for clients that only prove that they know it. RabbitMQ's quick hashes
are understood, and replaced when their user next logs in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

SALT_BYTES = 16
SCRYPT_COST = {"n": 2**12, "r": 8, "p": 1}
SCRYPT = "embermq_scrypt"
# Those of RabbitMQ (with its names and its salt of four bytes) are for users that come with definitions.
SHA256 = "rabbit_password_hashing_sha256"  # RabbitMQ's algorithm where none is named
RABBITMQ_SALT_BYTES = 4
HASHES: dict[str, Callable[[bytes, bytes], bytes]] = {
    SCRYPT: lambda password, salt: hashlib.scrypt(password, salt=salt, **SCRYPT_COST),
    SHA256: lambda password, salt: hashlib.sha256(salt + password).digest(),
    "rabbit_password_hashing_sha512": lambda password, salt: hashlib.sha512(salt + password).digest(),
}
# Clients compute as many rounds at each login, in whatever language they are written.
SCRAM_ITERATIONS = 16384
PROCESS_KEY = os.urandom(32)  # keys the quick digests; they mean nothing outside this process


def hash_password(password: bytes, salt: bytes, algorithm: str = SCRYPT) -> bytes:
    return HASHES[algorithm](password, salt)


def quick_digest(password: bytes) -> bytes:
    return hmac.digest(PROCESS_KEY, password, "sha256")


@dataclass(frozen=True)
class ScramKeys:
    """What a server needs to recognise a client by SCRAM-SHA-256; the password cannot be read off it."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def derive(cls, password: bytes, salt: bytes, iterations: int = SCRAM_ITERATIONS) -> ScramKeys:
        salted = hashlib.pbkdf2_hmac("sha256", password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        return cls(
            salt,
            iterations,
            hashlib.sha256(client_key).digest(),
            hmac.digest(salted, b"Server Key", "sha256"),
        )

    def body(self) -> dict[str, Any]:
        return {
            "salt": self.salt.hex(),
            "iterations": self.iterations,
            "stored_key": self.stored_key.hex(),
            "server_key": self.server_key.hex(),
        }

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> ScramKeys:
        return cls(
            bytes.fromhex(body["salt"]),
            body["iterations"],
            bytes.fromhex(body["stored_key"]),
            bytes.fromhex(body["server_key"]),
        )


@dataclass(frozen=True)
class Secret:
    """A password as it is kept."""

    salt: bytes = field(repr=False)
    password_hash: bytes = field(repr=False)
    algorithm: str = SCRYPT
    scram: ScramKeys | None = field(default=None, repr=False)

    @classmethod
    def of(cls, password: bytes) -> Secret:
        """Slow, as it should be: not for the loop's thread once the broker runs."""
        salt = os.urandom(SALT_BYTES)
        keys = ScramKeys.derive(password, os.urandom(SALT_BYTES))
        return cls(salt, hash_password(password, salt), SCRYPT, keys)

    @classmethod
    def from_hash(cls, encoded: str, algorithm: str) -> Secret:
        """A hash as RabbitMQ writes it: salt and digest in base64. ValueError when it is none."""
        algorithm = algorithm or SHA256
        if algorithm not in HASHES:
            raise ValueError(f"hashing algorithm {algorithm!r} is not known here")
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("password_hash is not base64") from None
        salt_bytes = SALT_BYTES if algorithm == SCRYPT else RABBITMQ_SALT_BYTES
        return cls(data[:salt_bytes], data[salt_bytes:], algorithm)

    def improved(self, password: bytes) -> Secret | None:
        """How the same password would be kept today; None where nothing is to be improved. Slow."""
        if self.algorithm != SCRYPT:
            return Secret.of(password)
        if self.scram is None:
            return replace(self, scram=ScramKeys.derive(password, os.urandom(SALT_BYTES)))
        return None

    def fits(self, password: bytes) -> bool:
        """Slow. No login without a password, whatever is kept (RabbitMQ since 3.7)."""
        found = hash_password(password, self.salt, self.algorithm)
        return bool(password) and hmac.compare_digest(found, self.password_hash)


NO_PASSWORD = Secret(bytes(SALT_BYTES), b"")  # fits nothing; as slow to find out as any other
