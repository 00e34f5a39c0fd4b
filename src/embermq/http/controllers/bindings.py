"""Bindings between exchanges and queues, or exchanges and exchanges; where a message would go by them."""

from __future__ import annotations

from urllib.parse import quote

from embermq.broker.exchange.binding import Binding, via_names
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.exchange.explain import Explanation, Finding
from embermq.broker.publish import compose, copy_keys
from embermq.broker.queue.queue import Queue
from embermq.broker.security.user import User
from embermq.broker.vhost import VirtualHost, require_access
from embermq.errors import AccessRefused, AMQPError
from embermq.http.controllers.exchanges import DEFAULT_NAMES, exchange_named, vhost_of
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.controllers.queues import NO_OWNER, queue_named
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import (
    Request,
    Response,
    bad_request,
    encode,
    not_found,
    routing_key_of,
    table,
    text,
)
from embermq.http.views.json_values import plain
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import View, binding_view, default_binding, properties_key

KINDS = {"q": "queue", "e": "exchange"}


def bindings_of(vhost: VirtualHost) -> list[Queue | Binding]:
    """All of them; a queue stands for its binding to the default exchange."""
    found: list[Queue | Binding] = list(vhost.queues.values())
    for exchange in vhost.exchanges.values():
        found.extend(exchange.bindings.values())
    return found


def view_of(bound: Queue | Binding) -> View:
    return default_binding(bound) if isinstance(bound, Queue) else binding_view(bound)


def key_of(bound: Queue | Binding) -> str:
    return bound.name if isinstance(bound, Queue) else bound.routing_key


@describes("Bindings.", query=LIST, answer=schemas.listed(schemas.BINDING))
async def all_bindings(request: Request) -> Response:
    found = [bound for vhost in visible_vhosts(request) for bound in bindings_of(vhost)]
    return await listing(request, found, view_of, key_of)


@describes("Bindings in a virtual host.", query=LIST, answer=schemas.listed(schemas.BINDING))
async def bindings_in(request: Request) -> Response:
    return await listing(request, bindings_of(vhost_of(request, to_see=True)), view_of, key_of)


def ends(request: Request) -> tuple[VirtualHost, Exchange, Queue | Exchange]:
    vhost = vhost_of(request)
    source = exchange_named(vhost, request.names["source"])
    kind, name = KINDS.get(request.names["kind"]), request.names["destination"]
    if kind is None:
        raise not_found()
    destination = queue_named(vhost, name) if kind == "queue" else exchange_named(vhost, name)
    return vhost, source, destination


def between(source: Exchange, destination: Queue | Exchange) -> list[Binding]:
    return [binding for binding in source.bindings.values() if binding.destination is destination]


@describes(
    "Bindings between an exchange and a queue or exchange.",
    query=LIST,
    answer=schemas.listed(schemas.BINDING),
)
async def bindings_between(request: Request) -> Response:
    _, source, destination = ends(request)
    views = [binding_view(binding) for binding in between(source, destination)]
    if not source.name and isinstance(destination, Queue):
        views = [default_binding(destination)]
    return await listing(request, views, lambda view: view, lambda view: str(view["routing_key"]))


def find(request: Request, source: Exchange, destination: Queue | Exchange) -> Binding:
    asked, found = request.names["key"], between(source, destination)
    for binding in found:
        if properties_key(binding.routing_key, binding.arguments) == asked:
            return binding
    for binding in found:  # many write the routing key itself, and RabbitMQ understands them
        if not binding.arguments and binding.routing_key == asked:
            return binding
    raise not_found()


@describes("A binding.", query=COLUMNS, answer=schemas.BINDING)
def one_binding(request: Request) -> Response:
    _, source, destination = ends(request)
    if not source.name and isinstance(destination, Queue) and request.names["key"] == destination.name:
        return single(request, default_binding(destination))
    return single(request, binding_view(find(request, source, destination)))


def require_rights(request: Request, vhost: VirtualHost, source: str, kind: str, destination: str) -> None:
    if source in DEFAULT_NAMES or (kind == "exchange" and destination in DEFAULT_NAMES):
        raise AccessRefused("operation not permitted on the default exchange")
    request.user.require("write", vhost.name, kind, destination)
    request.user.require("read", vhost.name, "exchange", source)


def require_topics(user: User, right: str, exchange: Exchange, *routing_keys: str) -> None:
    if exchange.type == "topic":
        for routing_key in routing_keys:
            user.require_topic(right, exchange.vhost.name, exchange.name, routing_key)


@describes("Bind a queue or an exchange to an exchange.", body=schemas.BINDING_BODY, status=201)
def post_binding(request: Request) -> Response:
    vhost, body = vhost_of(request), request.json()
    source_name, destination_name = request.names["source"], request.names["destination"]
    kind = KINDS.get(request.names["kind"])
    if kind is None:
        raise not_found()
    require_rights(request, vhost, source_name, kind, destination_name)
    source = vhost.exchange(source_name)
    destination: Queue | Exchange
    if kind == "queue":
        destination = vhost.queue(destination_name)
        require_access(destination, NO_OWNER)
    else:
        destination = vhost.exchange(destination_name)
    routing_key, arguments = clean(routing_key_of(body)), table(body, "arguments")
    require_topics(request.user, "read", source, routing_key)
    for name in via_names(arguments):
        if name in DEFAULT_NAMES:
            raise AccessRefused("operation not permitted on the default exchange")
        request.user.require("read", vhost.name, "exchange", name)
    vhost.bind(source, destination, routing_key, arguments)
    key = quote(properties_key(routing_key, arguments), safe="~")
    return Response(201, headers=(("location", f"{quote(destination_name, safe='')}/{key}"),))


@describes("Unbind.", status=204)
def delete_binding(request: Request) -> Response:
    vhost, source, destination = ends(request)
    kind = KINDS[request.names["kind"]]
    require_rights(request, vhost, source.name, kind, destination.name)
    binding = find(request, source, destination)
    require_topics(request.user, "read", source, binding.routing_key)
    if isinstance(destination, Queue):
        require_access(destination, NO_OWNER)
    vhost.unbind(source, destination, binding.routing_key, binding.arguments)
    return Response(204)


@describes("Where a message would go, and why.", body=schemas.EXPLAIN_BODY, answer=schemas.EXPLANATION)
async def explain(request: Request) -> Response:
    """Nothing is published."""
    vhost, body = vhost_of(request), request.json()
    exchange = exchange_named(vhost, request.names["name"])
    wanted = queue_named(vhost, text(body, "queue")) if "queue" in body else None
    properties = table(body, "properties")
    headers = {**table(properties, "headers"), **table(body, "headers")}
    try:
        payload = text(body, "payload").encode("utf-8")
        routing_key = routing_key_of(body)
        message = compose(
            exchange.name, routing_key, properties | {"headers": headers}, payload, request.user
        )
        explanation = Explanation(exchange, message, copy_keys(headers))
    except (AMQPError, UnicodeEncodeError) as error:
        raise bad_request(str(error)) from None
    steps, shown = Steps(request.context.scheduler), []
    ways = None if wanted is None else exchanges_before(wanted)
    for finding in explanation.findings():
        if ways is None or leads_to(finding, wanted, ways):
            shown.append(encode(finding_view(finding)))
        await steps.pause()
    document: View = {
        "queues": [queue.name for queue in explanation.queues],
        "by_chance": explanation.by_chance,
        "unroutable_reason": explanation.unroutable_reason,
    }
    return Response(200, encode(document)[:-1] + b',"bindings":[' + b",".join(shown) + b"]}")


def finding_view(finding: Finding) -> View:
    return {
        "source": finding.source.name,
        "destination": finding.destination,
        "destination_type": finding.destination_kind,
        "routing_key": finding.routing_key,
        "arguments": plain(finding.arguments),
        "matched": finding.matched,
        "reason": finding.reason,
    }


def exchanges_before(queue: Queue) -> set[str]:
    """All from which a message may come to the queue."""
    vhost = queue.vhost
    found = list(dict.fromkeys(binding.source for binding in vhost.queue_bindings.get(queue, ())))
    known = set(found)
    for exchange in found:  # grows while we walk
        for source in [*exchange.sources, *vhost.alternates.get(exchange.name, ())]:
            if source not in known:
                known.add(source)
                found.append(source)
    return {exchange.name for exchange in found}


def leads_to(finding: Finding, queue: Queue | None, ways: set[str]) -> bool:
    if finding.destination_kind == "exchange":
        return finding.destination in ways
    return queue is not None and finding.destination == queue.name
