"""Handlers of what the broker sends on channel 0: the handshake, close, blocked and unblocked."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, cast

from embermq import __version__
from embermq.client.core.login import MECHANISMS
from embermq.client.errors import AuthenticationFailed, ConnectionClosed, ConnectionFailed, connection_closed
from embermq.wire.frame import method_frame
from embermq.wire.methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecretOk,
    Method,
)

if TYPE_CHECKING:
    from embermq.client.core.engine import Engine

HANDSHAKE = 1  # of core.engine's states
FRAME_BYTES_MAX = 0x7FFF_FFFF
CHANNELS_MAX = 65535
REFUSALS = (402, 403, 530)  # reply codes that refuse a user or a virtual host


def smaller_limit(ours: int, theirs: int, unlimited: int) -> int:
    """Zero means no limit on both sides."""
    return min(ours or unlimited, theirs or unlimited)


def client_properties(engine: Engine) -> dict[str, object]:
    properties: dict[str, object] = {
        "product": "EmberMQ client",
        "version": __version__,
        "platform": f"Python {platform.python_version()}",
        "capabilities": {
            "publisher_confirms": True,
            "exchange_exchange_bindings": True,
            "basic.nack": True,
            "consumer_cancel_notify": True,
            "connection.blocked": True,
            "authentication_failure_close": True,
        },
    }
    return properties | dict(engine.settings.client_properties)


def on_start(engine: Engine, method: Method) -> None:
    start = cast(ConnectionStart, method)
    engine.server_properties = start.server_properties
    settings = engine.settings
    mechanisms = start.mechanisms.decode("ascii", "replace").split()
    if settings.mechanism not in mechanisms:
        engine.shell.ended(
            AuthenticationFailed(
                f"the broker does not accept {settings.mechanism} authentication, it offers "
                f"{', '.join(mechanisms)}: choose one with ?auth_mechanism="
            )
        )
        return
    engine.login = login = MECHANISMS[settings.mechanism](settings.username, settings.password)
    answer = ConnectionStartOk(client_properties(engine), settings.mechanism, login.first(), settings.locale)
    engine.buffer.write(method_frame(0, answer))


def on_secure(engine: Engine, method: Method) -> None:
    try:
        answer = engine.login.answer(cast(ConnectionSecure, method).challenge)
    except AuthenticationFailed as error:
        engine.shell.ended(error)
        return
    engine.buffer.write(method_frame(0, ConnectionSecureOk(answer)))


def on_tune(engine: Engine, method: Method) -> None:
    tune = cast(ConnectionTune, method)
    try:
        engine.login.accepted()
    except AuthenticationFailed as error:
        engine.shell.ended(error)
        return
    settings = engine.settings
    engine.channel_max = smaller_limit(settings.channel_max, tune.channel_max, CHANNELS_MAX)
    engine.buffer.frame_max = smaller_limit(settings.frame_max, tune.frame_max, FRAME_BYTES_MAX)
    # As RabbitMQ's own clients: what we are asked for, or what the broker proposes; zero switches it off.
    engine.heartbeat_s = tune.heartbeat if settings.heartbeat_s is None else settings.heartbeat_s
    answer = ConnectionTuneOk(engine.channel_max, engine.buffer.frame_max, engine.heartbeat_s)
    engine.buffer.write(method_frame(0, answer) + method_frame(0, ConnectionOpen(settings.virtual_host)))


def on_open_ok(engine: Engine, method: Method) -> None:
    engine.handshake_done()


def on_close(engine: Engine, method: Method) -> None:
    close = cast(ConnectionClose, method)
    engine.buffer.write(method_frame(0, ConnectionCloseOk()))
    code, text = close.reply_code, close.reply_text
    if engine.state != HANDSHAKE:
        engine.shell.ended(connection_closed(code, text, close.class_id, close.method_id))
        return
    kind = AuthenticationFailed if code in REFUSALS else ConnectionFailed
    settings = engine.settings
    # A certificate names the user; the name and password of the settings were not sent.
    external = settings.mechanism == "EXTERNAL"
    user = "the client's certificate" if external else f"user '{settings.username}'"
    engine.shell.ended(
        kind(
            f"the broker refused {user} at virtual host '{settings.virtual_host}': {code} {text}",
            reply_code=code,
            reply_text=text,
        )
    )


def on_close_ok(engine: Engine, method: Method) -> None:
    engine.shell.ended(ConnectionClosed("the connection was closed by its user"))


def on_blocked(engine: Engine, method: Method) -> None:
    engine.blocked_reason = cast(ConnectionBlocked, method).reason
    engine.happened("blocked", None, engine.blocked_reason)


def on_unblocked(engine: Engine, method: Method) -> None:
    engine.blocked_reason = None
    engine.happened("unblocked", None, None)


def on_update_secret_ok(engine: Engine, method: Method) -> None:
    if engine.update_secret:
        engine.update_secret.pop(0).answered(method)


CONNECTION_HANDLERS = {
    ConnectionStart.ID: on_start,
    ConnectionSecure.ID: on_secure,
    ConnectionTune.ID: on_tune,
    ConnectionOpenOk.ID: on_open_ok,
    ConnectionClose.ID: on_close,
    ConnectionCloseOk.ID: on_close_ok,
    ConnectionBlocked.ID: on_blocked,
    ConnectionUnblocked.ID: on_unblocked,
    ConnectionUpdateSecretOk.ID: on_update_secret_ok,
}
