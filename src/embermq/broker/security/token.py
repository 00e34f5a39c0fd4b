"""Bearer tokens (JWT, OAuth 2): users that are not stored here, with the permissions that their token names.

Scopes are those of RabbitMQ's OAuth plugin, behind a prefix (by default the audience and a dot):

    shop.read:vhost/name           also write, configure; `*` stands for anything, %2F for a slash in a name
    shop.write:vhost/name/key      with routing keys, for topic exchanges
    shop.tag:administrator         a tag for the management API

A token is believed when its signature fits one of our keys, by an algorithm that we chose (never by one
that the token chooses), it is meant for us (`aud`), has an end (`exp`) and a name. PyJWT checks; it comes
with `pip install embermq[oauth]` and is imported only where keys are configured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from embermq.broker.security.authenticator import Done, Login
from embermq.broker.security.user import DECISIONS_MAX, RIGHTS, User

TOKEN_BYTES_MAX = 64 * 1024
SCOPES_MAX = 1000
NAME_CHARACTERS_MAX = 255
PARTS_WITH_KEY = 3
KEYS_MAX = 100
DATES = ("exp", "nbf", "iat")
DATE_END = 253_402_300_800  # the year 10000


def is_date(value: object) -> bool:
    """A number of seconds since 1970, before the year 10000: what is later is a way to say never."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < DATE_END  # which is not so for NaN


class TokenProblem(Exception):
    """Keys that cannot be used, or the library that is missing."""


def matches(pattern: str, text: str) -> bool:
    """`*` is any text, also none; everything else is itself. Takes no longer than the text is long."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    if not text.startswith(first):
        return False
    at, last = len(first), rest.pop()
    for part in rest:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - at >= len(last) and text.endswith(last)


class Scope(NamedTuple):
    right: str
    vhost: str
    name: str
    routing_key: str

    @classmethod
    def parse(cls, text: str) -> Scope | None:
        right, colon, resource = text.partition(":")
        parts = [unquote(part) for part in resource.split("/")]
        if right not in RIGHTS or not colon or not 2 <= len(parts) <= PARTS_WITH_KEY:
            return None
        return cls(right, parts[0], parts[1], parts[2] if len(parts) == PARTS_WITH_KEY else "*")


class TokenUser(User):
    """A user of a token; gone when the last connection with it is."""

    def __init__(self, name: str, scopes: Sequence[Scope], tags: frozenset[str], expires_at: float) -> None:
        super().__init__(name, tags=tags, expires_at=expires_at)
        self.scopes = tuple(scopes)
        self.decisions: dict[tuple[str, ...], bool] = {}

    def may_enter(self, vhost: str) -> bool:
        return any(matches(scope.vhost, vhost) for scope in self.scopes)

    def looks_at_topics(self, vhost: str) -> bool:
        return any(scope.routing_key != "*" for scope in self.scopes)

    def allows(self, right: str, vhost: str, name: str) -> bool:
        return self.decided(right, vhost, name or "amq.default", "")

    def allows_topic(
        self, right: str, vhost: str, exchange: str, routing_key: str, variables: Mapping[str, str]
    ) -> bool:
        return self.decided(right, vhost, exchange, routing_key, with_key=True)

    def decided(self, right: str, vhost: str, name: str, routing_key: str, with_key: bool = False) -> bool:
        question = (right, vhost, name, routing_key, "key" if with_key else "")
        decision = self.decisions.get(question)
        if decision is None:
            if len(self.decisions) >= DECISIONS_MAX:
                self.decisions.clear()
            decision = self.decisions[question] = any(
                scope.right == right
                and matches(scope.vhost, vhost)
                and matches(scope.name, name)
                and (not with_key or matches(scope.routing_key, routing_key))
                for scope in self.scopes
            )
        return decision


class Tokens:
    def __init__(
        self,
        keys: Mapping[str, Any],
        audience: str,
        *,
        algorithms: Sequence[str],
        issuer: str = "",
        prefix: str = "",
        username_claims: Sequence[str] = ("sub",),
        leeway_s: float = 0.0,
    ) -> None:
        self.own = dict(keys)  # by key id; "" for one without
        self.published: dict[str, Any] = {}  # by the issuer
        self.keys = self.own  # all of them
        # Asks, on behalf of an address, for those that are published now, and calls back; None where no
        # issuer publishes any.
        self.renew: Callable[[str, Callable[[], None]], None] | None = None
        self.audience = audience
        self.algorithms = list(algorithms)
        self.issuer = issuer
        self.prefix = prefix or f"{audience}."
        self.username_claims = tuple(username_claims)
        self.leeway_s = leeway_s

    def looks_like_token(self, text: bytes) -> bool:
        return text.count(b".") == 2 and text.startswith(b"ey") and len(text) <= TOKEN_BYTES_MAX

    def take(self, published: Mapping[str, Any]) -> None:
        self.published = dict(published)
        self.keys = {**self.published, **self.own}

    def login(self, token: bytes, address: str, done: Done) -> None:
        """At once, or when we have looked for the key that it names."""
        if self.renew is not None and self.lacks_key_for(token):
            self.renew(address, lambda: done(self.read(token)))
        else:
            done(self.read(token))

    def lacks_key_for(self, token: bytes) -> bool:
        import jwt

        try:
            kid = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError:
            return False  # refused without
        return kid not in self.keys if isinstance(kid, str) else not self.keys

    def read(self, token: bytes) -> Login:
        try:
            claims = self.verified(token)
            return Login(self.user_of(claims))
        except Exception as error:  # whatever a token does to the library: it is refused
            return Login(None, f"token refused: {type(error).__name__}: {str(error)[:200]}")

    def verified(self, token: bytes) -> dict[str, Any]:
        import jwt

        text = token.decode("ascii")
        key = self.key_for(jwt.get_unverified_header(text).get("kid"))
        claims: dict[str, Any] = jwt.decode(
            text,
            key,
            algorithms=self.algorithms,
            audience=self.audience,
            issuer=self.issuer or None,
            leeway=self.leeway_s,
            options={"require": ["exp", "aud"], "strict_aud": False},
        )
        return claims

    def key_for(self, kid: object) -> Any:
        if isinstance(kid, str) and kid in self.keys:
            return self.keys[kid]
        if "" in self.keys:
            return self.keys[""]
        if kid is None and len(self.keys) == 1:
            return next(iter(self.keys.values()))
        raise ValueError("no key of ours has that id")

    def user_of(self, claims: Mapping[str, Any]) -> TokenUser:
        for name in DATES:
            if name in claims and not is_date(claims[name]):
                raise ValueError(f"{name} is no date")
        scopes, tags = self.rights_in(claims)
        return TokenUser(self.name_in(claims), scopes, tags, float(claims["exp"]) + self.leeway_s)

    def name_in(self, claims: Mapping[str, Any]) -> str:
        for claim in self.username_claims:
            name = claims.get(claim)
            if isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS_MAX and name.isprintable():
                return name
        raise ValueError("it names no user")

    def rights_in(self, claims: Mapping[str, Any]) -> tuple[list[Scope], frozenset[str]]:
        listed = claims.get("scope", [])
        texts = listed.split(" ") if isinstance(listed, str) else listed if isinstance(listed, list) else []
        scopes: list[Scope] = []
        tags: set[str] = set()
        for text in texts[:SCOPES_MAX]:
            if not isinstance(text, str) or not text.startswith(self.prefix):
                continue
            granted = text.removeprefix(self.prefix)
            scope = Scope.parse(granted)
            if scope is not None:
                scopes.append(scope)
            elif granted.startswith("tag:"):
                tags.add(granted.removeprefix("tag:"))
        return scopes, frozenset(tags)


def load_keys(files: Sequence[str]) -> dict[str, Any]:
    """Public keys by id: out of PEM files (the one without an id), and JWKS files."""
    keys: dict[str, Any] = {}
    for file in files:
        try:
            keys |= keys_in(Path(file).read_bytes())
        except (OSError, TokenProblem) as error:
            raise TokenProblem(f"{file}: {error}") from None
    return keys


def keys_in(data: bytes) -> dict[str, Any]:
    """Of a JWKS, the keys that we can use for signatures; or the one of a PEM."""
    try:
        import jwt
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError as error:
        raise TokenProblem(
            f"tokens need PyJWT and cryptography (pip install embermq[oauth]): {error}"
        ) from None
    try:
        if not data.lstrip().startswith(b"{"):
            return {"": load_pem_public_key(data)}
        entries = [entry for entry in json.loads(data)["keys"][:KEYS_MAX] if entry.get("use", "sig") == "sig"]
        keys, problem = {}, "there is none"
        for entry in entries:
            try:
                if entry.get("kty") != "oct":  # a secret that both sides share is none that may be published
                    keys[str(entry.get("kid", ""))] = jwt.PyJWK.from_dict(entry).key
            except jwt.PyJWTError as error:
                problem = str(error)  # of a kind that we do not know, as those for other uses may be
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TokenProblem(f"no keys for tokens: {error}") from None
    if not keys:
        raise TokenProblem(f"no keys for tokens: {problem}")
    return keys
