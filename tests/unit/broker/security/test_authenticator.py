"""Who is it? Passwords of all kinds, what is remembered of them, and addresses that fail too often."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from embermq.broker.security import password as passwords
from embermq.broker.security.authenticator import INVALID, LOCAL_ONLY, TOO_MANY, Authenticator, Login
from embermq.broker.security.login_throttle import ADDRESSES_MAX, INTERVAL_S, WAIT_S_MAX, LoginThrottle
from embermq.broker.security.password import NO_PASSWORD, SCRYPT, Secret
from embermq.broker.security.user import User

HERE, THERE = "127.0.0.1", "192.0.2.1"
SECRET = Secret.of(b"secret")  # once: it is slow


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Door:
    """An authenticator with a clock in the hand, and work aside that is done when a test says so."""

    def __init__(self, *users: User) -> None:
        self.clock = Clock()
        self.authenticator = Authenticator({user.name: user for user in users}, self.clock)
        self.aside: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.waits: list[tuple[float, Callable[[], None]]] = []
        self.authenticator.run_aside = lambda work, done: self.aside.append((work, done))
        self.authenticator.call_later = lambda delay, action: self.waits.append((delay, action))
        self.logins: list[Login] = []

    def knock(self, name: str, password: bytes, address: str = HERE) -> Login | None:
        """What is answered at once; None where it takes longer."""
        before = len(self.logins)
        self.authenticator.check(name, password, address, self.logins.append)
        return self.logins[before] if len(self.logins) > before else None

    def work(self) -> Login:
        work, done = self.aside.pop(0)
        done(work())
        return self.logins[-1]


def ann(**more: Any) -> User:
    return User("ann", SECRET, **more)


def test_a_hash_is_computed_aside_and_a_password_that_was_right_is_recognised() -> None:
    door = Door(user := ann())
    assert door.knock("ann", b"secret") is None
    assert door.work() == Login(user)
    assert door.knock("ann", b"secret") == Login(user), "the second time nothing is computed"
    assert door.knock("ann", b"wrong") is None
    assert door.work() == Login(None, INVALID)
    assert door.knock("ann", b"secret") == Login(user), "a wrong one forgets nothing"
    assert b"secret" not in (user.verified or b"") and "secret" not in repr(user)
    door.clock.now += door.authenticator.cache_s
    assert door.knock("ann", b"secret") is None, "not for ever"


@pytest.mark.parametrize(
    ("name", "password"), [("bob", b"secret"), ("ann", b""), ("ghost", b""), ("ghost", b"x")]
)
def test_nobody_gets_in_without_a_password_and_all_take_as_long(
    name: str, password: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    slow = passwords.hash_password

    def counted(password: bytes, salt: bytes, algorithm: str = SCRYPT) -> bytes:
        hashed.append(algorithm)
        return slow(password, salt, algorithm)

    monkeypatch.setattr(passwords, "hash_password", counted)
    door = Door(ann(), User("ghost", NO_PASSWORD))
    assert door.knock(name, password) is None
    assert door.work() == Login(None, INVALID)
    assert hashed == [SCRYPT]


def test_a_user_who_may_come_from_here_only() -> None:
    door = Door(user := ann(loopback_only=True))
    door.knock("ann", b"secret", THERE)
    assert door.work() == Login(None, LOCAL_ONLY)
    assert door.knock("ann", b"secret", "::1") == Login(user)
    door.authenticator.admit("ann", THERE, door.logins.append)
    assert door.logins[-1] == Login(None, LOCAL_ONLY)
    door.authenticator.admit("ann", HERE, door.logins.append)
    assert door.logins[-1] == Login(user)
    door.authenticator.admit("nobody", HERE, door.logins.append)
    assert door.logins[-1] == Login(None, INVALID)


def test_what_changed_while_we_computed_counts() -> None:
    door = Door(user := ann())
    door.knock("ann", b"secret")
    user.secret = NO_PASSWORD
    assert door.work() == Login(None, INVALID)
    assert user.verified is None, "the old password is not remembered for the new"
    door.knock("ann", b"secret")
    del door.authenticator.users["ann"]
    assert door.work() == Login(None, INVALID)
    door.knock("ann", b"secret")
    door.authenticator.users["ann"] = user = ann()
    door.knock("ann", b"secret")  # not the question that was asked before
    assert door.work() == Login(None, INVALID) and door.work() == Login(user)


def test_many_who_ask_the_same_wait_for_one_hash() -> None:
    door = Door(user := ann())
    for _ in range(50):
        assert door.knock("ann", b"secret") is None
        assert door.knock("ann", b"guess") is None
    assert len(door.aside) == 2
    door.work()
    assert door.logins == [Login(user)] * 50
    door.work()
    assert door.logins[50:] == [Login(None, INVALID)] * 50
    assert not door.authenticator.under_way


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_passwords_of_rabbitmq_are_replaced_at_the_next_login(algorithm: str) -> None:
    digest = hashlib.new(algorithm, b"salt" + b"secret").digest()
    old = Secret(b"salt", digest, f"rabbit_password_hashing_{algorithm}")
    door = Door(user := User("ann", old))
    stored: list[User] = []
    door.authenticator.on_better_secret = stored.append
    door.knock("ann", b"wrong")
    assert door.work() == Login(None, INVALID) and user.secret is old
    door.knock("ann", b"secret")
    assert door.work() == Login(user) and stored == [user]
    assert user.secret.algorithm == SCRYPT and user.secret.scram is not None
    assert user.secret.fits(b"secret") and not user.secret.fits(b"wrong")
    door.clock.now += 10_000
    door.knock("ann", b"secret")
    assert door.work() == Login(user) and stored == [user], "once"


def test_a_hash_of_ours_without_keys_for_scram_gets_them() -> None:
    old = Secret(SECRET.salt, SECRET.password_hash)
    door = Door(user := User("ann", old))
    door.knock("ann", b"secret")
    assert door.work() == Login(user)
    assert user.secret.password_hash == old.password_hash and user.secret.scram is not None


def test_equal_passwords_look_different() -> None:
    other = Secret.of(b"secret")
    assert other.salt != SECRET.salt and other.password_hash != SECRET.password_hash
    assert other.scram is not None and SECRET.scram is not None and other.scram.salt != SECRET.scram.salt
    assert "hash=" not in repr(other) and "key=" not in repr(other.scram)


def test_an_address_that_fails_often_waits_for_its_turn() -> None:
    door = Door(user := ann())
    door.authenticator.login_throttle.free = 3
    for _ in range(4):
        door.knock("ann", b"wrong", THERE)
        door.work()
    assert door.knock("ann", b"secret", THERE) is None and not door.aside, "it is not even looked at"
    (delay, action) = door.waits.pop()
    assert delay == INTERVAL_S
    door.knock("ann", b"wrong", THERE)
    assert door.waits[-1][0] == 2 * INTERVAL_S, "and behind it the next"
    action()
    assert door.work() == Login(user)
    assert door.knock("ann", b"secret", HERE) == Login(user), "others do not wait"


def test_those_who_would_wait_too_long_are_refused_unheard() -> None:
    door = Door(ann())
    door.authenticator.login_throttle.free = 1
    for _ in range(3):
        door.authenticator.refused(THERE)
    answers = [door.knock("ann", b"x", THERE) for _ in range(100)]
    assert answers[-1] == Login(None, TOO_MANY)
    assert len(door.waits) + len(door.aside) <= WAIT_S_MAX / INTERVAL_S + 2


def test_failures_are_forgotten_in_time_and_the_table_is_bounded() -> None:
    clock = Clock()
    strangers = LoginThrottle(clock, free=1)
    strangers.failed(THERE)
    strangers.failed(THERE)
    strangers.wait_s(THERE)
    assert strangers.wait_s(THERE)
    clock.now += 60
    assert strangers.wait_s(THERE) == 0.0
    for number in range(ADDRESSES_MAX + 100):
        strangers.failed(str(number))
    assert len(strangers.buckets) == ADDRESSES_MAX
    assert "0" not in strangers.buckets and str(ADDRESSES_MAX) in strangers.buckets
