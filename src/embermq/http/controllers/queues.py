"""Queues, and the templates of their arguments; templates of the configuration are read only."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from embermq.broker.queue.queue import Queue, describe
from embermq.broker.queue.template import Templates
from embermq.broker.vhost import VirtualHost, require_access
from embermq.errors import PreconditionFailed
from embermq.http.controllers.exchanges import IF_UNUSED, unbound, vhost_of
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes, flag
from embermq.http.server.request import Request, Response, bad_request, boolean, echoed, not_found, table
from embermq.http.stats.rates import RANGES, ranges_asked
from embermq.http.views.json_values import plain
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import (
    View,
    binding_view,
    brief_queue_view,
    consumer_view,
    default_binding,
    queue_view,
)

IF_EMPTY = flag("if-empty", "only if it has no ready messages")
BRIEF = (
    flag("disable_stats", "without numbers"),
    flag("enable_queue_totals", "with the lengths all the same"),
)
NO_OWNER = object()  # no connection owns what HTTP declares, and none of its exclusive queues are HTTP's


def queue_named(vhost: VirtualHost, name: str) -> Queue:
    queue = vhost.queues.get(name)
    if queue is None:
        raise not_found()
    return queue


def queue_to(request: Request, permission: str) -> Queue:
    """The one that the request names, if the user may do that with it and it is no connection's own."""
    vhost = vhost_of(request)
    queue = queue_named(vhost, request.names["name"])
    request.user.require(permission, vhost.name, "queue", queue.name)
    require_access(queue, NO_OWNER)
    return queue


SORTABLE: dict[str, Callable[[Queue], Any]] = {
    "name": lambda queue: queue.name,
    "vhost": lambda queue: queue.vhost.name,
    "messages": lambda queue: queue.ready_count + queue.unacked_count,
    "messages_ready": lambda queue: queue.ready_count,
    "messages_unacknowledged": lambda queue: queue.unacked_count,
    "message_bytes": lambda queue: queue.body_bytes() + queue.unacked_bytes,
    "message_bytes_ready": lambda q: q.body_bytes(),
    "message_bytes_unacknowledged": lambda queue: queue.unacked_bytes,
    "consumers": lambda queue: len(queue.consumers),
    "message_stats.publish": lambda queue: queue.published_count,
    "message_stats.deliver_get": lambda queue: queue.delivered_count,
}


def view_asked(request: Request) -> Callable[[Queue], View]:
    """With everything; or, for `disable_stats=true`, what costs nothing, with lengths where wanted."""
    context, ranges = request.context, ranges_asked(request)
    if not request.flag("disable_stats"):
        return lambda queue: queue_view(context, queue, ranges)
    with_lengths = request.flag("enable_queue_totals")
    return lambda queue: brief_queue_view(context, queue, with_lengths)


@describes("Queues.", query=LIST + RANGES + BRIEF, answer=schemas.listed(schemas.QUEUE))
async def all_queues(request: Request) -> Response:
    lists = [await request.context.queues_of(vhost) for vhost in visible_vhosts(request)]
    queues = lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
    return await listing(request, queues, view_asked(request), sortable=SORTABLE)


@describes("Queues of a virtual host.", query=LIST + RANGES + BRIEF, answer=schemas.listed(schemas.QUEUE))
async def queues_in(request: Request) -> Response:
    queues = await request.context.queues_of(vhost_of(request, to_see=True))
    return await listing(request, queues, view_asked(request), sortable=SORTABLE)


@describes("A queue, with its consumers.", query=COLUMNS + RANGES, answer=schemas.QUEUE)
def one_queue(request: Request) -> Response:
    queue = queue_named(vhost_of(request), request.names["name"])
    queue.measure_soon()
    consumers = [consumer_view(request.context, consumer) for consumer in queue.consumers]
    view: View = {**view_asked(request)(queue), "consumer_details": consumers}
    return single(request, view | {"incoming": [], "deliveries": []})


@describes("Declare a queue.", body=schemas.QUEUE_BODY, status=(201, 204))
def put_queue(request: Request) -> Response:
    vhost, body = vhost_of(request), request.json()
    # Of several mistakes RabbitMQ tells that of the first of these.
    auto_delete, durable = (boolean(body, flag) for flag in ("auto_delete", "durable"))
    arguments, templates = table(body, "arguments"), vhost.defaults.templates
    name = templates.full_name(clean(request.names["name"]), arguments)
    require = request.user.require
    require("configure", vhost.name, "queue", name)
    dead_letters = templates.combined(arguments).get("x-dead-letter-exchange")
    if isinstance(dead_letters, str):
        require("read", vhost.name, "queue", name)
        require("write", vhost.name, "exchange", dead_letters)
    existed = name in vhost.queues
    if not name:
        raise bad_request("a queue needs a name")
    vhost.declare_queue(
        name,
        owner=NO_OWNER,
        durable=durable,
        exclusive=False,
        auto_delete=auto_delete,
        arguments=arguments,
    )
    return Response(204 if existed else 201)


@describes("Delete a queue with its messages.", query=(IF_UNUSED, IF_EMPTY), status=204)
async def delete_queue(request: Request) -> Response:
    queue = queue_to(request, "configure")
    if request.flag("if-unused") and queue.consumers:
        raise PreconditionFailed(f"{describe(queue)} in use")
    if request.flag("if-empty") and queue.ready_count:
        raise PreconditionFailed(f"{describe(queue)} not empty")
    queue.vhost.delete_queue(queue)
    await unbound(request, queue.vhost, queue)
    return Response(204)


@describes("Forget all ready messages of a queue.", status=204)
def purge_queue(request: Request) -> Response:
    queue = queue_to(request, "read")
    queue.vhost.purge_queue(queue)
    return Response(204, after_messages=True)


@describes("Actions of mirrored queues, which have no effect here.", body=schemas.ACTION_BODY, status=204)
def act_on_queue(request: Request) -> Response:
    """RabbitMQ's actions are about mirrors, of which there are none: nothing is left to be done."""
    queue_named(vhost_of(request), request.names["name"])
    action = request.json().get("action")
    if action not in ("sync", "cancel_sync"):
        raise bad_request(["unknown", echoed(action)])
    return Response(204)


@describes("Bindings that lead to a queue.", query=LIST, answer=schemas.listed(schemas.BINDING))
async def bindings_of_queue(request: Request) -> Response:
    vhost = vhost_of(request)
    queue = queue_named(vhost, request.names["name"])
    views = [default_binding(queue), *(binding_view(b) for b in vhost.queue_bindings.get(queue, ()))]
    return await listing(request, views, lambda view: view, lambda view: str(view["routing_key"]))


@describes("Take back messages that wait to go to a queue.", status=204)
def take_back_from_queue(request: Request) -> Response:
    """What was published for the queue by its name, and what consumers gave back to it."""
    queue = queue_to(request, "read")
    queue.vhost.delays.take_back_from_queue(queue.name)
    return Response(204)


# -- templates


def templates_of(request: Request) -> Templates:
    return request.context.broker.defaults.templates


def template_view(templates: Templates, name: str) -> View:
    arguments = templates.all()[name]
    return {"name": name, "arguments": plain(arguments), "configured": name in templates.configured}


@describes("Queue templates.", query=LIST, answer=schemas.listed(schemas.TEMPLATE))
async def all_templates(request: Request) -> Response:
    templates = templates_of(request)
    views = [template_view(templates, name) for name in sorted(templates.all())]
    return await listing(request, views, lambda view: view, lambda view: str(view["name"]))


def template_named(request: Request) -> str:
    name = request.names["name"]
    if name not in templates_of(request).all():
        raise not_found()
    return name


@describes("One queue template.", query=COLUMNS, answer=schemas.TEMPLATE)
def one_template(request: Request) -> Response:
    return single(request, template_view(templates_of(request), template_named(request)))


@describes("Set a queue template, for queues to come.", body=schemas.TEMPLATE_BODY, status=(201, 204))
def put_template(request: Request) -> Response:
    templates, name = templates_of(request), clean(request.names["name"])
    existed = name in templates.all()
    templates.set(name, table(request.json(), "arguments"))
    return Response(204 if existed else 201)


@describes("Delete a queue template; queues keep what they have.", status=204)
def delete_template(request: Request) -> Response:
    templates_of(request).delete(template_named(request))
    return Response(204)
