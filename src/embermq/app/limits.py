"""Limits and defaults from the settings: for queues, for connections, for logins."""

from __future__ import annotations

from embermq.amqp.connection.transport import Limits
from embermq.broker.queue.template import Defaults, Templates
from embermq.config import Config, ConfigError
from embermq.errors import PreconditionFailed
from embermq.net.login_admission import Room


def defaults_of(config: Config) -> Defaults:
    return Defaults(config.default_delivery_limit, config.consumer_timeout, templates_of(config))


def templates_of(config: Config) -> Templates:
    try:
        return Templates(config.templates)
    except PreconditionFailed as error:
        raise ConfigError(error.detail, ("templates",)) from None


def room_of(config: Config) -> Room:
    """Of connections that have not logged in."""
    limits = config.limits
    return Room(limits.unauthenticated, limits.unauthenticated_per_address, limits.unauthenticated_waiting)


def limits_of(config: Config) -> Limits:
    """What new connections are told and held to."""
    auth = config.auth
    return Limits(
        config.frame_max,
        config.channel_max,
        config.heartbeat,
        config.max_message_size,
        auth.mechanisms,
        auth.anonymous_user,
        auth.refusal_pause_s,
        config.limits.connections,
    )
