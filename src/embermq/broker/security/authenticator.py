"""Authentication: passwords, tokens and names proven elsewhere become users, or a refusal with a reason for
the log.

Hashes are slow on purpose, so they are computed aside (a thread, given by the composition root), and a
password that was right is recognised for a while without. The result goes to a callback: at once
where nothing had to be computed, later where it had. Addresses that fail often have to wait first (see
`login_throttle`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from embermq.broker.security.login_throttle import LoginThrottle
from embermq.broker.security.password import NO_PASSWORD, Secret, quick_digest
from embermq.broker.security.user import User, is_loopback

INVALID = "invalid credentials"
LOCAL_ONLY = "may log in from the broker's own machine only"
TOO_MANY = "too many failed logins from this address"


class Login(NamedTuple):
    user: User | None
    problem: str = ""  # for the log, not for the client


class Question(NamedTuple):
    """A password against a hash: equal questions share one answer."""

    name: str
    digest: bytes
    secret: int  # which one; it may be changed while we compute


Done = Callable[[Login], None]
# Does the first aside, and calls the second with what came of it on the loop's thread.
RunAside = Callable[[Callable[[], Any], Callable[[Any], None]], None]
CallLater = Callable[..., object]


class TokenReader(Protocol):
    """Understands bearer tokens; implemented where the keys are known."""

    def looks_like_token(self, text: bytes) -> bool: ...

    def login(self, token: bytes, address: str, done: Done) -> None: ...


def run_here(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
    done(work())


def call_now(_delay_s: float, action: Callable[[], None]) -> None:
    action()


class Authenticator:
    def __init__(self, users: Mapping[str, User], clock: Callable[[], float] = time.monotonic) -> None:
        self.users = users
        self.clock = clock
        self.login_throttle = LoginThrottle(clock)
        self.cache_s = 600.0
        self.under_way: dict[Question, list[tuple[str, Done]]] = {}  # callbacks by hash
        self.run_aside: RunAside = run_here
        self.call_later: CallLater = call_now
        self.tokens: TokenReader | None = None
        self.on_better_secret: Callable[[User], None] = lambda user: None

    def hear(self, address: str, action: Callable[[], None], refuse: Done) -> None:
        """Do it when it is the address's turn; refuse where that would take too long."""
        wait_s = self.login_throttle.wait_s(address)
        if wait_s is None:
            refuse(Login(None, TOO_MANY))
        elif wait_s:
            self.call_later(wait_s, action)
        else:
            action()

    def check(self, name: str, password: bytes, address: str, done: Done) -> None:
        """All in one step, for mechanisms that send name and password at once."""
        self.hear(address, partial(self.check_password, name, password, address, done), done)

    def check_password(self, name: str, password: bytes, address: str, done: Done) -> None:
        """Is this the password of that user, or a token that we believe?"""
        user = self.users.get(name)
        if user is not None and user.recognises(password, self.clock()):
            self.finish(Login(user), address, done)
        elif self.tokens is not None and self.tokens.looks_like_token(password):
            self.tokens.login(password, address, lambda login: self.finish(login, address, done))
        else:
            self.compute(name, user.secret if user is not None else NO_PASSWORD, password, address, done)

    def compute(self, name: str, secret: Secret, password: bytes, address: str, done: Done) -> None:
        """Compare with the slow hash, aside. Unknown users take as long as known ones: names
        cannot be guessed by the clock either."""
        asked = Question(name, quick_digest(password), id(secret))
        waiting = self.under_way.setdefault(asked, [])
        waiting.append((address, done))
        if len(waiting) > 1:
            return  # a thousand connections of one client are one question

        def compare() -> tuple[bool, Secret | None]:
            fits = secret.fits(password)
            return fits, secret.improved(password) if fits else None

        self.run_aside(compare, lambda found: self.compared(asked, secret, *found))

    def compared(self, asked: Question, secret: Secret, fits: bool, better: Secret | None) -> None:
        """Back on the loop's thread, where the user may have been changed meanwhile."""
        user = self.users.get(asked.name)
        if not fits or user is None or user.secret is not secret:
            login = Login(None, INVALID)
        else:
            login = Login(user)
            user.verified, user.verified_until = asked.digest, self.clock() + self.cache_s
            if better is not None:
                user.secret = better
                self.on_better_secret(user)
        for address, done in self.under_way.pop(asked):
            self.finish(login, address, done)

    def admit(self, name: str, address: str, done: Done) -> None:
        """A name that was proven by other means than a password: a certificate, a challenge."""
        user = self.users.get(name)
        self.finish(Login(user) if user is not None else Login(None, INVALID), address, done)

    def finish(self, login: Login, address: str, done: Done) -> None:
        user = login.user
        if user is not None and user.loopback_only and not is_loopback(address):
            login = Login(None, LOCAL_ONLY)
        if login.user is None:
            self.login_throttle.failed(address)
        done(login)

    def refused(self, address: str) -> None:
        """A login that failed before a user was named."""
        self.login_throttle.failed(address)
