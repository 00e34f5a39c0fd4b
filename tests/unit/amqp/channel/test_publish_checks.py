"""Properties that a message is refused for."""

from __future__ import annotations

import pytest

from embermq.amqp.channel.publish_checks import check_rare_properties, expiration_problem
from embermq.broker.security.user import User
from embermq.errors import PreconditionFailed
from embermq.wire.content import Peek
from embermq.wire.properties import Properties


def check(properties: Properties, user: User) -> None:
    data = bytearray(b"before" + properties.encode())
    peek = Peek()
    peek.read(data, 6, len(data))
    check_rare_properties(data, peek, user)


def user(*tags: str) -> User:
    return User("guest", tags=frozenset(tags))


def test_the_user_id_is_the_users_own() -> None:
    check(Properties(user_id="guest", expiration="60000", type="t" * 255), user())
    check(Properties(), user())
    with pytest.raises(PreconditionFailed) as refusal:
        check(Properties(user_id="somebody"), user("administrator"))
    assert refusal.value.detail == "user_id property set to 'somebody' but authenticated user was 'guest'"
    check(Properties(user_id="somebody"), user("impersonator"))


@pytest.mark.parametrize(
    ("expiration", "problem"),
    [
        ("", "no_integer"),
        ("0", None),
        ("+1", None),
        ("60000", None),
        ("315360000000", None),
        ("315360000001", "{value_too_large,315360000001}"),
        ("-1", "{value_negative,-1}"),
        ("soon", "no_integer"),
        ("1.5", '{leftover_string,".5"}'),
        ("10 ", '{leftover_string," "}'),
        (" 10", "no_integer"),
        ("٣", "no_integer"),
    ],
)
def test_expirations(expiration: str, problem: str | None) -> None:
    assert expiration_problem(expiration) == problem
    if problem is None:
        check(Properties(expiration=expiration), user())
    else:
        with pytest.raises(PreconditionFailed) as refusal:
            check(Properties(expiration=expiration), user())
        assert refusal.value.detail == f"invalid expiration '{expiration}': {problem}"
