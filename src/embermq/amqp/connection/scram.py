"""SCRAM-SHA-256 (RFC 5802, 7677): the client proves that it knows the password, and so does the server.

    client   n,,n=anna,r=<nonce>                       in connection.start-ok
    server   r=<nonce + ours>,s=<salt>,i=<rounds>      connection.secure
    client   c=biws,r=<both nonces>,p=<proof>          connection.secure-ok
    server   v=<signature>                             connection.secure
    client   (nothing)                                 connection.secure-ok, and connection.tune follows

The password does not cross the wire, and what is stored does not suffice to log in. A user that does not
exist gets salt and rounds like any other, always the same, and fails at the proof.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable

from embermq.amqp.connection.sasl import Answer, Challenge, LoginFailed, Proven
from embermq.broker.security.password import PROCESS_KEY, SALT_BYTES, SCRAM_ITERATIONS, ScramKeys
from embermq.errors import SyntaxFault

NONCE_BYTES = 18
NONCE_CHARACTERS_MAX = 256


def keys_of_nobody(name: str) -> ScramKeys:
    """What a user that does not exist would have; no proof matches it."""
    salt = hmac.digest(PROCESS_KEY, b"salt of " + name.encode("utf-8", "surrogateescape"), "sha256")
    return ScramKeys(salt[:SALT_BYTES], SCRAM_ITERATIONS, os.urandom(32), os.urandom(32))


class Scram:
    def __init__(self, keys_of: Callable[[str], ScramKeys]) -> None:
        self.keys_of = keys_of
        self.next: Callable[[bytes], Answer] = self.on_first

    def respond(self, response: bytes) -> Answer:
        return self.next(response)

    def on_first(self, response: bytes) -> Answer:
        binding, comma, rest = decoded(response).partition(",")
        authorisation, comma, bare = rest.partition(",")
        if not comma or binding not in ("n", "y") or authorisation:
            raise SyntaxFault("a SCRAM response with channel binding or an authorisation id, or none at all")
        fields = attributes(bare)
        nonce = fields.get("r", "")
        if list(fields)[:2] != ["n", "r"] or not 0 < len(nonce) <= NONCE_CHARACTERS_MAX:
            raise SyntaxFault("a first SCRAM response without name and nonce")
        self.user = fields["n"].replace("=2C", ",").replace("=3D", "=")
        self.keys = self.keys_of(self.user)
        self.header = base64.b64encode(f"{binding},,".encode()).decode()
        self.nonce = nonce + base64.b64encode(os.urandom(NONCE_BYTES)).decode()
        salt = base64.b64encode(self.keys.salt).decode()
        question = f"r={self.nonce},s={salt},i={self.keys.iterations}"
        self.dialogue = f"{bare},{question}"
        self.next = self.on_proof
        return Challenge(question.encode())

    def on_proof(self, response: bytes) -> Answer:
        text = decoded(response)
        fields = attributes(text)
        if fields.get("c") != self.header or fields.get("r") != self.nonce:
            raise LoginFailed(self.user, "a proof for another conversation")
        try:
            proof = base64.b64decode(fields.get("p", ""), validate=True)
        except (binascii.Error, ValueError):
            raise SyntaxFault("a SCRAM proof that is not base64") from None
        without_proof = text.rpartition(",p=")[0]
        message = f"{self.dialogue},{without_proof}".encode()
        signature = hmac.digest(self.keys.stored_key, message, "sha256")
        if len(proof) != len(signature):
            raise LoginFailed(self.user, "invalid credentials")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self.keys.stored_key):
            raise LoginFailed(self.user, "invalid credentials")
        ours = hmac.digest(self.keys.server_key, message, "sha256")
        self.next = self.on_end
        return Challenge(b"v=" + base64.b64encode(ours))

    def on_end(self, response: bytes) -> Answer:
        if response:
            raise SyntaxFault("a SCRAM response after the last")
        return Proven(self.user)


def decoded(response: bytes) -> str:
    try:
        return response.decode("utf-8")
    except UnicodeDecodeError:
        raise SyntaxFault("a SCRAM response that is not UTF-8") from None


def attributes(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}
