"""Virtual hosts: list, create, delete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from embermq.broker.broker import Broker
from embermq.broker.firehose import set_tracing
from embermq.broker.security.user import Permission
from embermq.broker.vhost import RESERVED_PREFIX, VirtualHost
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.controllers.users import tags_of
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import (
    Refusal,
    Request,
    Response,
    bad_request,
    boolean,
    echoed,
    not_found,
    text,
)
from embermq.http.stats.rates import RANGES, ranges_asked
from embermq.http.stats.totals import totals
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import vhost_view

QUEUE_TYPES = ("classic", "quorum", "stream")
DESCRIBED = {"description", "tags", "default_queue_type", "defaultqueuetype"}


def vhost_named(request: Request) -> VirtualHost:
    vhost = request.context.broker.vhosts.get(request.names["vhost"])
    if vhost is None:
        raise not_found()
    return vhost


@describes("Virtual hosts.", query=LIST + RANGES, answer=schemas.listed(schemas.VHOST))
async def all_vhosts(request: Request) -> Response:
    context, ranges = request.context, ranges_asked(request)
    vhosts = visible_vhosts(request)
    sums = {vhost.name: await totals([vhost], context.sessions, context.scheduler) for vhost in vhosts}
    return await listing(request, vhosts, lambda vhost: vhost_view(context, vhost, sums[vhost.name], ranges))


@describes("A virtual host.", query=COLUMNS + RANGES, answer=schemas.VHOST)
async def one_vhost(request: Request) -> Response:
    context, vhost = request.context, vhost_named(request)
    sums = await totals([vhost], context.sessions, context.scheduler)
    return single(request, vhost_view(context, vhost, sums, ranges_asked(request)))


@describes("Make a virtual host.", body=schemas.VHOST_BODY, status=(201, 204))
def put_vhost(request: Request) -> Response:
    broker = request.context.broker
    name = clean(request.names["vhost"])
    existed = name in broker.vhosts
    vhost = store_vhost(broker, name, request.json())
    if not existed:
        # As RabbitMQ does: the user who makes a virtual host may use it. One with a token has its scopes.
        if broker.users.get(request.user.name) is request.user:
            broker.users.grant(request.user, vhost.name, Permission())
    return Response(204 if existed else 201)


def store_vhost(broker: Broker, name: str, body: dict[str, Any]) -> VirtualHost:
    if not name:
        raise bad_request("a virtual host needs a name")
    metadata = body.get("metadata")
    told = {**(metadata if isinstance(metadata, dict) else {}), **body}
    description, tags = text(told, "description"), tuple(sorted(tags_of(told.get("tags", []))))
    kind = text(told, "default_queue_type") or text(told, "defaultqueuetype")
    if kind not in ("", "undefined", *QUEUE_TYPES):
        raise bad_request(f"unsupported default queue type '{echoed(kind)}'")
    kind = "" if kind == "undefined" else kind
    tracing, protected = (boolean(told, flag) for flag in ("tracing", "protected_from_deletion"))
    # All is well with what was told: nothing half done is left behind.
    vhost = broker.add_vhost(name)
    if "tracing" in told:
        set_tracing(vhost, tracing)
    new = (description, tags, kind)
    if new != (vhost.description, vhost.tags, vhost.default_queue_type) and DESCRIBED & told.keys():
        broker.describe_vhost(vhost, *new)
    if "protected_from_deletion" in told and protected != vhost.protected:
        broker.protect_vhost(vhost, protected)
    return vhost


@describes("Delete a virtual host with everything in it.", status=204)
async def delete_vhost(request: Request) -> Response:
    vhost = vhost_named(request)
    broker = request.context.broker
    if vhost.protected:
        reason = f"Refusing to delete virtual host '{vhost.name}' because it is protected from deletion"
        raise Refusal(412, "precondition_failed", reason)
    broker.begin_vhost_deletion(vhost)
    steps = Steps(request.context.scheduler)
    for _ in close_connections(request, vhost):
        await steps.pause()
    for queue in list(vhost.queues.values()):
        vhost.delete_queue(queue)
        await steps.pause()
    for exchange in list(vhost.exchanges.values()):
        if exchange.name and not exchange.name.startswith(RESERVED_PREFIX):
            vhost.delete_exchange(exchange)
            await steps.pause()
    while vhost.binding_removal.things:
        await steps.next()
    if broker.vhosts.get(vhost.name) is vhost:  # no other request has deleted it meanwhile
        broker.delete_vhost(vhost)
    return Response(204)


@describes("Let nobody delete a virtual host.", status=204)
def protect_vhost(request: Request) -> Response:
    request.context.broker.protect_vhost(vhost_named(request), True)
    return Response(204)


@describes("Let a virtual host be deleted again.", status=204)
def unprotect_vhost(request: Request) -> Response:
    request.context.broker.protect_vhost(vhost_named(request), False)
    return Response(204)


def close_connections(request: Request, vhost: VirtualHost) -> Iterator[None]:
    return request.context.sessions.close_all(f"vhost '{vhost.name}' is deleted", vhost=vhost.name)


@describes("Start a virtual host; they always run.", status=204)
def start_vhost(request: Request) -> Response:
    """They always run."""
    vhost_named(request)
    if request.names["node"] != request.context.node:
        raise bad_request(f"Request to node {request.names['node']} failed with nodedown")
    return Response(204)
