"""Checks of a published message: permission to publish it, and properties that few messages carry.

The user-id must be the user's own, so that receivers can trust it; the expiration must be a number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from embermq.broker.queue.arguments import TTL_MS_MAX
from embermq.broker.security.user import User
from embermq.errors import AccessRefused, PreconditionFailed
from embermq.wire import methods
from embermq.wire.content import ABSENT, Peek
from embermq.wire.kernel import cut

if TYPE_CHECKING:
    from embermq.amqp.channel.channel import Channel
    from embermq.broker.exchange.exchange import Exchange

BASIC_PUBLISH = methods.BasicPublish.ID
REPLY_TO = "amq.rabbitmq.reply-to"
IMPERSONATOR = "impersonator"  # RabbitMQ's tag for users that may write other names


def check_rare_properties(buf: bytearray, peek: Peek, user: User, reply_queue: object | None = None) -> None:
    check_reply_to(buf, peek, reply_queue)
    if peek.user_id_at != ABSENT:
        user_id = shortstr_at(buf, peek.user_id_at)
        if user_id != user.name and IMPERSONATOR not in user.tags:
            raise PreconditionFailed(
                f"user_id property set to '{user_id}' but authenticated user was '{user.name}'",
                blame=BASIC_PUBLISH,
            )
    if peek.expiration_at != ABSENT:
        expiration = shortstr_at(buf, peek.expiration_at)
        problem = expiration_problem(expiration)
        if problem:
            raise PreconditionFailed(f"invalid expiration '{expiration}': {problem}", blame=BASIC_PUBLISH)


def check_reply_to(buf: bytearray, peek: Peek, reply_queue: object | None) -> bool:
    """Does the message ask for a direct reply? Only a channel that waits for such may."""
    if peek.reply_to_at == ABSENT or shortstr_at(buf, peek.reply_to_at) != REPLY_TO:
        return False
    if reply_queue is None:
        raise PreconditionFailed("fast reply consumer does not exist", blame=BASIC_PUBLISH)
    return True


def exchange_to_write(channel: Channel, name: str, routing_key: str) -> Exchange:
    """The exchange, if the user may publish there with that key."""
    vhost = channel.vhost
    # First: without permission to write to it, a client may not learn whether it exists, either.
    channel.user.require("write", vhost.name, "exchange", name)
    exchange: Exchange = vhost.exchange(name)
    if exchange.internal:
        raise AccessRefused(f"cannot publish to internal exchange '{name}' in vhost '{vhost.name}'")
    require_topic(channel, "write", exchange, routing_key)
    return exchange


def require_topic(channel: Channel, right: str, exchange: Exchange, *routing_keys: str) -> None:
    """Topic permissions look at the routing keys of topic exchanges; few users have any."""
    user = channel.user
    if exchange.type != "topic" or not user.looks_at_topics(channel.vhost.name):
        return
    client_id = channel.connection.client_properties.get("client_id")
    variables = {"client_id": client_id} if isinstance(client_id, str) else {}
    for routing_key in routing_keys:
        user.require_topic(right, channel.vhost.name, exchange.name, routing_key, variables)


def shortstr_at(buf: bytearray, pos: int) -> str:
    return cut(buf, pos + 1, pos + 1 + buf[pos]).decode("utf-8", "surrogateescape")


def expiration_problem(expiration: str) -> str | None:
    """What RabbitMQ says of an expiration that is no number of milliseconds."""
    match = re.match(r"[-+]?[0-9]+", expiration)
    if match is None:
        return "no_integer"
    rest = expiration[match.end() :]
    if rest:
        return f'{{leftover_string,"{rest}"}}'
    number = int(match.group())
    if number < 0:
        return f"{{value_negative,{number}}}"
    return f"{{value_too_large,{number}}}" if number > TTL_MS_MAX else None
