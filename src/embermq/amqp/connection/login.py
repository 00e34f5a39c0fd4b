"""The login of a connection, from connection.start-ok to connection.tune.

It may have to wait: for its turn, where logins from its address failed often, and for a slow hash.
Meanwhile the connection is in state CHECKING, in which it expects nothing but its end.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from embermq.amqp.connection.sasl import Challenge, Credentials, LoginContext, LoginFailed, mechanism, offered
from embermq.amqp.connection.scram import keys_of_nobody
from embermq.amqp.connection.state import CHECKING, SECURE, TUNE, Pause
from embermq.amqp.events import login as login_properties
from embermq.broker.security.authenticator import Login
from embermq.broker.security.password import ScramKeys
from embermq.broker.security.user import User
from embermq.errors import AccessRefused, AMQPError, CommandInvalid
from embermq.wire import methods

if TYPE_CHECKING:
    from embermq.amqp.connection.connection import Connection

log = logging.getLogger("embermq.connection")


def context(connection: Connection) -> LoginContext:
    users = connection.broker.users

    def scram_keys(name: str) -> ScramKeys:
        user = users.get(name)
        return user.secret.scram if user is not None and user.secret.scram else keys_of_nobody(name)

    return LoginContext(connection.certificate_name, connection.limits.anonymous_user, scram_keys)


def mechanisms_for(connection: Connection) -> list[str]:
    return offered(connection.limits.mechanisms, context(connection))


def offered_to(connection: Connection) -> list[str]:
    """What the client is told. Many take EXTERNAL where they have a certificate and see it, and forget the
    password that they have, too: so it is said only to those whose certificate names a user.
    """
    named = connection.certificate_name in connection.broker.users
    return [name for name in mechanisms_for(connection) if name != "EXTERNAL" or named]


def begin(connection: Connection, name: str, response: bytes) -> None:
    if name not in mechanisms_for(connection):
        raise CommandInvalid(f"unknown authentication mechanism '{name}'")
    connection.mechanism = name
    connection.sasl = mechanism(name, context(connection))
    connection.state = CHECKING
    refuse = partial(finish, connection, "")
    connection.broker.authenticator.hear(
        connection.peer_address, partial(go_on, connection, response), refuse
    )


def go_on(connection: Connection, response: bytes) -> None:
    """The client's next response; what comes of it may come later."""
    if connection.state not in (CHECKING, SECURE):
        return  # gone while it waited
    connection.state = CHECKING
    try:
        answer = connection.sasl.respond(response)
    except LoginFailed as failure:
        connection.broker.authenticator.refused(connection.peer_address)
        finish(connection, failure.user, Login(None, failure.problem))
        return
    except AMQPError as error:
        connection.refuse(error)
        return
    if isinstance(answer, Challenge):
        connection.state = SECURE
        connection.resume(Pause.LOGIN)
        connection.send(0, methods.ConnectionSecure(answer.data))
        return
    authenticator, address = connection.broker.authenticator, connection.peer_address
    done = partial(finish, connection, answer.user)
    if isinstance(answer, Credentials):
        authenticator.check_password(answer.user, answer.password, address, done)
    else:
        authenticator.admit(answer.user, address, done)


def finish(connection: Connection, name: str, login: Login) -> None:
    if connection.state != CHECKING:
        return  # gone while we looked
    events = connection.broker.events
    if login.user is None:
        text = "%s: login refused for user %r: %s"
        log.warning(text, connection.name, name, login.problem, extra=connection.log_extra())
        problem = f"user '{name}' - {login.problem}"
        events.emit("user.authentication.failure", login_properties, connection, name, problem)
        connection.refuse(login_refused(connection))
        return
    be(connection, login.user)
    connection.resume(Pause.LOGIN)
    events.emit("user.authentication.success", login_properties, connection, login.user.name, "")
    connection.state = TUNE
    connection.sasl = None
    limits = connection.limits
    connection.send(0, methods.ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_s))


def be(connection: Connection, user: User) -> None:
    connection.user = user
    connection.expires_at = user.expires_at


def login_refused(connection: Connection) -> AccessRefused:
    return AccessRefused(
        f"Login was refused using authentication mechanism {connection.mechanism}. "
        "For details see the broker logfile.",
        scope="connection",
    )
