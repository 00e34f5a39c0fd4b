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


def kind_of(request: Request) -> str:
    """The same routes are there for policies and for operator policies."""
    return OPERATOR_POLICY if "operator-policies" in request.segments[:2] else POLICY


def found(request: Request) -> tuple[VirtualHost, Policy]:
    vhost = governed_vhost(request)
    policy = vhost.policies.kinds[kind_of(request)].get(request.names["name"])
    if policy is None:
        raise not_found()
    return vhost, policy


async def listed(request: Request, vhosts: list[VirtualHost]) -> Response:
    views = [view for vhost in vhosts for view in policy_views(vhost, kind_of(request))]
    return await listing(request, views, lambda view: view, lambda view: str(view["name"]))


@describes("Policies, or operator policies.", query=LIST, answer=schemas.listed(schemas.POLICY))
async def all_policies(request: Request) -> Response:
    return await listed(request, governed_vhosts(request))


@describes("Those of a virtual host.", query=LIST, answer=schemas.listed(schemas.POLICY))
async def policies_in(request: Request) -> Response:
    return await listed(request, [governed_vhost(request, to_change=False)])


@describes("A policy, or operator policy.", query=COLUMNS, answer=schemas.POLICY)
def one_policy(request: Request) -> Response:
    return single(request, policy_view(*found(request)))


@describes("Set a policy, or operator policy.", body=schemas.POLICY_BODY, status=(201, 204))
def put_policy(request: Request) -> Response:
    vhost, name, body = governed_vhost(request), clean(request.names["name"]), request.json()
    kind = kind_of(request)
    require_keys(body, "pattern", "definition")
    existed = name in vhost.policies.kinds[kind]
    store_policy(vhost, kind, name, body)
    return Response(204 if existed else 201)


@describes("Delete a policy, or operator policy.", status=204)
def delete_policy(request: Request) -> Response:
    vhost, policy = found(request)
    vhost.policies.delete(kind_of(request), policy.name)
    return Response(204)
