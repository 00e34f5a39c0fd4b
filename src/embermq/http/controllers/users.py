"""Users, their passwords, and their logins: tried (`/api/login`) and counted (`/api/auth/attempts`)."""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from embermq.broker.broker import Broker
from embermq.broker.security.password import NO_PASSWORD, SHA256, Secret, hash_password
from embermq.broker.security.user import User
from embermq.http.controllers.exchanges import in_order
from embermq.http.controllers.limits import USER_LIMITS, limits_from
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import MANAGEMENT, HTTPAuthenticator, aside, require_tag
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import (
    QUERY_FIELDS_MAX,
    Request,
    Response,
    bad_request,
    echoed,
    not_found,
    require_keys,
    text,
)
from embermq.http.stats.login_counts import LoginCounts
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import user_view

SALT_BYTES = 4  # as RabbitMQ has it
GONE = "user '{}' is deleted"


def user_named(request: Request, key: str = "name") -> User:
    user = request.context.broker.users.get(request.names[key])
    if user is None:
        raise not_found()
    return user


@describes("Users.", query=LIST, answer=schemas.listed(schemas.USER))
async def all_users(request: Request) -> Response:
    return await listing(request, in_order(request.context.broker.users), user_view)


@describes("Users without permissions in any virtual host.", query=LIST, answer=schemas.listed(schemas.USER))
async def users_without_permissions(request: Request) -> Response:
    users = [user for user in request.context.broker.users.values() if not user.permissions]
    return await listing(request, users, user_view)


@describes("A user.", query=COLUMNS, answer=schemas.USER)
def one_user(request: Request) -> Response:
    return single(request, user_view(user_named(request)))


@describes(
    "Make a user, or give one another password or other tags.",
    body=schemas.USER_BODY,
    status=(201, 204),
)
async def put_user(request: Request) -> Response:
    name, body, broker = clean(request.names["name"]), request.json(), request.context.broker
    new = await aside(broker, lambda: user_from(name, body))
    existed = name in broker.users
    store_user(broker, new)
    return Response(204 if existed else 201)


def store_user(broker: Broker, new: User) -> None:
    existing = broker.users.get(new.name)
    if existing is None:
        broker.users.add(new)
        return
    broker.users.update(existing, new)
    for name, value in new.limits.items():
        broker.users.limit(existing, name, value)


def user_from(name: str, body: dict[str, Any]) -> User:
    """A user as the API and definitions files describe one. Slow where it has a password to be hashed."""
    if not name:
        raise bad_request("a user needs a name")
    if "tags" not in body:
        raise bad_request("tags_not_present")
    tags, limits = tags_of(body["tags"]), limits_from(body.get("limits", {}), USER_LIMITS, "user-limits")
    return User(name, secret_from(body), tags, limits=limits)


def secret_from(body: dict[str, Any]) -> Secret:
    if "password" in body and "password_hash" in body:
        raise bad_request("both_password_and_password_hash_are_provided")
    if "password" in body:
        return Secret.of(clean_password(text(body, "password")).encode())
    if not body.get("password_hash"):
        return NO_PASSWORD
    try:
        return Secret.from_hash(text(body, "password_hash"), text(body, "hashing_algorithm"))
    except ValueError as error:
        raise bad_request(str(error)) from None


def clean_password(password: str) -> str:
    try:
        password.encode("utf-8")
    except UnicodeEncodeError:
        raise bad_request("the password is not valid Unicode") from None
    return password


def tags_of(value: object) -> frozenset[str]:
    """A list, or text with commas."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise bad_request("tags must be a list of text")
    return frozenset(clean(tag.strip()) for tag in value if tag.strip())


@describes("Delete a user.", status=204)
async def delete_user(request: Request) -> Response:
    await remove_user(request, user_named(request))
    return Response(204)


async def remove_user(request: Request, user: User) -> None:
    """First the user, so that there are no new logins, then the connections of that user."""
    steps = Steps(request.context.scheduler)
    request.context.broker.users.delete(user)
    for _ in request.context.sessions.close_all(GONE.format(user.name), user=user.name):
        await steps.pause()


@describes("Delete several users.", body=schemas.USERS_BODY, status=204)
async def bulk_delete_users(request: Request) -> Response:
    names = request.json().get("users", [])
    if not isinstance(names, list):
        raise bad_request("users must be a list")
    users = request.context.broker.users
    for name in names:
        if not isinstance(name, str) or name not in users:
            raise bad_request(["no_such_user", echoed(name)])
    for name in dict.fromkeys(names):
        if name in users:  # no other request has deleted it meanwhile
            await remove_user(request, users[name])
    return Response(204)


@describes(
    "A password as the `password_hash` of a user, here and in RabbitMQ.",
    body=schemas.PASSWORD_BODY,
    answer=schemas.every(ok=schemas.TEXT),
)
def hash_a_password(request: Request) -> Response:
    body = request.json()
    require_keys(body, "password")
    return hashed(text(body, "password"))


@describes(
    "The same, as RabbitMQ 4 has it: a password in an address may end up in somebody's log.",
    answer=schemas.every(ok=schemas.TEXT),
)
def hash_password_in_path(request: Request) -> Response:
    return hashed(request.names["password"])


def hashed(password: str) -> Response:
    salt, data = os.urandom(SALT_BYTES), password.encode("utf-8", "surrogateescape")
    return Response.of({"ok": base64.b64encode(salt + hash_password(data, salt, SHA256)).decode()})


# -- logins


def login_counts(request: Request) -> LoginCounts:
    if request.names["node"] != request.context.node:
        raise not_found()
    return request.context.logins


@describes("Logins by protocol.", answer=schemas.list_of(schemas.OBJECT))
def logins_by_protocol(request: Request) -> Response:
    found = login_counts(request).protocols
    return Response.of([attempts.view(protocol) for protocol, attempts in sorted(found.items())])


@describes("Logins by address, user and protocol; the last thousand.", answer=schemas.list_of(schemas.OBJECT))
def logins_by_source(request: Request) -> Response:
    views = [
        {"remote_address": address, "username": user, **attempts.view(protocol)}
        for (address, user, protocol), attempts in sorted(login_counts(request).sources.items())
    ]
    return Response.of(views)


@describes("Forget the logins.", status=204)
def reset_logins(request: Request) -> Response:
    counts = login_counts(request)
    counts.protocols.clear()
    counts.sources.clear()
    return Response(204)


@describes(
    "Is this a name and its password? As a form of a page sends them.",
    body=schemas.every(username=schemas.TEXT, password=schemas.TEXT),
    answer=schemas.TEXT,
)
async def log_in(request: Request) -> Response:
    """It opens no session: every request names its user."""
    try:
        form = dict(parse_qsl(request.body.decode("latin-1"), max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        raise bad_request("too many fields") from None
    pair = f"{form.get('username', '')}:{form.get('password', '')}".encode("utf-8", "surrogateescape")
    authenticator = HTTPAuthenticator(request.context.broker, request.context.console_sessions)
    asking = replace(request, headers={"authorization": f"Basic {base64.b64encode(pair).decode()}"})
    require_tag(await authenticator.admit(asking), MANAGEMENT)
    return Response.of("ok")
