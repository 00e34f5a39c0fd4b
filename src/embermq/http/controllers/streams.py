"""Streams: look-up without consuming, places that are kept for consumers, super streams."""

from __future__ import annotations

from embermq.broker.exchange.exchange import Exchange
from embermq.broker.queue.queue import Queue
from embermq.broker.stream.arguments import OFFSET_MAX, Place, place_from
from embermq.broker.stream.stream import Stream
from embermq.broker.stream.super_stream import PARTITION_ORDER, create, delete, is_super_stream, partitions
from embermq.broker.vhost import VirtualHost
from embermq.errors import PreconditionFailed
from embermq.http.controllers.exchanges import in_order, vhost_of
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.controllers.queues import queue_named
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes, words
from embermq.http.server.request import (
    Request,
    Response,
    bad_request,
    echoed,
    integer,
    not_found,
    require_keys,
    table,
    text,
)
from embermq.http.views.listing import LIST, listing
from embermq.http.views.thing_name import clean
from embermq.http.views.views import View

PARTITIONS_MAX = 1000

AT = (
    words("timestamp", "milliseconds since 1970"),
    words("offset", "first, last, next, a number or an interval, as in x-stream-offset"),
)


def stream_of(request: Request, permission: str = "") -> Stream:
    vhost = vhost_of(request)
    stream = queue_named(vhost, request.names["name"])
    if permission:
        request.user.require(permission, vhost.name, "queue", stream.name)
    if not isinstance(stream, Stream):
        raise bad_request(f"queue '{stream.name}' is not a stream")
    return stream


def stream_view(stream: Stream) -> View:
    first = stream.log.segments[0] if stream.log.segments else None
    return {
        "name": stream.name,
        "vhost": stream.vhost.name,
        "first_offset": stream.first_offset,
        "next_offset": stream.safe_end,
        "messages": stream.safe_end - stream.first_offset,
        "bytes": stream.log.bytes_on_disk,
        "segments": len(stream.log.segments),
        "oldest_segment_ends_ms": first.time_max if first is not None else None,
        "consumers": [
            {
                "consumer_tag": cursor.consumer.tag,
                "name": cursor.group.name if cursor.group is not None else None,
                "active": not cursor.waits,
                "offset": cursor.offset,
                "lag": max(stream.safe_end - cursor.offset, 0),
            }
            for cursor in stream.cursors
        ],
        "tracking": tracking_view(stream),
    }


def tracking_view(stream: Stream) -> View:
    return {
        name: group.position
        for name, group in sorted(stream.groups.by_name.items())
        if name and group.position is not None
    }


def streams_of(vhosts: list[VirtualHost]) -> list[Stream]:
    return [queue for vhost in vhosts for queue in in_order(vhost.queues) if isinstance(queue, Stream)]


@describes("Streams.", query=LIST, answer=schemas.listed(schemas.STREAM))
async def all_streams(request: Request) -> Response:
    return await listing(request, streams_of(visible_vhosts(request)), stream_view)


@describes("Streams of a virtual host.", query=LIST, answer=schemas.listed(schemas.STREAM))
async def streams_in(request: Request) -> Response:
    return await listing(request, streams_of([vhost_of(request, to_see=True)]), stream_view)


@describes("A stream: its offsets, its readers and how far behind they are.", answer=schemas.STREAM)
def one_stream(request: Request) -> Response:
    return Response.of(stream_view(stream_of(request)))


@describes("The segment files of a stream.", answer=schemas.list_of(schemas.OBJECT))
def segments(request: Request) -> Response:
    """Where the bytes of a stream are, for a reader that shares out its work."""
    stream = stream_of(request)
    return Response.of(
        [
            {
                "first_offset": segment.first,
                "last_offset": segment.last,
                "bytes": segment.size,
                "newest_ms": segment.time_max,
            }
            for segment in stream.log.segments
        ]
    )


@describes("The offset at a time or place.", query=AT, answer=schemas.every(offset=schemas.COUNT))
def offset_at(request: Request) -> Response:
    """`?timestamp=` in milliseconds since 1970, or `?offset=` in the forms of x-stream-offset."""
    stream = stream_of(request)
    query = dict(request.query)
    if "timestamp" in query:
        place = Place("timestamp", timestamp_ms=integer(dict(query), "timestamp", 0, OFFSET_MAX))
    elif "offset" in query:
        value = query["offset"]
        asked: object = int(value) if value.isascii() and value.isdigit() and len(value) < 19 else value
        place = place_from(f"stream '{stream.name}'", asked, stream.vhost.turn.now_ms)
    else:
        raise bad_request("timestamp or offset is needed")
    return Response.of({"offset": stream.offset_at(place)})


@describes("How far the named consumers of a stream are.", answer=schemas.OBJECT)
def tracking(request: Request) -> Response:
    return Response.of(tracking_view(stream_of(request)))


@describes("Place a named consumer at an offset.", body=schemas.OFFSET_BODY, status=204)
def put_tracking(request: Request) -> Response:
    stream, body = stream_of(request, "read"), request.json()
    require_keys(body, "offset")
    name = clean(request.names["consumer"])
    if not name:
        raise bad_request("a consumer needs a name")
    stream.groups.place(name, integer(body, "offset", 0, OFFSET_MAX))
    return Response(204)


@describes("Forget a named consumer.", status=204)
def delete_tracking(request: Request) -> Response:
    stream = stream_of(request, "read")
    name = request.names["consumer"]
    if name not in tracking_view(stream):
        raise not_found()
    stream.groups.place(name, None)
    return Response(204)


# -- super streams


def super_stream_of(request: Request) -> tuple[VirtualHost, Exchange]:
    vhost = vhost_of(request)
    exchange = vhost.exchanges.get(request.names["name"])
    if exchange is None or not is_super_stream(exchange):
        raise not_found()
    return vhost, exchange


def super_stream_view(exchange: Exchange) -> View:
    return {
        "name": exchange.name,
        "vhost": exchange.vhost.name,
        "type": exchange.type,
        "partitions": [
            {
                "name": binding.destination.name,
                "routing_key": binding.routing_key,
                "order": binding.arguments[PARTITION_ORDER],
            }
            for binding in partitions(exchange)
        ],
    }


@describes("Super streams of a virtual host.", answer=schemas.list_of(schemas.SUPER_STREAM))
def super_streams_in(request: Request) -> Response:
    exchanges = vhost_of(request, to_see=True).exchanges
    return Response.of(
        [super_stream_view(exchanges[name]) for name in sorted(exchanges) if is_super_stream(exchanges[name])]
    )


@describes("A super stream and its partitions.", answer=schemas.SUPER_STREAM)
def one_super_stream(request: Request) -> Response:
    return Response.of(super_stream_view(super_stream_of(request)[1]))


@describes("Make a super stream.", body=schemas.SUPER_STREAM_BODY, status=(201, 204))
def put_super_stream(request: Request) -> Response:
    vhost, name, body = vhost_of(request), clean(request.names["name"]), request.json()
    if not name:
        raise bad_request("a super stream needs a name")
    keys: list[str] | None = None
    if "binding-keys" in body:  # RabbitMQ's word for it
        body["routing_keys"] = text(body, "binding-keys").split(",")
    if "routing_keys" in body:
        keys = body["routing_keys"]
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise bad_request(["routing_keys_not_texts", echoed(keys)])
        count = len(keys)
    else:
        require_keys(body, "partitions")
        count = integer(body, "partitions", 1, PARTITIONS_MAX)
    if not 1 <= count <= PARTITIONS_MAX:
        raise bad_request(f"partitions must be 1 to {PARTITIONS_MAX}")
    require = request.user.require
    require("configure", vhost.name, "exchange", name)
    require("read", vhost.name, "exchange", name)
    for number in range(count):
        require("configure", vhost.name, "queue", f"{name}-{number}")
        require("write", vhost.name, "queue", f"{name}-{number}")
    existed = name in vhost.exchanges
    create(vhost, name, keys, count, table(body, "arguments"))
    return Response(204 if existed else 201)


@describes("Delete a super stream with its partitions.", status=204)
def delete_super_stream(request: Request) -> Response:
    vhost, exchange = super_stream_of(request)
    require = request.user.require
    require("configure", vhost.name, "exchange", exchange.name)
    streams = [binding.destination for binding in partitions(exchange)]
    for stream in streams:
        require("configure", vhost.name, "queue", stream.name)
        if request.flag("if-unused") and isinstance(stream, Queue) and stream.consumers:
            raise PreconditionFailed(f"super stream '{exchange.name}' in vhost '{vhost.name}' in use")
    delete(exchange)
    return Response(204)
