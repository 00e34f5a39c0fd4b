"""Connections, channels and consumers: list; close connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from embermq.broker.queue.consumer import Consumer
from embermq.broker.session_info import ChannelInfo, ConnectionInfo
from embermq.broker.vhost import VirtualHost
from embermq.http.controllers.exchanges import vhost_of
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import ADMINISTRATOR, sees_everything
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import Request, Response, not_authorised, not_found
from embermq.http.stats.rates import RANGES, ranges_asked
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.views import channel_view, connection_view, consumer_view

REASON_BYTES_MAX = 200


def own(request: Request, infos: Iterable[ConnectionInfo]) -> list[ConnectionInfo]:
    """Those that the user may see: all, or the user's own."""
    return [info for info in infos if sees_everything(request.user) or info.user == request.user.name]


@describes("Connections.", query=LIST + RANGES, answer=schemas.listed(schemas.CONNECTION))
async def all_connections(request: Request) -> Response:
    ranges = ranges_asked(request)
    infos = own(request, request.context.sessions.connections())
    return await listing(request, infos, lambda info: connection_view(request.context, info, ranges))


@describes("Connections to a virtual host.", query=LIST + RANGES, answer=schemas.listed(schemas.CONNECTION))
async def connections_in(request: Request) -> Response:
    vhost, ranges = vhost_of(request, to_see=True).name, ranges_asked(request)
    infos = [info for info in own(request, request.context.sessions.connections()) if info.vhost == vhost]
    return await listing(request, infos, lambda info: connection_view(request.context, info, ranges))


@describes("Connections of a user.", query=LIST + RANGES, answer=schemas.listed(schemas.CONNECTION))
async def connections_of_user(request: Request) -> Response:
    infos = own(request, request.context.sessions.connections())
    name, ranges = request.names["user"], ranges_asked(request)
    return await listing(
        request,
        [i for i in infos if i.user == name],
        lambda info: connection_view(request.context, info, ranges),
    )


def connection_named(request: Request) -> ConnectionInfo:
    info = request.context.sessions.connection(request.names["name"])
    if info is None:
        raise not_found()
    if not own(request, [info]):
        raise not_authorised("User not authorised to access object")
    return info


@describes("A connection.", query=COLUMNS + RANGES, answer=schemas.CONNECTION)
def one_connection(request: Request) -> Response:
    return single(request, connection_view(request.context, connection_named(request), ranges_asked(request)))


@describes("Close a connection; the header X-Reason is told to the client.", status=204)
def close_connection(request: Request) -> Response:
    info = connection_named(request)
    if ADMINISTRATOR not in request.user.tags and info.user != request.user.name:
        raise not_authorised("User not authorised to access object")
    reason = request.headers.get("x-reason", "") or "Closed via management plugin"
    request.context.sessions.close(info, reason[:REASON_BYTES_MAX])
    return Response(204)


@describes("Close all connections of a user.", status=204)
async def close_connections_of_user(request: Request) -> Response:
    steps = Steps(request.context.scheduler)
    reason = request.headers.get("x-reason", "") or "Closed via management plugin"
    for _ in request.context.sessions.close_all(reason[:REASON_BYTES_MAX], user=request.names["user"]):
        await steps.pause()
    return Response(204)


def own_channels(request: Request) -> list[ChannelInfo]:
    channels = request.context.sessions.channels()
    name = request.user.name
    return [c for c in channels if sees_everything(request.user) or c.connection.user == name]


@describes("Channels.", query=LIST + RANGES, answer=schemas.listed(schemas.CHANNEL))
async def all_channels(request: Request) -> Response:
    ranges = ranges_asked(request)
    return await listing(
        request, own_channels(request), lambda info: channel_view(request.context, info, ranges)
    )


@describes("Channels in a virtual host.", query=LIST + RANGES, answer=schemas.listed(schemas.CHANNEL))
async def channels_in(request: Request) -> Response:
    vhost, ranges = vhost_of(request, to_see=True).name, ranges_asked(request)
    channels = [info for info in own_channels(request) if info.connection.vhost == vhost]
    return await listing(request, channels, lambda info: channel_view(request.context, info, ranges))


@describes("Channels of a connection.", query=LIST + RANGES, answer=schemas.listed(schemas.CHANNEL))
async def channels_of_connection(request: Request) -> Response:
    number, ranges = connection_named(request).number, ranges_asked(request)
    channels = [info for info in own_channels(request) if info.connection.number == number]
    return await listing(request, channels, lambda info: channel_view(request.context, info, ranges))


@describes("A channel, with its consumers.", query=COLUMNS + RANGES, answer=schemas.CHANNEL)
def one_channel(request: Request) -> Response:
    ranges = ranges_asked(request)
    for info in own_channels(request):
        if info.name == request.names["name"]:
            consumers = request.context.sessions.consumers_of(info)
            details = [consumer_view(request.context, consumer) for consumer in consumers]
            return single(
                request, channel_view(request.context, info, ranges) | {"consumer_details": details}
            )
    raise not_found()


def all_in(vhosts: Iterable[VirtualHost]) -> Iterator[Consumer]:
    for vhost in vhosts:
        for queue in vhost.queues.values():
            yield from queue.consumers


@describes("Consumers.", query=LIST, answer=schemas.listed(schemas.CONSUMER))
async def all_consumers(request: Request) -> Response:
    found = all_in(visible_vhosts(request))
    return await listing(
        request, found, lambda consumer: consumer_view(request.context, consumer), lambda c: c.tag
    )


@describes("Consumers in a virtual host.", query=LIST, answer=schemas.listed(schemas.CONSUMER))
async def consumers_in(request: Request) -> Response:
    found = all_in([vhost_of(request, to_see=True)])
    return await listing(
        request, found, lambda consumer: consumer_view(request.context, consumer), lambda c: c.tag
    )
