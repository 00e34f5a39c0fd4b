"""Authentication and authorisation of requests: the user, and whether the tags of that user open the route.

A request names its user by HTTP authentication, or by the cookie of a session. What the console asks (a
header says so) counts for the user of its session only, whatever password the browser remembers, and is never
answered with a challenge, for which the browser would open a window of its own. Without that header the
cookie is good for reading only.

Users are those of AMQP, with RabbitMQ's tags:

    management     sees and changes what it has AMQP permissions for
    policymaker    management, and policies and parameters
    monitoring     management, and sees all connections, channels and nodes
    administrator  everything
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import TypeVar, cast

from embermq.broker.broker import Broker
from embermq.broker.security.authenticator import Login
from embermq.broker.security.user import User
from embermq.http.server.request import Refusal, Request, not_authorised, not_found
from embermq.http.server.session import SessionStore, token_in

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = (
    "administrator",
    "monitoring",
    "policymaker",
    "management",
)
ALLOWED_TAGS: dict[str, frozenset[str]] = {
    ADMINISTRATOR: frozenset({ADMINISTRATOR}),
    MONITORING: frozenset({ADMINISTRATOR, MONITORING}),
    POLICYMAKER: frozenset({ADMINISTRATOR, POLICYMAKER}),
    MANAGEMENT: frozenset({ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT}),
}
REASONS = {
    ADMINISTRATOR: "Not administrator user",
    MONITORING: "Not monitor user",
    POLICYMAKER: "User not authorised to access object",
    MANAGEMENT: "Not management user",
}
# RabbitMQ's word: Perl's LWP and others give a password only to the realm that they have it for.
CHALLENGE = (("www-authenticate", 'Basic realm="RabbitMQ Management"'),)
LOGIN_FAILED = "Login failed"
NOT_SIGNED_IN = "Not signed in"
CONSOLE_HEADER = "x-embermq-console"  # no page of another site can send it

T = TypeVar("T")


class HTTPAuthenticator:
    """Asks the broker for the user of a request. Slow hashes are computed aside: messages do not wait."""

    def __init__(self, broker: Broker, sessions: SessionStore) -> None:
        self.broker = broker
        self.sessions = sessions

    async def admit(self, request: Request) -> User:
        from_console = CONSOLE_HEADER in request.headers
        if from_console or ("authorization" not in request.headers and request.method in ("GET", "HEAD")):
            user = self.sessions.user_of(token_in(request.headers.get("cookie", "")), request.peer_address)
            if user is not None:
                return user
            if from_console:
                raise Refusal(401, "not_authorized", NOT_SIGNED_IN)
        name, password = credentials(request.headers.get("authorization", ""))
        future: asyncio.Future[Login] = asyncio.get_running_loop().create_future()

        def done(login: Login) -> None:
            if not future.done():
                future.set_result(login)

        self.broker.authenticator.check(name, password, request.peer_address, done)
        found, problem = await future
        events = self.broker.events
        if found is None:
            problem = f"user '{name}' - {problem}"
            events.emit("user.authentication.failure", http_login, name, request.peer_address, problem)
            raise refused(LOGIN_FAILED)
        events.emit("user.authentication.success", http_login, found.name, request.peer_address)
        return found


async def aside(broker: Broker, work: Callable[[], T]) -> T:
    """Something slow (a hash), in the thread that the broker has for that."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def attempt() -> tuple[T | None, Exception | None]:
        try:
            return work(), None
        except Exception as error:
            return None, error

    def done(outcome: tuple[T | None, Exception | None]) -> None:
        result, error = outcome
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast(T, result))

    broker.authenticator.run_aside(attempt, done)
    return await future


def http_login(name: str, peer_host: str, error: str = "") -> dict[str, object]:
    told: dict[str, object] = {"name": name, "peer_host": peer_host, "connection_type": "http"}
    return told | ({"error": error} if error else {})


def refused(reason: str) -> Refusal:
    return Refusal(401, "not_authorized", reason, CHALLENGE)


def credentials(authorization: str) -> tuple[str, bytes]:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return "", encoded.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() != "basic":
        raise refused(LOGIN_FAILED)
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise refused(LOGIN_FAILED) from None
    name, _, password = decoded.partition(b":")
    return name.decode("utf-8", "surrogateescape"), password


def require_tag(user: User, level: str) -> None:
    if not user.tags & ALLOWED_TAGS[MANAGEMENT]:
        raise not_authorised(REASONS[MANAGEMENT])
    if not user.tags & ALLOWED_TAGS[level]:
        raise not_authorised(REASONS[level])


def sees_everything(user: User) -> bool:
    return bool(user.tags & ALLOWED_TAGS[MONITORING])


def may_enter(user: User, vhost: str) -> bool:
    return user.may_enter(vhost)


def may_govern(user: User, vhost: str) -> bool:
    """See the policies of a virtual host; users who may also change them have a tag that says so."""
    return may_enter(user, vhost) or ADMINISTRATOR in user.tags


def require_vhost(request: Request, vhost: str, *, to_see: bool = False) -> None:
    """The virtual host must be there, and the user must have permissions in it (or a tag that sees all)."""
    if vhost not in request.context.broker.vhosts:
        raise Refusal(404, "not_found", "vhost_not_found") if not to_see else not_found()
    if not may_enter(request.user, vhost) and not (to_see and sees_everything(request.user)):
        raise not_authorised("User not authorised to access virtual host")
