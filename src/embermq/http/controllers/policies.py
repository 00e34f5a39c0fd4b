"""Policies and operator policies: list, set, delete."""

from __future__ import annotations

from typing import Any

from embermq.broker.policy.policy import OPERATOR_POLICY, POLICY, Policy, policy_from
from embermq.broker.vhost import VirtualHost
from embermq.http.controllers.exchanges import in_order
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import may_govern
from embermq.http.server.request import Refusal, Request, Response, not_authorised, not_found, require_keys
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import View, policy_view


def governed_vhosts(request: Request) -> list[VirtualHost]:
    vhosts = in_order(request.context.broker.vhosts)
    return [vhost for vhost in vhosts if may_govern(request.user, vhost.name)]


def governed_vhost(request: Request, *, to_change: bool = True) -> VirtualHost:
    vhost = request.context.broker.vhosts.get(request.names["vhost"])
    if vhost is None:
        raise Refusal(404, "not_found", "vhost_not_found") if request.method == "PUT" else not_found()
    if not may_govern(request.user, vhost.name):
        what = "object" if to_change else "virtual host"
        raise not_authorised(f"User not authorised to access {what}")
    return vhost


def policy_views(vhost: VirtualHost, kind: str = POLICY) -> list[View]:
    return [policy_view(vhost, policy) for policy in in_order(vhost.policies.kinds[kind])]


def store_policy(vhost: VirtualHost, kind: str, name: str, body: dict[str, Any]) -> None:
    vhost.policies.set(kind, policy_from(name, body, kind == OPERATOR_POLICY))


async def listed(request: Request, vhosts: list[VirtualHost], kind: str) -> Response:
    views = [view for vhost in vhosts for view in policy_views(vhost, kind)]
    return await listing(request, views, lambda view: view, lambda view: str(view["name"]))


def found(request: Request, kind: str) -> tuple[VirtualHost, Policy]:
    vhost = governed_vhost(request)
    policy = vhost.policies.kinds[kind].get(request.names["name"])
    if policy is None:
        raise not_found()
    return vhost, policy


def shown(request: Request, kind: str) -> Response:
    return single(request, policy_view(*found(request, kind)))


def put(request: Request, kind: str) -> Response:
    vhost, name, body = governed_vhost(request), clean(request.names["name"]), request.json()
    require_keys(body, "pattern", "definition")
    existed = name in vhost.policies.kinds[kind]
    store_policy(vhost, kind, name, body)
    return Response(204 if existed else 201)


def deleted(request: Request, kind: str) -> Response:
    vhost, policy = found(request, kind)
    vhost.policies.delete(kind, policy.name)
    return Response(204)


@describes("Policies.", query=LIST, answer=schemas.listed(schemas.POLICY))
async def all_policies(request: Request) -> Response:
    return await listed(request, governed_vhosts(request), POLICY)


@describes("Policies of a virtual host.", query=LIST, answer=schemas.listed(schemas.POLICY))
async def policies_in(request: Request) -> Response:
    return await listed(request, [governed_vhost(request, to_change=False)], POLICY)


@describes("A policy.", query=COLUMNS, answer=schemas.POLICY)
def one_policy(request: Request) -> Response:
    return shown(request, POLICY)


@describes("Set a policy.", body=schemas.POLICY_BODY, status=(201, 204))
def put_policy(request: Request) -> Response:
    return put(request, POLICY)


@describes("Delete a policy.", status=204)
def delete_policy(request: Request) -> Response:
    return deleted(request, POLICY)


@describes("Operator policies.", query=LIST, answer=schemas.listed(schemas.POLICY))
async def all_operator_policies(request: Request) -> Response:
    return await listed(request, governed_vhosts(request), OPERATOR_POLICY)


@describes("Operator policies of a virtual host.", query=LIST, answer=schemas.listed(schemas.POLICY))
async def operator_policies_in(request: Request) -> Response:
    return await listed(request, [governed_vhost(request, to_change=False)], OPERATOR_POLICY)


@describes("An operator policy.", query=COLUMNS, answer=schemas.POLICY)
def one_operator_policy(request: Request) -> Response:
    return shown(request, OPERATOR_POLICY)


@describes("Set an operator policy.", body=schemas.POLICY_BODY, status=(201, 204))
def put_operator_policy(request: Request) -> Response:
    return put(request, OPERATOR_POLICY)


@describes("Delete an operator policy.", status=204)
def delete_operator_policy(request: Request) -> Response:
    return deleted(request, OPERATOR_POLICY)
