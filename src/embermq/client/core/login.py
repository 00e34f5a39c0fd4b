"""The client's half of logging in: what each SASL mechanism says, and answers to the broker's questions.

SCRAM-SHA-256 (RFC 5802, 7677) never sends the password: both sides prove that they know it (the broker knows
what it was made into), so a broker that does not is not believed, whatever it accepts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from typing import Protocol

from embermq.client.errors import AuthenticationFailed

NONCE_BYTES = 18
# What a broker may ask for: fewer rounds make guessing easy, more would keep us busy for seconds.
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 2_000_000
BINDING = base64.b64encode(b"n,,").decode()  # none


class Login(Protocol):
    def first(self) -> bytes:
        """What connection.start-ok says."""

    def answer(self, question: bytes) -> bytes:
        """To a connection.secure; AuthenticationFailed if the broker is not to be trusted."""

    def accepted(self) -> None:
        """The broker lets us in; AuthenticationFailed if it has not shown that it may."""


class Plain:
    """Name and password as they are."""

    def __init__(self, username: str, password: str) -> None:
        self.response = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self.response

    def answer(self, question: bytes) -> bytes:
        return self.response

    def accepted(self) -> None:
        pass


class Silent:
    """EXTERNAL: the certificate has named the user; ANONYMOUS: there is no name to give."""

    def __init__(self, username: str, password: str) -> None:
        pass

    def first(self) -> bytes:
        return b""

    def answer(self, question: bytes) -> bytes:
        return b""

    def accepted(self) -> None:
        pass


class Scram:
    def __init__(self, username: str, password: str) -> None:
        self.password = password.encode()
        self.nonce = base64.b64encode(os.urandom(NONCE_BYTES)).decode()
        name = username.replace("=", "=3D").replace(",", "=2C")
        self.introduction = f"n={name},r={self.nonce}"
        self.signature: bytes | None = None  # what the broker has to answer to our proof
        self.proven = False  # by the broker

    def first(self) -> bytes:
        return f"n,,{self.introduction}".encode()

    def answer(self, question: bytes) -> bytes:
        try:
            fields = dict(part.split("=", 1) for part in question.decode().split(","))
            if self.signature is None:
                return self.proof(question.decode(), fields)
            if "e" in fields:
                raise AuthenticationFailed(f"the broker refused the SCRAM proof: {fields['e']}")
            signature = base64.b64decode(fields["v"], validate=True)
        except (ValueError, KeyError, binascii.Error):
            raise AuthenticationFailed(f"not an answer of SCRAM-SHA-256: {question[:80]!r}") from None
        if self.proven or not hmac.compare_digest(signature, self.signature):
            raise AuthenticationFailed(
                "the broker's SCRAM signature is wrong: it does not know the password, so it is not the "
                "broker it claims to be; check which program listens on that port"
            )
        self.proven = True
        return b""

    def proof(self, question: str, fields: dict[str, str]) -> bytes:
        nonce, iterations = fields["r"], int(fields["i"])
        if not nonce.startswith(self.nonce) or nonce == self.nonce or "m" in fields:
            raise AuthenticationFailed("the broker's SCRAM question belongs to another conversation")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationFailed(
                f"the broker asks for {iterations} SCRAM rounds: acceptable are {ITERATIONS_MIN} to "
                f"{ITERATIONS_MAX}"
            )
        salt = base64.b64decode(fields["s"], validate=True)
        salted = hashlib.pbkdf2_hmac("sha256", self.password, salt, iterations)
        without_proof = f"c={BINDING},r={nonce}"
        dialogue = f"{self.introduction},{question},{without_proof}".encode()
        key = hmac.digest(salted, b"Client Key", "sha256")
        mask = hmac.digest(hashlib.sha256(key).digest(), dialogue, "sha256")
        proof = bytes(a ^ b for a, b in zip(key, mask, strict=True))
        self.signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), dialogue, "sha256")
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def accepted(self) -> None:
        if not self.proven:
            raise AuthenticationFailed(
                "the broker let us in without its SCRAM signature: it has not shown that it knows the "
                "password; check which program listens on that port"
            )


MECHANISMS: dict[str, type[Plain] | type[Silent] | type[Scram]] = {
    "PLAIN": Plain,
    "SCRAM-SHA-256": Scram,
    "EXTERNAL": Silent,
    "ANONYMOUS": Silent,
}
