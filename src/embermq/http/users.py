"""Users and their permissions."""

from __future__ import annotations

import base64
import binascii
import os
import re
from typing import Any

from embermq.broker.access import (
    HASHES,
    RABBITMQ_SALT_BYTES,
    SALT_BYTES,
    SCRYPT,
    Permission,
    User,
)
from embermq.broker.broker import Broker
from embermq.http import schemas
from embermq.http.describing import describes
from embermq.http.exchanges import in_order
from embermq.http.listing import COLUMNS, LIST, listing, single
from embermq.http.request import Request, Response, bad_request, echoed, not_found, require_keys, text
from embermq.http.thing_name import clean
from embermq.http.views import View, permission_view, user_view

SHA256 = "rabbit_password_hashing_sha256"  # RabbitMQ's algorithm where none is named
PATTERN_CHARACTERS_MAX = 1000
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
def put_user(request: Request) -> Response:
    name, body = clean(request.names["name"]), request.json()
    existed = name in request.context.broker.users
    store_user(request.context.broker, user_from(name, body))
    return Response(204 if existed else 201)


def store_user(broker: Broker, new: User) -> None:
    existing = broker.users.get(new.name)
    if existing is None:
        broker.add_user(new)
    else:
        broker.update_user(existing, new)


def user_from(name: str, body: dict[str, Any]) -> User:
    """A user as the API and definitions files describe one."""
    if not name:
        raise bad_request("a user needs a name")
    if "tags" not in body:
        raise bad_request("tags_not_present")
    tags = tags_of(body["tags"])
    if "password" in body:
        return User.with_password(name, clean_password(text(body, "password")), tags=tags)
    if not body.get("password_hash"):
        return User(name, os.urandom(SALT_BYTES), b"", tags)  # nobody can log in with that
    algorithm = body.get("hashing_algorithm") or SHA256
    if algorithm not in HASHES:
        raise bad_request(f"hashing algorithm {algorithm!r} is not known here")
    try:
        data = base64.b64decode(text(body, "password_hash"), validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("password_hash is not base64") from None
    salt_bytes = SALT_BYTES if algorithm == SCRYPT else RABBITMQ_SALT_BYTES
    return User(name, data[:salt_bytes], data[salt_bytes:], tags, algorithm=algorithm)


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
def delete_user(request: Request) -> Response:
    remove_user(request, user_named(request))
    return Response(204)


def remove_user(request: Request, user: User) -> None:
    sessions = request.context.sessions
    for info in list(sessions.connections()):
        if info.user == user.name:
            sessions.close(info, GONE.format(user.name))
    request.context.broker.delete_user(user)


@describes("Delete several users.", body=schemas.USERS_BODY, status=204)
def bulk_delete_users(request: Request) -> Response:
    names = request.json().get("users", [])
    if not isinstance(names, list):
        raise bad_request("users must be a list")
    users = request.context.broker.users
    for name in names:
        if not isinstance(name, str) or name not in users:
            raise bad_request(["no_such_user", echoed(name)])
    for name in dict.fromkeys(names):
        remove_user(request, users[name])
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
    broker, body = request.context.broker, request.json()
    require_keys(body, "configure", "write", "read")
    user, vhost = broker.users.get(request.names["user"]), request.names["vhost"]
    if user is None or vhost not in broker.vhosts:
        raise bad_request("vhost_or_user_not_found")
    existed = vhost in user.permissions
    broker.grant(user, vhost, permission_from(body))
    return Response(204 if existed else 201)


def permission_from(body: dict[str, Any]) -> Permission:
    patterns = {right: text(body, right) for right in ("configure", "write", "read")}
    for pattern in patterns.values():
        if len(pattern) > PATTERN_CHARACTERS_MAX:
            raise bad_request(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    try:
        return Permission(**patterns)
    except (re.error, RecursionError, OverflowError) as error:
        raise bad_request(["invalid_regexp", str(error)]) from None


@describes("Take the permissions away.", status=204)
def delete_permission(request: Request) -> Response:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    if vhost not in user.permissions:
        raise not_found()
    request.context.broker.revoke(user, vhost)
    return Response(204)
