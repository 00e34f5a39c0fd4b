"""Class connection: start, secure, tune, open, close."""

from __future__ import annotations

import logging
import math
import platform
from functools import partial
from typing import TYPE_CHECKING

from embermq import __version__
from embermq.amqp.connection import login
from embermq.amqp.connection.state import OPEN, OPENING
from embermq.amqp.connection.vhost_admission import enter
from embermq.amqp.events import connection_created
from embermq.broker.security.authenticator import Login
from embermq.errors import AMQPError, NotAllowed
from embermq.wire import methods
from embermq.wire.constants import FRAME_MIN_SIZE

if TYPE_CHECKING:
    from embermq.amqp.connection.connection import Connection

log = logging.getLogger("embermq.connection")

# Only what really works: clients choose their behaviour by it.
CAPABILITIES: dict[str, object] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "consumer_priorities": True,
    "direct_reply_to": True,
    "embermq.stream_blocks": True,
}
SERVER_PROPERTIES: dict[str, object] = {
    "product": "EmberMQ",
    "version": __version__,
    "platform": f"Python {platform.python_version()}",
    "copyright": "The EmberMQ authors",
    "information": "Licensed under the Apache License 2.0",
    "capabilities": CAPABILITIES,
}


def start_method(connection: Connection) -> methods.ConnectionStart:
    major, minor = connection.dialect.version
    properties = SERVER_PROPERTIES
    if not connection.dialect.has_booleans:
        properties = {name: value for name, value in properties.items() if name != "capabilities"}
    return methods.ConnectionStart(
        version_major=major,
        version_minor=minor,
        server_properties=properties,
        mechanisms=" ".join(login.offered_to(connection)).encode(),
        locales=b"en_US",
    )


def on_connection_start_ok(connection: Connection, method: methods.ConnectionStartOk) -> None:
    connection.client_properties = method.client_properties
    capabilities = method.client_properties.get("capabilities")
    connection.capabilities = capabilities if isinstance(capabilities, dict) else {}
    # kombu takes any broker that is not "RabbitMQ" at the specification's word, where qos with global=false
    # is for the whole channel; so that is what its library gets (docs/decisions/0007-our-own-name.md).
    connection.spec_qos = method.client_properties.get("product") == "py-amqp"
    login.begin(connection, method.mechanism, method.response)


def on_connection_secure_ok(connection: Connection, method: methods.ConnectionSecureOk) -> None:
    login.go_on(connection, method.response)


def on_connection_tune_ok(connection: Connection, method: methods.ConnectionTuneOk) -> None:
    limits = connection.limits
    connection.channel_max = negotiated("channel_max", method.channel_max, 1, limits.channel_max)
    connection.frame_max = negotiated("frame_max", method.frame_max, FRAME_MIN_SIZE, limits.frame_max)
    # Some clients forget that frame-max counts the frame's own eight bytes too; RabbitMQ lets them.
    connection.frame_size_max = connection.frame_max
    connection.heartbeat_s = method.heartbeat
    connection.transport.heartbeat_negotiated(method.heartbeat)
    connection.state = OPENING


def negotiated(name: str, wanted: int, minimum: int, maximum: int) -> int:
    """The client's choice within ours; 0 is no choice, so ours stands."""
    if wanted == 0:
        return maximum
    if wanted < minimum:
        raise NotAllowed(f"negotiated {name} = {wanted} is lower than the minimum allowed value ({minimum})")
    if wanted > maximum:
        raise NotAllowed(f"negotiated {name} = {wanted} is higher than the maximum allowed value ({maximum})")
    return wanted


def on_connection_open(connection: Connection, method: methods.ConnectionOpen) -> None:
    user = connection.user
    assert user is not None
    vhost = enter(connection.broker, user, method.virtual_host, connection.limits.connections_max)
    connection.vhost = vhost
    vhost.past.connections_opened += 1
    connection.state = OPEN
    connection.send(0, methods.ConnectionOpenOk())
    connection.announced = True
    with connection.broker.events.acting(user.name):
        connection.broker.events.emit("connection.created", connection_created, connection)
    log.info("%s: user %r in vhost %r", connection.name, user.name, vhost.name, extra=connection.log_extra())


def on_connection_close(connection: Connection, method: methods.ConnectionClose) -> None:
    connection.send(0, methods.ConnectionCloseOk())
    connection.end(in_order=True)


def on_connection_update_secret(connection: Connection, method: methods.ConnectionUpdateSecret) -> None:
    """A new token for the old; passwords do not expire, so with one nothing changes."""
    tokens, user = connection.broker.authenticator.tokens, connection.user
    assert user is not None
    if tokens is not None and user.expires_at != math.inf:
        tokens.login(method.new_secret, connection.peer_address, partial(take_new_secret, connection))
    else:
        connection.send(0, methods.ConnectionUpdateSecretOk())


def take_new_secret(connection: Connection, found: Login) -> None:
    """What the new token says, as soon as it is known: the key may have had to be fetched."""
    if connection.state != OPEN:
        return
    try:
        renew_user(connection, found)
    except AMQPError as error:
        connection.refuse(error)
        return
    connection.send(0, methods.ConnectionUpdateSecretOk())


def renew_user(connection: Connection, found: Login) -> None:
    user, new = connection.user, found.user
    assert user is not None and connection.vhost is not None
    if new is None or new.name != user.name:
        text = "%s: new secret refused: %s"
        log.warning(text, connection.name, found.problem, extra=connection.log_extra())
        raise NotAllowed("New secret was refused by one of the backends")
    if not new.may_enter(connection.vhost.name):
        raise NotAllowed(f"access to vhost '{connection.vhost.name}' refused for user '{user.name}'")
    new.connection_count, new.channel_count = user.connection_count, user.channel_count
    login.be(connection, new)
    for channel in connection.channels.values():
        channel.change_user(new)
