"""Runtime parameters, by component and virtual host, and global ones.

Operator policies and limits of virtual hosts show up among them, as in RabbitMQ, and may be set here by
users who may set them on their own routes; policies show up when asked for by that name only.
"""

from __future__ import annotations

from typing import Any

from embermq.broker.broker import Broker
from embermq.broker.policy.parameter import GLOBAL
from embermq.broker.policy.policy import OPERATOR_POLICY, POLICY
from embermq.broker.vhost import VirtualHost
from embermq.errors import PreconditionFailed
from embermq.http.controllers.cluster import CLUSTER_NAME, check_cluster_name
from embermq.http.controllers.exchanges import in_order
from embermq.http.controllers.limits import LIMITS, set_vhost_limits
from embermq.http.controllers.limits import VHOST_LIMITS_COMPONENT as VHOST_LIMITS
from embermq.http.controllers.policies import governed_vhost, governed_vhosts, store_policy
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import ADMINISTRATOR, require_tag
from embermq.http.server.request import Request, Response, bad_request, check_field, not_found, require_keys
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import View


def parameter_view(vhost: VirtualHost, component: str, name: str, value: Any) -> View:
    return {"value": value, "vhost": vhost.name, "component": component, "name": name}


def parameter_views(vhost: VirtualHost, component: str | None = None) -> list[View]:
    views = [
        parameter_view(vhost, kind, policy.name, policy.body)
        for kind in (POLICY, OPERATOR_POLICY)
        for policy in in_order(vhost.policies.kinds[kind])
    ]
    values = sorted(vhost.parameters.values.items(), key=lambda item: item[0])
    views += [parameter_view(vhost, of, name, value) for (of, name), value in values if of != VHOST_LIMITS]
    if vhost.limits:
        views.append(parameter_view(vhost, VHOST_LIMITS, LIMITS, vhost.limits))
    if component is None:
        return [view for view in views if view["component"] != POLICY]
    return [view for view in views if view["component"] == component]


def global_parameter_views(broker: Broker) -> list[View]:
    values = broker.parameters.values
    return [{"name": name, "value": values[GLOBAL, name]} for _, name in sorted(values)]


def store_parameter(vhost: VirtualHost, component: str, name: str, value: Any) -> None:
    if component == POLICY:
        raise bad_request("policies may not be set using this method")
    if component == OPERATOR_POLICY:
        if not isinstance(value, dict):
            raise PreconditionFailed("Validation failed\n\nan operator policy is an object\n")
        store_policy(vhost, OPERATOR_POLICY, name, value)
        return
    if component == VHOST_LIMITS:
        if name != LIMITS:
            raise bad_request(f"Validation failed\n\nName must be '{LIMITS}', actually was '{name}'\n")
        set_vhost_limits(vhost, value)
        return
    check_value(value)
    vhost.parameters.set(clean(component), name, value)


def store_global_parameter(broker: Broker, name: str, value: Any) -> None:
    check_value(value)
    if name == CLUSTER_NAME:
        check_cluster_name(value)
    broker.parameters.set(GLOBAL, name, value)


def require_administrator_for(request: Request, name: str) -> None:
    """What has a route of its own for administrators is for them by this way, too."""
    if name in (OPERATOR_POLICY, VHOST_LIMITS, CLUSTER_NAME):
        require_tag(request.user, ADMINISTRATOR)


def check_value(value: object) -> None:
    """Anything that JSON can have, within reason."""
    if value is not None:
        check_field("value", value, 0)


async def listed(request: Request, views: list[View]) -> Response:
    return await listing(request, views, lambda view: view, lambda view: str(view["name"]))


@describes("Runtime parameters.", query=LIST, answer=schemas.listed(schemas.PARAMETER))
async def all_parameters(request: Request) -> Response:
    return await listed(request, [v for vhost in governed_vhosts(request) for v in parameter_views(vhost)])


@describes("Runtime parameters of a component.", query=LIST, answer=schemas.listed(schemas.PARAMETER))
async def parameters_of(request: Request) -> Response:
    component = request.names["component"]
    vhosts = governed_vhosts(request)
    return await listed(request, [view for vhost in vhosts for view in parameter_views(vhost, component)])


@describes(
    "Runtime parameters of a component in a virtual host.",
    query=LIST,
    answer=schemas.listed(schemas.PARAMETER),
)
async def parameters_in(request: Request) -> Response:
    return await listed(request, parameter_views(governed_vhost(request), request.names["component"]))


def found(request: Request) -> tuple[VirtualHost, View]:
    vhost = governed_vhost(request)
    for view in parameter_views(vhost, request.names["component"]):
        if view["name"] == request.names["name"]:
            return vhost, view
    raise not_found()


@describes("A runtime parameter.", query=COLUMNS, answer=schemas.PARAMETER)
def one_parameter(request: Request) -> Response:
    return single(request, found(request)[1])


@describes("Set a runtime parameter.", body=schemas.PARAMETER_BODY, status=(201, 204))
def put_parameter(request: Request) -> Response:
    vhost, body = governed_vhost(request), request.json()
    require_keys(body, "value")
    component, name = request.names["component"], clean(request.names["name"])
    require_administrator_for(request, component)
    existed = any(view["name"] == name for view in parameter_views(vhost, component))
    store_parameter(vhost, component, name, body["value"])
    return Response(204 if existed else 201)


@describes("Delete a runtime parameter.", status=204)
def delete_parameter(request: Request) -> Response:
    vhost, view = found(request)
    component, name = view["component"], view["name"]
    require_administrator_for(request, component)
    if component == VHOST_LIMITS:
        set_vhost_limits(vhost, {})
    elif component in vhost.policies.kinds:
        vhost.policies.delete(component, name)
    else:
        vhost.parameters.delete(component, name)
    return Response(204)


@describes("Global parameters.", query=LIST, answer=schemas.listed(schemas.GLOBAL_PARAMETER))
async def all_global_parameters(request: Request) -> Response:
    return await listed(request, global_parameter_views(request.context.broker))


def found_global(request: Request) -> View:
    values, name = request.context.broker.parameters.values, request.names["name"]
    if (GLOBAL, name) not in values:
        raise not_found()
    return {"value": values[GLOBAL, name], "name": name}


@describes("A global parameter.", query=COLUMNS, answer=schemas.GLOBAL_PARAMETER)
def one_global_parameter(request: Request) -> Response:
    return single(request, found_global(request))


@describes("Set a global parameter.", body=schemas.PARAMETER_BODY, status=(201, 204))
def put_global_parameter(request: Request) -> Response:
    broker, body = request.context.broker, request.json()
    require_keys(body, "value")
    name = clean(request.names["name"])
    require_administrator_for(request, name)
    existed = (GLOBAL, name) in broker.parameters.values
    store_global_parameter(broker, name, body["value"])
    return Response(204 if existed else 201)


@describes("Delete a global parameter.", status=204)
def delete_global_parameter(request: Request) -> Response:
    name = str(found_global(request)["name"])
    require_administrator_for(request, name)
    request.context.broker.parameters.delete(GLOBAL, name)
    return Response(204)
