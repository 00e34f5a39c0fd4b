"""Permissions of users: in virtual hosts, and at topic exchanges by routing key."""

from __future__ import annotations

from typing import Any

from embermq.broker.security.safe_regex import PatternError, compile_pattern
from embermq.broker.security.user import RIGHTS, Permission, TopicPermission, User
from embermq.http.controllers.users import user_named
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import Parameter, describes, words
from embermq.http.server.request import Request, Response, bad_request, not_found, require_keys, text
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.views import View, permission_view


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


RIGHT = Parameter("right", "`configure`, `write` or `read`", {"type": "string", "enum": list(RIGHTS)})
TEST = (
    RIGHT,
    words("name", "of an exchange or a queue"),
    words("routing_key", "with which a message is published, or a queue bound, at a topic exchange"),
)


@describes(
    "May the user do that? The answer says which pattern decides.",
    query=TEST,
    answer=schemas.every(allowed=schemas.BOOLEAN, reason=schemas.TEXT),
)
def permission_test(request: Request) -> Response:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    right, name = request.query.get("right", "write"), request.query.get("name", "")
    if right not in RIGHTS:
        raise bad_request(f"right is one of {', '.join(RIGHTS)}")
    if vhost not in request.context.broker.vhosts:
        raise not_found()
    allowed, reason = judged(user, right, vhost, name, request.query.get("routing_key"))
    return Response.of({"allowed": allowed, "reason": reason})


def judged(user: User, right: str, vhost: str, name: str, routing_key: str | None) -> tuple[bool, str]:
    permission = user.permissions.get(vhost)
    if permission is None:
        return False, f"user '{user.name}' has no permissions in vhost '{vhost}'"
    known, given = name or "amq.default", permission.patterns[right]
    if not given:
        return False, f"the pattern for {right} is empty, which matches nothing"
    if not user.allows(right, vhost, name):
        return False, f"the pattern for {right}, '{given}', does not match '{known}'"
    topics = user.topic_permissions.get(vhost, {}).get(name)
    if routing_key is None or right == "configure" or topics is None:
        return True, f"the pattern for {right}, '{given}', matches '{known}'"
    topic = topics.patterns[right]
    matches = user.allows_topic(right, vhost, name, routing_key, {})
    verb = "matches" if matches else "does not match"
    return matches, f"the pattern for topics at '{name}', '{topic}', {verb} the routing key '{routing_key}'"


@describes("Give a user permissions in a virtual host.", body=schemas.PERMISSION_BODY, status=(201, 204))
def put_permission(request: Request) -> Response:
    user, vhost = user_and_vhost(request)
    body = request.json()
    require_keys(body, "configure", "write", "read")
    existed = vhost in user.permissions
    request.context.broker.users.grant(user, vhost, permission_from(body))
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
    request.context.broker.users.revoke(user, vhost)
    return Response(204)


# -- topic permissions


def topic_permission_views(users: list[User], vhost: str | None = None) -> list[View]:
    return [
        {"user": user.name, "vhost": where, "exchange": exchange, **permission.patterns}
        for user in users
        for where, permissions in user.topic_permissions.items()
        if vhost is None or where == vhost
        for exchange, permission in permissions.items()
    ]


async def topic_listing(request: Request, views: list[View]) -> Response:
    return await listing(request, views, lambda view: view, user_of)


@describes("Topic permissions.", query=LIST, answer=schemas.listed(schemas.TOPIC_PERMISSION))
async def all_topic_permissions(request: Request) -> Response:
    return await topic_listing(request, topic_permission_views(list(request.context.broker.users.values())))


@describes("Topic permissions of a user.", query=LIST, answer=schemas.listed(schemas.TOPIC_PERMISSION))
async def topic_permissions_of_user(request: Request) -> Response:
    return await topic_listing(request, topic_permission_views([user_named(request)]))


@describes("Those in a virtual host.", query=LIST, answer=schemas.listed(schemas.TOPIC_PERMISSION))
async def topic_permissions_in_vhost(request: Request) -> Response:
    if request.names["vhost"] not in request.context.broker.vhosts:
        raise not_found()
    return await topic_listing(
        request, topic_permission_views(list(request.context.broker.users.values()), request.names["vhost"])
    )


@describes("Those of a user in a virtual host.", query=LIST, answer=schemas.listed(schemas.TOPIC_PERMISSION))
async def topic_permissions_of_user_in_vhost(request: Request) -> Response:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    if vhost not in request.context.broker.vhosts or vhost not in user.topic_permissions:
        raise not_found()
    return await topic_listing(request, topic_permission_views([user], vhost))


def at_exchange(request: Request) -> tuple[User, View]:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    for view in topic_permission_views([user], vhost):
        if view["exchange"] == request.names["exchange"]:
            return user, view
    raise not_found()


@describes("That of a user at an exchange.", answer=schemas.list_of(schemas.TOPIC_PERMISSION))
def one_topic_permission(request: Request) -> Response:
    return Response.of([at_exchange(request)[1]])


@describes("Take it away.", status=204)
def delete_topic_permission(request: Request) -> Response:
    user, view = at_exchange(request)
    request.context.broker.users.revoke_topics(user, view["vhost"], view["exchange"])
    return Response(204)


@describes("Give topic permissions at an exchange.", body=schemas.TOPIC_PERMISSION_BODY, status=(201, 204))
def put_topic_permission(request: Request) -> Response:
    user, vhost = user_and_vhost(request)
    body = request.json()
    require_keys(body, "exchange", "write", "read")
    existed = text(body, "exchange") in user.topic_permissions.get(vhost, {})
    store_topic_permission(request, {**body, "user": request.names["user"], "vhost": vhost})
    return Response(204 if existed else 201)


def store_topic_permission(request: Request, body: dict[str, Any]) -> None:
    """As the API and definitions files describe one; the exchange need not exist yet."""
    broker = request.context.broker
    user, vhost = broker.users.get(text(body, "user")), text(body, "vhost")
    if user is None or vhost not in broker.vhosts:
        raise bad_request("vhost_or_user_not_found")
    permission = TopicPermission(pattern(body, "write"), pattern(body, "read"))
    broker.users.grant_topics(user, vhost, text(body, "exchange"), permission)


@describes("Take the topic permissions away.", status=204)
def delete_topic_permissions(request: Request) -> Response:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    if vhost not in user.topic_permissions:
        raise not_found()
    request.context.broker.users.revoke_topics(user, vhost)
    return Response(204)
