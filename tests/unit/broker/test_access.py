"""Who may do what, and passwords that are checked quickly the second time."""

from __future__ import annotations

import hashlib

import pytest

from embermq.broker import access
from embermq.broker.access import DECISIONS_MAX, Permission, User, is_loopback
from embermq.errors import AccessRefused


def test_patterns_match_anywhere_and_the_empty_one_nowhere() -> None:
    permission = Permission(configure="^mine-", write="log", read="")
    assert permission.allows("configure", "mine-1") and not permission.allows("configure", "not-mine-1")
    assert permission.allows("write", "a-log-of-things") and not permission.allows("write", "lo")
    assert not permission.allows("read", "") and not permission.allows("read", "anything")
    assert not permission.allows("configure", "mine"), "asked twice, answered the same"
    assert not permission.allows("configure", "mine")


def test_remembered_decisions_are_bounded() -> None:
    permission = Permission(configure="7$")
    for number in range(3 * DECISIONS_MAX):
        assert permission.allows("configure", str(number)) == str(number).endswith("7")
    assert len(permission.decisions) <= DECISIONS_MAX


def test_a_refusal_says_who_what_and_where() -> None:
    user = User("ann", b"", b"", permissions={"/": Permission("^ann-", ".*", "amq.default")})
    user.require("configure", "/", "queue", "ann-1")
    user.require("read", "/", "exchange", "")  # known as amq.default
    with pytest.raises(AccessRefused) as refusal:
        user.require("configure", "/", "queue", "bob-1")
    assert refusal.value.detail == "configure access to queue 'bob-1' in vhost '/' refused for user 'ann'"
    with pytest.raises(AccessRefused):
        user.require("write", "elsewhere", "queue", "ann-1")


def test_a_password_that_was_right_is_recognised_without_the_slow_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[bytes] = []
    slow = access.hash_password

    def counted(password: bytes, *more: object) -> bytes:
        hashed.append(password)
        return slow(password, *more)  # type: ignore[arg-type]

    user = User.with_password("ann", "secret")
    monkeypatch.setattr(access, "hash_password", counted)
    assert not user.has_password(b"wrong") and user.verified is None
    assert user.has_password(b"secret") and user.has_password(b"secret")
    assert hashed == [b"wrong", b"secret"]
    assert not user.has_password(b"wrong"), "one that was wrong is looked at again"
    assert hashed == [b"wrong", b"secret", b"wrong"]
    assert user.has_password(b"secret")
    assert len(hashed) == 3
    assert b"secret" not in (user.verified or b"")


def test_equal_passwords_look_different() -> None:
    one, two = User.with_password("a", "secret"), User.with_password("a", "secret")
    assert one.salt != two.salt and one.password_hash != two.password_hash
    assert "hash" not in repr(one)


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_passwords_of_rabbitmq(algorithm: str) -> None:
    salt = b"salt"
    digest = hashlib.new(algorithm, salt + b"secret").digest()
    user = User("ann", salt, digest, algorithm=f"rabbit_password_hashing_{algorithm}")
    assert user.has_password(b"secret") and not user.has_password(b"other")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::1%lo", True),
        ("192.0.2.1", False),
        ("::ffff:192.0.2.1", False),
        ("0.0.0.0", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_addresses_of_this_machine(address: str, expected: bool) -> None:
    assert is_loopback(address) == expected
