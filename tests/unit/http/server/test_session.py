"""Sessions of browsers: how long they last, how many there are, what ends them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from embermq.broker.security.user import User
from embermq.http.server import session
from embermq.http.server.session import SessionStore, cookie, token_in

HERE, ELSEWHERE = "127.0.0.1", "192.0.2.1"


@pytest.fixture
def alice() -> User:
    return User("alice", tags=frozenset({"management"}))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_token_stands_for_its_user(alice: User) -> None:
    sessions = SessionStore({"alice": alice})
    token = sessions.create(alice)
    assert sessions.user_of(token, ELSEWHERE) is alice
    assert sessions.user_of(token + "x", HERE) is None
    assert sessions.user_of("", HERE) is None
    sessions.end(token)
    assert sessions.user_of(token, HERE) is None


def test_a_session_ends_when_it_is_idle(alice: User) -> None:
    clock = Clock()
    sessions = SessionStore({"alice": alice}, clock)
    token = sessions.create(alice)
    for _ in range(3):  # every request begins the time anew
        clock.now += session.IDLE_S_MAX
        assert sessions.user_of(token, HERE) is alice
    clock.now += session.IDLE_S_MAX + 1
    assert sessions.user_of(token, HERE) is None
    assert sessions.by_token == {}


def test_a_session_ends_with_what_it_was_given_for(alice: User) -> None:
    users = {"alice": alice}
    sessions = SessionStore(users)
    token = sessions.create(alice)
    alice.tags = frozenset({"administrator"})
    assert sessions.user_of(token, HERE) is None, "other tags"
    token = sessions.create(alice)
    alice.secret = replace(alice.secret)
    assert sessions.user_of(token, HERE) is None, "another password"
    token = sessions.create(alice)
    users["alice"] = User("alice", alice.secret, alice.tags)
    assert sessions.user_of(token, HERE) is None, "deleted, and another one of this name"


def test_a_user_of_this_machine_stays_on_it(alice: User) -> None:
    alice.loopback_only = True
    sessions = SessionStore({"alice": alice})
    token = sessions.create(alice)
    assert sessions.user_of(token, ELSEWHERE) is None
    assert sessions.user_of(token, HERE) is alice


def test_a_session_lasts_no_longer_than_the_token_of_its_user() -> None:
    sessions = SessionStore({})
    lasting, expired = (User("alice", expires_at=at) for at in (1e12, 1.0))
    assert sessions.user_of(sessions.create(lasting), HERE) is lasting
    assert sessions.user_of(sessions.create(expired), HERE) is None


def test_the_number_of_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch, alice: User) -> None:
    monkeypatch.setattr(session, "SESSIONS_PER_USER_MAX", 2)
    monkeypatch.setattr(session, "SESSIONS_MAX", 3)
    bob = User("bob")
    assert bob.expires_at == math.inf
    sessions = SessionStore({"alice": alice, "bob": bob})
    first, second = sessions.create(alice), sessions.create(alice)
    assert sessions.user_of(first, HERE) is alice  # used last
    third = sessions.create(alice)
    assert sessions.user_of(second, HERE) is None
    of_bob = sessions.create(bob)
    sessions.create(bob)
    assert len(sessions.by_token) == 3
    assert sessions.user_of(first, HERE) is None, "unused for longest"
    assert sessions.user_of(third, HERE) is alice
    assert sessions.user_of(of_bob, HERE) is bob


def test_cookies() -> None:
    name, value = cookie("abc", is_tls=False)
    assert name == "set-cookie"
    assert value == "embermq-session=abc; Path=/; HttpOnly; SameSite=Strict"
    assert cookie("abc", is_tls=True)[1].endswith("; Secure")
    assert "Max-Age=0" in cookie("", is_tls=False)[1]
    assert token_in("a=b; embermq-session=abc; c") == "abc"
    assert token_in("a=b") == token_in("") == ""
