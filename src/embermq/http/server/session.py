"""Sessions of browsers that signed in: a random token in a cookie stands for a user.

A session is kept in memory and ends with the broker, after IDLE_S_MAX without a request, by signing out, and
when the user is deleted or gets another password or other tags. One user has at most SESSIONS_PER_USER_MAX
of them, and all users together SESSIONS_MAX: the one unused for longest ends first.

A cookie alone changes nothing: see `HTTPAuthenticator.admit`.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from embermq.broker.security.password import Secret
from embermq.broker.security.user import User, is_loopback

COOKIE = "embermq-session"
TOKEN_BYTES = 32
IDLE_S_MAX = 8 * 3600.0
SESSIONS_MAX = 1000
SESSIONS_PER_USER_MAX = 50


@dataclass
class Session:
    user: User
    secret: Secret
    tags: frozenset[str]
    used_at: float


class SessionStore:
    """The sessions by their tokens, the one unused for longest first."""

    def __init__(self, users: Mapping[str, User], clock: Callable[[], float] = time.monotonic) -> None:
        self.users = users
        self.clock = clock
        self.by_token: dict[str, Session] = {}

    def create(self, user: User) -> str:
        own = [token for token, session in self.by_token.items() if session.user is user]
        if len(own) >= SESSIONS_PER_USER_MAX:
            del self.by_token[own[0]]
        elif len(self.by_token) >= SESSIONS_MAX:
            del self.by_token[next(iter(self.by_token))]
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self.by_token[token] = Session(user, user.secret, user.tags, self.clock())
        return token

    def user_of(self, token: str, address: str) -> User | None:
        session = self.by_token.pop(token, None)
        if session is None or not self.is_valid(session):
            return None
        session.used_at = self.clock()
        self.by_token[token] = session
        if session.user.loopback_only and not is_loopback(address):
            return None
        return session.user

    def is_valid(self, session: Session) -> bool:
        user = session.user
        if self.clock() - session.used_at > IDLE_S_MAX:
            return False
        if user.expires_at != math.inf:  # signed in with a token: no user of the store
            return time.time() < user.expires_at
        unchanged = user.secret is session.secret and user.tags == session.tags
        return unchanged and self.users.get(user.name) is user

    def end(self, token: str) -> None:
        self.by_token.pop(token, None)


def token_in(cookies: str) -> str:
    """Of the cookies that a browser sent, ours; "" without one."""
    for cookie in cookies.split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def cookie(token: str, *, is_tls: bool) -> tuple[str, str]:
    """The header that gives a browser its token; without a token, the one that takes it away."""
    ends = "" if token else "; Max-Age=0"
    secure = "; Secure" if is_tls else ""
    return ("set-cookie", f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{ends}{secure}")
