"""Properties that few messages carry and that RabbitMQ refuses a message for.

The user-id must be the user's own, so that receivers can trust it; the expiration must be a number.
"""

from __future__ import annotations

import re

from embermq.broker.access import User
from embermq.broker.arguments import TTL_MS_MAX
from embermq.errors import PreconditionFailed
from embermq.wire import methods
from embermq.wire.content import ABSENT, Peek
from embermq.wire.kernel import cut

BASIC_PUBLISH = methods.BasicPublish.ID
IMPERSONATOR = "impersonator"  # RabbitMQ's tag for users who may write other names


def check_rare_properties(buf: bytearray, peek: Peek, user: User) -> None:
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


def shortstr_at(buf: bytearray, pos: int) -> str:
    return cut(buf, pos + 1, pos + 1 + buf[pos]).decode("utf-8", "surrogateescape")


def expiration_problem(expiration: str) -> str | None:
    """What RabbitMQ says of an expiration that is no number of milliseconds; the empty one is none at all."""
    match = re.match(r"-?[0-9]+", expiration)
    if match is None:
        return "no_integer" if expiration else None
    rest = expiration[match.end() :]
    if rest:
        return f'{{leftover_string,"{rest}"}}'
    number = int(match.group())
    if number < 0:
        return f"{{value_negative,{number}}}"
    return f"{{value_too_large,{number}}}" if number > TTL_MS_MAX else None
