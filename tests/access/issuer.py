"""Somebody who issues tokens: keys made for a test, and whatever claims it likes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "ember"


class Issuer:
    def __init__(self, directory: Path, kid: str = "one") -> None:
        self.kid = kid
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = self.key.public_key()
        self.pem = public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.pem_file = directory / f"{kid}.pem"
        self.pem_file.write_bytes(self.pem)
        self.jwks_file = directory / f"{kid}.json"
        jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(public))
        self.jwks_file.write_text(json.dumps({"keys": [{**jwk, "kid": kid, "use": "sig"}]}))

    def token(
        self, *scopes: str, user: str = "anna", life_s: float = 600.0, algorithm: str = "RS256", **claims: Any
    ) -> str:
        """Claims that are None are left out."""
        standard = {
            "sub": user,
            "aud": AUDIENCE,
            "exp": int(time.time() + life_s),
            "scope": " ".join(f"{AUDIENCE}.{scope}" for scope in scopes),
        }
        told = {name: value for name, value in (standard | claims).items() if value is not None}
        return jwt.encode(told, self.key, algorithm, headers={"kid": self.kid})
