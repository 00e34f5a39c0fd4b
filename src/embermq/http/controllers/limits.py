"""Limits of virtual hosts (connections, queues) and of users (connections, channels)."""

from __future__ import annotations

from embermq.broker.policy.keys import in_erlang
from embermq.broker.security.user import User
from embermq.broker.vhost import VirtualHost
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import require_vhost
from embermq.http.server.request import (
    Refusal,
    Request,
    Response,
    bad_request,
    echoed,
    not_found,
    require_keys,
)
from embermq.http.views.listing import LIST, listing
from embermq.http.views.views import View

VHOST_LIMITS = ("max-connections", "max-queues")
USER_LIMITS = ("max-connections", "max-channels")
VHOST_LIMITS_COMPONENT, LIMITS = "vhost-limits", "limits"  # as RabbitMQ names the parameter
LIMIT_MAX = 2**31 - 1


def limits_from(values: object, known: tuple[str, ...], where: str) -> dict[str, int]:
    """Limits as definitions files hold them."""
    if values == []:  # as RabbitMQ writes an empty table now and then
        return {}
    if not isinstance(values, dict):
        raise bad_request(f"{where} must be an object")
    return {name: limit(name, value, known, where) for name, value in values.items()}


def limit(name: str, value: object, known: tuple[str, ...], where: str) -> int:
    if name not in known:
        raise wrong(f"Unrecognised terms [{{{in_erlang(name)},{in_erlang(value)}}}] in {where}", where)
    if isinstance(value, bool) or not isinstance(value, int) or value > LIMIT_MAX:
        raise wrong(f"{name} should be a number, actually was {in_erlang(value)}", where)
    return max(value, -1)


def wrong(problem: str, where: str) -> Refusal:
    """Limits of virtual hosts are parameters, and refused as such."""
    return bad_request(f"Validation failed\n\n{problem}\n" if where == "limits" else problem)


def value_of(request: Request, known: tuple[str, ...], where: str) -> int:
    body = request.json()
    require_keys(body, "value")
    return limit(request.names["name"], body["value"], known, where)


# -- of virtual hosts


def vhost_view(vhost: VirtualHost) -> View:
    return {"vhost": vhost.name, "value": vhost.limits}


@describes("Limits of virtual hosts.", query=LIST, answer=schemas.listed(schemas.VHOST_LIMITS))
async def all_vhost_limits(request: Request) -> Response:
    views = [vhost_view(vhost) for vhost in visible_vhosts(request) if vhost.limits]
    return await listing(request, views, lambda view: view, lambda view: str(view["vhost"]))


@describes("Limits of a virtual host.", query=LIST, answer=schemas.listed(schemas.VHOST_LIMITS))
async def limits_of_vhost(request: Request) -> Response:
    require_vhost(request, request.names["vhost"], to_see=True)
    vhost = request.context.broker.vhosts[request.names["vhost"]]
    views = [vhost_view(vhost)] if vhost.limits else []
    return await listing(request, views, lambda view: view, lambda view: str(view["vhost"]))


def limited_vhost(request: Request) -> VirtualHost:
    require_vhost(request, request.names["vhost"])
    return request.context.broker.vhosts[request.names["vhost"]]


@describes("Limit a virtual host.", body=schemas.LIMIT_BODY, status=204)
def put_vhost_limit(request: Request) -> Response:
    vhost = limited_vhost(request)
    value = value_of(request, VHOST_LIMITS, "limits")
    vhost.set_limit(request.names["name"], value)
    return Response(204)


@describes("Limit it no more.", status=204)
def delete_vhost_limit(request: Request) -> Response:
    vhost = limited_vhost(request)
    if request.names["name"] in vhost.limits:
        vhost.set_limit(request.names["name"], None)
    return Response(204)


# -- of users


def user_limits_view(user: User) -> View:
    return {"user": user.name, "value": user.limits}


@describes("Limits of users.", query=LIST, answer=schemas.listed(schemas.USER_LIMITS))
async def all_user_limits(request: Request) -> Response:
    views = [user_limits_view(user) for user in request.context.broker.users.values() if user.limits]
    return await listing(request, views, lambda view: view, lambda view: str(view["user"]))


@describes("Limits of a user.", query=LIST, answer=schemas.listed(schemas.USER_LIMITS))
async def limits_of_user(request: Request) -> Response:
    user = request.context.broker.users.get(request.names["user"])
    if user is None:
        raise not_found()
    views = [user_limits_view(user)] if user.limits else []
    return await listing(request, views, lambda view: view, lambda view: str(view["user"]))


def limited_user(request: Request) -> User:
    user = request.context.broker.users.get(request.names["user"])
    if user is None:
        raise bad_request(["no_such_user", echoed(request.names["user"])])
    return user


@describes("Limit a user.", body=schemas.LIMIT_BODY, status=204)
def put_user_limit(request: Request) -> Response:
    value = value_of(request, USER_LIMITS, "user-limits")
    user = limited_user(request)
    request.context.broker.users.limit(user, request.names["name"], value)
    return Response(204)


@describes("Limit the user no more.", status=204)
def delete_user_limit(request: Request) -> Response:
    user = limited_user(request)
    if request.names["name"] in user.limits:
        request.context.broker.users.limit(user, request.names["name"], None)
    return Response(204)


def set_vhost_limits(vhost: VirtualHost, value: object) -> None:
    """All of them, as the parameter `vhost-limits` has them."""
    wanted = limits_from(value, VHOST_LIMITS, "limits")
    for name in vhost.limits.keys() - wanted.keys():
        vhost.set_limit(name, None)
    for name, number in wanted.items():
        vhost.set_limit(name, number)
