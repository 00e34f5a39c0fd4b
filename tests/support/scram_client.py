"""The client's half of SCRAM-SHA-256, written from RFC 5802 and not from the server's half."""

from __future__ import annotations

import base64
import hashlib
import hmac


class ScramClient:
    def __init__(self, user: str, password: str, nonce: str = "rOprNGfwEbeRWgbNEkqO") -> None:
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self.password = password
        self.first = f"n,,{self.bare}".encode()
        self.expected = b""

    def final(self, challenge: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), salt, rounds)
        without_proof = f"c=biws,r={fields['r']}"
        message = f"{self.bare},{challenge.decode()},{without_proof}".encode()
        key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", "sha256")
        self.expected = b"v=" + base64.b64encode(hmac.digest(server_key, message, "sha256"))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
