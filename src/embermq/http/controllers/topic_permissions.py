"""Topic permissions: the routing keys that a user may use at a topic exchange."""

from __future__ import annotations

from typing import Any

from embermq.broker.security.user import TopicPermission, User
from embermq.http.controllers.users import pattern, user_and_vhost, user_named, user_of
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.request import Request, Response, bad_request, not_found, require_keys, text
from embermq.http.views.listing import LIST, listing
from embermq.http.views.views import View


def views_of(users: list[User], vhost: str | None = None) -> list[View]:
    return [
        {"user": user.name, "vhost": where, "exchange": exchange, **permission.patterns}
        for user in users
        for where, permissions in user.topic_permissions.items()
        if vhost is None or where == vhost
        for exchange, permission in permissions.items()
    ]


async def shown(request: Request, views: list[View]) -> Response:
    return await listing(request, views, lambda view: view, user_of)


@describes("Topic permissions.", query=LIST, answer=schemas.listed(schemas.TOPIC_PERMISSION))
async def all_topic_permissions(request: Request) -> Response:
    return await shown(request, views_of(list(request.context.broker.users.values())))


@describes("Topic permissions of a user.", query=LIST, answer=schemas.listed(schemas.TOPIC_PERMISSION))
async def of_user(request: Request) -> Response:
    return await shown(request, views_of([user_named(request)]))


@describes("Those in a virtual host.", query=LIST, answer=schemas.listed(schemas.TOPIC_PERMISSION))
async def in_vhost(request: Request) -> Response:
    if request.names["vhost"] not in request.context.broker.vhosts:
        raise not_found()
    return await shown(request, views_of(list(request.context.broker.users.values()), request.names["vhost"]))


@describes("Those of a user in a virtual host.", query=LIST, answer=schemas.listed(schemas.TOPIC_PERMISSION))
async def between(request: Request) -> Response:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    if vhost not in request.context.broker.vhosts or vhost not in user.topic_permissions:
        raise not_found()
    return await shown(request, views_of([user], vhost))


def at_exchange(request: Request) -> tuple[User, View]:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    for view in views_of([user], vhost):
        if view["exchange"] == request.names["exchange"]:
            return user, view
    raise not_found()


@describes("That of a user at an exchange.", answer=schemas.list_of(schemas.TOPIC_PERMISSION))
def one_topic_permission(request: Request) -> Response:
    return Response.of([at_exchange(request)[1]])


@describes("Take it away.", status=204)
def delete_topic_permission(request: Request) -> Response:
    user, view = at_exchange(request)
    request.context.broker.revoke_topics(user, view["vhost"], view["exchange"])
    return Response(204)


@describes("Give topic permissions at an exchange.", body=schemas.TOPIC_PERMISSION_BODY, status=(201, 204))
def put_topic_permission(request: Request) -> Response:
    user, vhost = user_and_vhost(request)
    body = request.json()
    require_keys(body, "exchange", "write", "read")
    existed = text(body, "exchange") in user.topic_permissions.get(vhost, {})
    store(request, {**body, "user": request.names["user"], "vhost": vhost})
    return Response(204 if existed else 201)


def store(request: Request, body: dict[str, Any]) -> None:
    """As the API and definitions files describe one; the exchange need not exist yet."""
    broker = request.context.broker
    user, vhost = broker.users.get(text(body, "user")), text(body, "vhost")
    if user is None or vhost not in broker.vhosts:
        raise bad_request("vhost_or_user_not_found")
    permission = TopicPermission(pattern(body, "write"), pattern(body, "read"))
    broker.grant_topics(user, vhost, text(body, "exchange"), permission)


@describes("Take the topic permissions away.", status=204)
def delete_topic_permissions(request: Request) -> Response:
    user, vhost = user_named(request, "user"), request.names["vhost"]
    if vhost not in user.topic_permissions:
        raise not_found()
    request.context.broker.revoke_topics(user, vhost)
    return Response(204)
