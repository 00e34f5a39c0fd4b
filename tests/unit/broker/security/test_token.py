"""Tokens: whom they make a user, what their scopes allow, and odd ones that are refused."""

from __future__ import annotations

import base64
import json
import math
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from embermq.broker.security.token import (
    SCOPES_MAX,
    Scope,
    TokenProblem,
    Tokens,
    TokenUser,
    load_keys,
    matches,
)
from embermq.broker.security.user import DECISIONS_MAX
from tests.access.issuer import AUDIENCE, Issuer


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def tokens(issuer: Issuer) -> Tokens:
    return Tokens(
        load_keys([str(issuer.jwks_file)]), AUDIENCE, algorithms=["RS256"], username_claims=["sub", "id"]
    )


def user_of(tokens: Tokens, token: str) -> TokenUser:
    login = tokens.read(token.encode())
    assert isinstance(login.user, TokenUser), login.problem
    return login.user


def test_a_token_is_a_user_with_rights_and_an_end(tokens: Tokens, issuer: Issuer) -> None:
    token = issuer.token("read:*/orders.*", "configure:shop/%2Fodd%2Fname", "tag:monitoring", "nonsense")
    assert tokens.looks_like_token(token.encode())
    user = user_of(tokens, token)
    assert (user.name, user.tags) == ("anna", {"monitoring"})
    assert 500 < user.expires_at - time.time() < 700
    assert user.allows("read", "/", "orders.new") and user.allows("read", "x", "orders.")
    assert not user.allows("write", "/", "orders.new") and not user.allows("read", "/", "order")
    assert user.allows("configure", "shop", "/odd/name") and not user.allows("configure", "/", "/odd/name")
    assert user.may_enter("anything") and not user.looks_at_topics("/")
    assert not user_of(tokens, issuer.token("read:shop/*")).may_enter("/")
    assert not user_of(tokens, issuer.token()).may_enter("/")


def test_routing_keys_and_the_default_exchange(tokens: Tokens, issuer: Issuer) -> None:
    user = user_of(tokens, issuer.token("write:%2F/events/a.*", "write:%2F/amq.default"))
    assert user.looks_at_topics("/") and user.allows("write", "/", "events") and user.allows("write", "/", "")
    assert user.allows_topic("write", "/", "events", "a.b", {})
    assert not user.allows_topic("write", "/", "events", "b", {})


def test_answers_that_are_remembered_are_bounded(tokens: Tokens, issuer: Issuer) -> None:
    user = user_of(tokens, issuer.token("read:*/*7"))
    for number in range(3 * DECISIONS_MAX):
        assert user.allows("read", "/", str(number)) == str(number).endswith("7")
    assert len(user.decisions) <= DECISIONS_MAX


def test_scopes_may_be_a_list_and_are_bounded(tokens: Tokens, issuer: Issuer) -> None:
    scopes = [f"{AUDIENCE}.read:*/{number}" for number in range(2 * SCOPES_MAX)]
    user = user_of(tokens, issuer.token(scope=[*scopes[:10], 5, None, {}, "other.read:*/*"]))
    assert len(user.scopes) == 10
    claims = {"exp": time.time() + 5, "sub": "anna", "scope": scopes}
    assert len(tokens.user_of(claims).scopes) == SCOPES_MAX


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"exp": None}, "MissingRequiredClaimError"),
        ({"exp": 1}, "ExpiredSignatureError"),
        ({"exp": "soon"}, "DecodeError"),
        ({"exp": True}, "token refused"),
        ({"exp": 1e400}, "token refused"),
        ({"exp": 1e300}, "exp is no date"),
        ({"exp": 10**300}, "exp is no date"),
        ({"exp": 253_402_300_800}, "exp is no date"),
        ({"exp": math.nan}, "token refused"),
        ({"exp": -1}, "ExpiredSignatureError"),
        ({"exp": str(int(time.time()) + 600)}, "exp is no date"),
        ({"nbf": "0"}, "nbf is no date"),
        ({"nbf": -1e300}, "nbf is no date"),
        ({"nbf": math.nan}, "token refused"),
        ({"nbf": True}, "nbf is no date"),
        ({"nbf": [1]}, "token refused"),
        ({"iat": "0"}, "iat is no date"),
        ({"iat": -1}, "iat is no date"),
        ({"iat": math.inf}, "token refused"),
        ({"nbf": time.time() + 1000}, "ImmatureSignatureError"),
        ({"aud": None}, "MissingRequiredClaimError"),
        ({"aud": "another"}, "InvalidAudienceError"),
        ({"aud": ["another", "ember2"]}, "InvalidAudienceError"),
        ({"aud": {"ember": 1}}, "InvalidAudienceError"),
        ({"sub": None}, "it names no user"),
        ({"sub": None, "id": ""}, "it names no user"),
        ({"sub": None, "id": ["anna"]}, "it names no user"),
        ({"sub": "x" * 256}, "it names no user"),
        ({"sub": "an\nna"}, "it names no user"),
    ],
)
def test_odd_claims_are_refused(tokens: Tokens, issuer: Issuer, claims: dict[str, Any], problem: str) -> None:
    login = tokens.read(issuer.token("read:*/*", **claims).encode())
    assert login.user is None and problem in login.problem


@pytest.mark.parametrize(
    "scope", [None, 5, True, {"read": 1}, "", "ember.read", "ember.read:", "ember.read:a/b/c/d"]
)
def test_odd_scopes_give_no_rights(tokens: Tokens, issuer: Issuer, scope: object) -> None:
    user = user_of(tokens, issuer.token(scope=scope))
    assert user.scopes == () and not user.may_enter("/")


def test_signatures_that_are_none(tokens: Tokens, issuer: Issuer, tmp_path: Path) -> None:
    header, claims, signature = issuer.token("read:*/*").split(".")
    unsigned = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).decode().rstrip("=")
    forged = [
        f"{header}.{claims}.",
        f"{unsigned}.{claims}.",
        f"{unsigned}.{claims}.{signature}",
        f"{header}.{claims}.{signature[:-4]}AAAA",
        Issuer(tmp_path).token("read:*/*"),  # somebody else's key under the same id
        Issuer(tmp_path, "two").token("read:*/*"),
        issuer.token("read:*/*", algorithm="RS512"),
        "ey.ey.ey",
        "..",
        "ey\udcff..",
    ]
    # The public key as the secret of a symmetric signature: the oldest trick.
    body = {"sub": "anna", "aud": AUDIENCE, "exp": time.time() + 50}
    try:
        forged.append(jwt.encode(body, issuer.pem.decode(), "HS256"))
    except jwt.InvalidKeyError:
        import hashlib
        import hmac

        def part(value: object) -> bytes:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

        signed = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(body)
        mac = base64.urlsafe_b64encode(hmac.digest(issuer.pem, signed, hashlib.sha256)).rstrip(b"=")
        forged.append((signed + b"." + mac).decode())
    for token in forged:
        login = tokens.read(token.encode("utf-8", "surrogateescape"))
        assert login.user is None and login.problem.startswith("token refused")


def test_keys_come_out_of_files(issuer: Issuer, tmp_path: Path) -> None:
    assert list(load_keys([str(issuer.pem_file)])) == [""]
    assert list(load_keys([str(issuer.jwks_file)])) == ["one"]
    by_pem = Tokens(load_keys([str(issuer.pem_file)]), AUDIENCE, algorithms=["RS256"])
    assert user_of(by_pem, issuer.token("read:*/*")).name == "anna"
    for content in ("nonsense", "{}", '{"keys": [5]}', '{"keys": [{"kty": "RSA"}]}'):
        (tmp_path / "bad").write_text(content)
        with pytest.raises(TokenProblem, match="no keys for tokens"):
            load_keys([str(tmp_path / "bad")])
    with pytest.raises(TokenProblem):
        load_keys([str(tmp_path / "missing")])


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("*", "anything", True),
        ("a*", "ab", True),
        ("a*", "b", False),
        ("*b", "ab", True),
        ("a*b", "ab", True),
        ("a*b", "a", False),
        ("ab*ba", "aba", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("", "", True),
        ("", "a", False),
        (".*", "x", False),
        ("*a" * 100 + "b", "a" * 5000, False),
    ],
)
def test_wildcards(pattern: str, text: str, expected: bool) -> None:
    assert matches(pattern, text) is expected


def test_scopes_are_parsed() -> None:
    assert Scope.parse("write:v/n/k") == Scope("write", "v", "n", "k")
    assert Scope.parse("write:v/n") == Scope("write", "v", "n", "*")
    assert [Scope.parse(text) for text in ("delete:v/n", "write", "write:v", "tag:x")] == [None] * 4
