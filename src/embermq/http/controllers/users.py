"""Users and their permissions."""

from __future__ import annotations

import base64
import os
from typing import Any

from embermq.broker.broker import Broker
from embermq.broker.security.password import NO_PASSWORD, SHA256, Secret, hash_password
from embermq.broker.security.safe_regex import PatternError, compile_pattern
from embermq.broker.security.user import RIGHTS, Permission, User
from embermq.http.controllers.exchanges import in_order
from embermq.http.controllers.limits import USER_LIMITS, limits_from
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import aside
from embermq.http.server.cooperative import Pace
from embermq.http.server.request import Request, Response, bad_request, echoed, not_found, require_keys, text
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import View, permission_view, user_view

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
        broker.add_user(new)
        return
    broker.update_user(existing, new)
    for name, value in new.limits.items():
        broker.limit_user(existing, name, value)


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
    """First the user, who cannot come again then, and then all who are here in that name."""
    pace = Pace(request.context.gate)
    request.context.broker.delete_user(user)
    for _ in request.context.sessions.close_all(GONE.format(user.name), user=user.name):
        await pace.breathe()


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
        if name in users:  # nobody else has asked for the same meanwhile
            await remove_user(request, users[name])
    return Response(204)


# -- permissions


def permission_views(users: list[User]) -> list[View]:
    return [permission_view(user, vhost, p) for user in users for vhost, p in user.permissions.items()]


def user_of(view: View) -> str:
    return str(view["user"])


@describes("Permissions.", query=LIST, answer=schemas.listed(schemas.PERMISSION))
async def all_permissions(request: Request) -> Response:
    views = permission_views(list(request.context.broker.users.values()))
    return await listing(request, views, lambda view: view, user_of)


@describes("Permissions of a user.", query=LIST, answer=schemas.listed(schemas.PERMISSION))
async def permissions_of_user(request: Request) -> Response:
    views = permission_views([user_named(request)])
    return await listing(request, views, lambda view: view, user_of)


@describes("Permissions in a virtual host.", query=LIST, answer=schemas.listed(schemas.PERMISSION))
async def permissions_in_vhost(request: Request) -> Response:
    vhost = request.names["vhost"]
    if vhost not in request.context.broker.vhosts:
        raise not_found()
    views = permission_views(list(request.context.broker.users.values()))
    return await listing(request, [v for v in views if v["vhost"] == vhost], lambda view: view, user_of)


@describes("Permissions of a user in a virtual host.", query=COLUMNS, answer=schemas.PERMISSION)
def one_permission(request: Request) -> Response:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    if vhost not in user.permissions:
        raise not_found()
    return single(request, permission_view(user, vhost, user.permissions[vhost]))


@describes("Give a user permissions in a virtual host.", body=schemas.PERMISSION_BODY, status=(201, 204))
def put_permission(request: Request) -> Response:
    user, vhost = user_and_vhost(request)
    body = request.json()
    require_keys(body, "configure", "write", "read")
    existed = vhost in user.permissions
    request.context.broker.grant(user, vhost, permission_from(body))
    return Response(204 if existed else 201)


def user_and_vhost(request: Request) -> tuple[User, str]:
    """Those that the path names, looked for before the body is."""
    broker, vhost = request.context.broker, request.names["vhost"]
    user = broker.users.get(request.names["user"])
    if user is None or vhost not in broker.vhosts:
        raise bad_request("vhost_or_user_not_found")
    return user, vhost


def permission_from(body: dict[str, Any]) -> Permission:
    return Permission(**{right: pattern(body, right) for right in RIGHTS})


def pattern(body: dict[str, Any], right: str) -> str:
    """A regular expression that will not take for ever."""
    try:
        compile_pattern(text(body, right))
    except PatternError as error:
        raise bad_request(["invalid_regexp", text(body, right)[:100], str(error)]) from None
    return text(body, right)


@describes("Take the permissions away.", status=204)
def delete_permission(request: Request) -> Response:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    if vhost not in user.permissions:
        raise not_found()
    request.context.broker.revoke(user, vhost)
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
