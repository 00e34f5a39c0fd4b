"""Exchanges: list, declare, delete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from embermq.broker.exchange.binding import Binding
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import DEFAULT_EXCHANGE, VirtualHost
from embermq.errors import AccessRefused
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes, flag
from embermq.http.server.auth import require_vhost
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import Request, Response, boolean, not_found, table, text
from embermq.http.stats.rates import RANGES, ranges_asked
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.thing_name import clean
from embermq.http.views.views import View, binding_view, default_binding, exchange_view

Thing = TypeVar("Thing")
IF_UNUSED = flag("if-unused", "only if nothing uses it")
DEFAULT_NAMES = ("", "amq.default")  # how paths name the default exchange


def vhost_of(request: Request, *, to_see: bool = False) -> VirtualHost:
    """The virtual host in the path, which must be there and open to the user."""
    name = request.names["vhost"]
    require_vhost(request, name, to_see=to_see)
    return request.context.broker.vhosts[name]


def exchange_named(vhost: VirtualHost, name: str) -> Exchange:
    exchange = vhost.exchanges.get(DEFAULT_EXCHANGE if name in DEFAULT_NAMES else name)
    if exchange is None:
        raise not_found()
    return exchange


def in_order(things: Mapping[str, Thing]) -> list[Thing]:
    """By name, so that pages stay what they were when something is added."""
    return [things[name] for name in sorted(things)]


def view_asked(request: Request) -> Callable[[Exchange], View]:
    context, ranges = request.context, ranges_asked(request)
    return lambda exchange: exchange_view(context, exchange, ranges)


@describes("Exchanges.", query=LIST + RANGES, answer=schemas.listed(schemas.EXCHANGE))
async def all_exchanges(request: Request) -> Response:
    exchanges = [e for vhost in visible_vhosts(request) for e in in_order(vhost.exchanges)]
    return await listing(request, exchanges, view_asked(request))


@describes("Exchanges of a virtual host.", query=LIST + RANGES, answer=schemas.listed(schemas.EXCHANGE))
async def exchanges_in(request: Request) -> Response:
    return await listing(request, in_order(vhost_of(request, to_see=True).exchanges), view_asked(request))


@describes("An exchange.", query=COLUMNS + RANGES, answer=schemas.EXCHANGE)
def one_exchange(request: Request) -> Response:
    exchange = exchange_named(vhost_of(request), request.names["name"])
    return single(request, {**view_asked(request)(exchange), "incoming": [], "outgoing": []})


@describes("Declare an exchange.", body=schemas.EXCHANGE_BODY, status=(201, 204))
def put_exchange(request: Request) -> Response:
    vhost, name, body = vhost_of(request), clean(request.names["name"]), request.json()
    if name in DEFAULT_NAMES:
        raise AccessRefused("operation not permitted on the default exchange")
    # Of several mistakes RabbitMQ tells that of the first of these.
    auto_delete, durable, internal = (boolean(body, flag) for flag in ("auto_delete", "durable", "internal"))
    arguments = table(body, "arguments")
    require = request.user.require
    require("configure", vhost.name, "exchange", name)
    alternate = arguments.get("alternate-exchange")
    if isinstance(alternate, str):
        require("read", vhost.name, "exchange", name)
        require("write", vhost.name, "exchange", alternate)
    existed = name in vhost.exchanges
    vhost.declare_exchange(
        name,
        text(body, "type", "direct"),
        durable=durable,
        auto_delete=auto_delete,
        internal=internal,
        arguments=arguments,
    )
    return Response(204 if existed else 201)


@describes("Delete an exchange.", query=(IF_UNUSED,), status=204)
async def delete_exchange(request: Request) -> Response:
    vhost = vhost_of(request)
    exchange = exchange_named(vhost, request.names["name"])
    request.user.require("configure", vhost.name, "exchange", exchange.name)
    if exchange.name == DEFAULT_EXCHANGE:
        raise AccessRefused("operation not permitted on the default exchange")
    vhost.delete_exchange_named(exchange.name, request.flag("if-unused"))
    await unbound(request, vhost, exchange)
    return Response(204)


async def unbound(request: Request, vhost: VirtualHost, thing: Exchange | Queue) -> None:
    """When the last binding of what was deleted is gone, too."""
    steps = Steps(request.context.scheduler)
    while vhost.binding_removal.is_under_way(thing):
        await steps.next()


def bindings_to(vhost: VirtualHost, exchange: Exchange) -> Iterator[Binding]:
    """Those that lead into an exchange."""
    for source in exchange.sources:
        yield from (binding for binding in source.bindings.values() if binding.destination is exchange)


@describes("Bindings that lead from an exchange.", query=LIST, answer=schemas.listed(schemas.BINDING))
async def bindings_from_exchange(request: Request) -> Response:
    vhost = vhost_of(request)
    exchange = exchange_named(vhost, request.names["name"])
    if not exchange.name:  # every queue is bound to the default exchange
        return await listing(request, vhost.queues.values(), default_binding, lambda queue: queue.name)
    return await listing(request, exchange.bindings.values(), binding_view, lambda b: b.routing_key)


@describes("Bindings that lead to an exchange.", query=LIST, answer=schemas.listed(schemas.BINDING))
async def bindings_to_exchange(request: Request) -> Response:
    vhost = vhost_of(request)
    exchange = exchange_named(vhost, request.names["name"])
    return await listing(request, bindings_to(vhost, exchange), binding_view, lambda b: b.routing_key)


@describes("Take back messages that wait to be routed by an exchange.", status=204)
def take_back_from_exchange(request: Request) -> Response:
    vhost = vhost_of(request)
    exchange = exchange_named(vhost, request.names["name"])
    request.user.require("write", vhost.name, "exchange", exchange.name)
    vhost.delays.take_back_from_exchange(exchange.name)
    return Response(204)
