"""Messages by HTTP: publish one, get some, browse a queue. For trying things out; AMQP is the way for more.

Browsing takes nothing: page by page, or those that fit a filter. A page is a bounded piece of work; a search
that has not found enough by then answers with what it has and with `next`, from where the following request
goes on.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from embermq.broker.incremental_work import Share
from embermq.broker.message.message import Message
from embermq.broker.message_filter import MessageFilter
from embermq.broker.publish import PROPERTY_NAMES, compose, copy_keys, publish
from embermq.broker.queue.browse import Place, Seen, ready_from
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue, failed, untouched
from embermq.broker.selector.selector import Selector
from embermq.broker.selector.syntax import SELECTOR_BYTES_MAX
from embermq.broker.selector.token import SelectorError
from embermq.broker.vhost import require_access
from embermq.errors import AccessRefused, AMQPError, ResourceLocked
from embermq.http.controllers.bindings import require_topics
from embermq.http.controllers.exchanges import DEFAULT_NAMES, vhost_of
from embermq.http.controllers.queues import NO_OWNER, queue_to
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import Parameter, describes, number, words
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import (
    Refusal,
    Request,
    Response,
    bad_request,
    check_field,
    echoed,
    encode,
    integer,
    parsed_json,
    require_keys,
    routing_key_of,
    table,
)
from embermq.http.server.router import BODY_BYTES_MAX as SMALL_BODY_BYTES_MAX
from embermq.http.views.json_values import decoded, plain
from embermq.http.views.views import View

BODY_BYTES_MAX = 8 * 1024 * 1024  # of a request to publish; AMQP is for larger messages
GET_COUNT_MAX = 10_000
BASE64_PIECE = 64 * 1024  # characters that are decoded in one step; a multiple of four
GET_BYTES_MAX = 16 * 1024 * 1024  # of bodies in one answer
SETTLED_TOGETHER = 256
REQUEUING = ("ack_requeue_true", "reject_requeue_true")
ACKMODES = (*REQUEUING, "ack_requeue_false", "reject_requeue_false")


class LargeBody(msgspec.Struct):
    """What is long is the payload; everything else is left out or parsed when it is known to be short."""

    payload: str | msgspec.UnsetType = msgspec.UNSET
    payload_encoding: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    properties: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    routing_key: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


large_body = msgspec.json.Decoder(LargeBody)


def told_in(request: Request) -> dict[str, Any]:
    if len(request.body) <= SMALL_BODY_BYTES_MAX:
        return request.json()
    try:
        found = msgspec.structs.asdict(large_body.decode(request.body))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise bad_request("payload_not_string" if "$.payload`" in str(error) else "not_json") from None
    told = {name: value for name, value in found.items() if value is not msgspec.UNSET}
    for name, value in told.items():
        if isinstance(value, msgspec.Raw):
            if len(bytes(value)) > SMALL_BODY_BYTES_MAX:
                raise bad_request(f"{name} is longer than {SMALL_BODY_BYTES_MAX} bytes")
            told[name] = parsed_json(bytes(value))
    return told


@describes("Publish a message.", body=schemas.PUBLISH_BODY, answer=schemas.every(routed=schemas.BOOLEAN))
async def publish_message(request: Request) -> Response:
    vhost, body = vhost_of(request), told_in(request)
    require_keys(body, "routing_key", "properties", "payload", "payload_encoding")
    name = "" if request.names["name"] in DEFAULT_NAMES else request.names["name"]
    if not isinstance(body["payload"], str):
        raise bad_request("payload_not_string")
    steps = Steps(request.context.scheduler)
    payload = await payload_of(body["payload"], body["payload_encoding"], steps)
    alarm = request.context.broker.alarms.reason
    if alarm:
        raise Refusal(503, "service_unavailable", f"publishers must wait: {alarm}")
    try:
        request.user.require("write", vhost.name, "exchange", name)
        exchange = vhost.exchange(name)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{name}' in vhost '{vhost.name}'")
        properties = table(body, "properties")
        keys = copy_keys(properties.get("headers"))
        routing_key = routing_key_of(body)
        require_topics(request.user, "write", exchange, routing_key, *keys)
        message = compose(name, routing_key, properties, payload, request.user)
    except AMQPError as error:  # RabbitMQ publishes over AMQP here and repeats what that says
        raise bad_request(str(error)) from None
    count, refusals = publish(exchange, message, keys)
    if refusals:
        raise bad_request("rejected Unable to publish message. Check queue limits.")
    return Response(200, b'{"routed":true}' if count else b'{"routed":false}', after_messages=True)


async def payload_of(payload: str, encoding: object, steps: Steps) -> bytes:
    if encoding == "string":
        try:
            return payload.encode("utf-8")
        except UnicodeEncodeError:
            raise bad_request("payload is not valid Unicode") from None
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", echoed(encoding)])
    pieces: list[bytes] = []
    try:
        for start in range(0, len(payload), BASE64_PIECE):
            piece, is_last = payload[start : start + BASE64_PIECE], start + BASE64_PIECE >= len(payload)
            if "=" in piece and not is_last:
                raise ValueError("padding in the middle")
            pieces.append(base64.b64decode(piece, validate=True))
            await steps.pause()
    except ValueError:
        raise bad_request(["not_base64", payload[:100]]) from None
    return b"".join(pieces)


@describes(
    "Take messages out, and put them back or not.",
    body=schemas.GET_BODY,
    answer=schemas.list_of(schemas.MESSAGE),
)
async def get_messages(request: Request) -> Response:
    """Take messages out, show them, and put them back or not, as `ackmode` says."""
    vhost, body = vhost_of(request), request.json()
    if "requeue" in body and "ackmode" not in body:  # as before RabbitMQ 3.7
        body["ackmode"] = "ack_requeue_true" if body["requeue"] in (True, "true") else "ack_requeue_false"
    require_keys(body, "ackmode", "count", "encoding")
    ackmode, encoding = body["ackmode"], body["encoding"]
    if ackmode not in ACKMODES:
        raise bad_request(["unknown_ackmode", echoed(ackmode)])
    count = integer(body, "count", 0, GET_COUNT_MAX)
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    truncate = integer(body, "truncate", 0, 2**31) if "truncate" in body else None
    name = request.names["name"]
    request.user.require("read", vhost.name, "queue", name)
    queue = vhost.queues.get(name)
    if queue is None:
        raise Refusal(404, "not_found", f"NOT_FOUND - no queue '{name}' in vhost '{vhost.name}'")
    try:
        require_access(queue, NO_OWNER)
    except ResourceLocked as error:  # as AMQP says it
        raise bad_request(str(error)) from None
    steps = Steps(request.context.scheduler)
    shown: list[bytes] = []
    taken: list[Entry] = []
    left = GET_BYTES_MAX
    try:
        while len(taken) < count and left > 0 and not queue.deleted:
            entry = queue.get()
            if entry is None:
                break
            taken.append(entry)
            left -= entry.message.size
            shown.append(encode(message_view(entry, queue.ready_count, encoding, truncate)))
            await steps.pause()
        while taken:
            some, taken = taken[:SETTLED_TOGETHER], taken[SETTLED_TOGETHER:]
            settle(queue, some, ackmode)
            await steps.pause()
    finally:  # the client may have gone meanwhile, without an answer
        if taken:
            queue.requeue(taken, untouched)
    return Response(200, b"[" + b",".join(shown) + b"]")


def settle(queue: Queue, entries: list[Entry], ackmode: str) -> None:
    if ackmode in REQUEUING or queue.deleted:
        queue.requeue(entries, failed if ackmode == "reject_requeue_true" else untouched)
    elif ackmode == "reject_requeue_false":
        queue.discard(entries)
    else:
        for entry in entries:
            queue.settle(entry)


def message_view(entry: Entry, message_count: int, encoding: str, truncate: int | None) -> View:
    return {
        "redelivered": bool(entry.redelivered),
        "message_count": message_count,
        **content_view(entry.message, encoding, truncate),
    }


def content_view(message: Message, encoding: str, truncate: int | None) -> View:
    body = message.body
    shown = body if truncate is None else body[:truncate]
    if encoding == "auto":
        payload, used = decoded(shown)
    else:
        payload, used = base64.b64encode(shown).decode("ascii"), "base64"
    return {
        "payload_bytes": len(body),
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "properties": properties_view(message.properties),
        "payload": payload,
        "payload_encoding": used,
    }


def properties_view(properties: Any) -> View:
    values = {name: getattr(properties, name) for name in PROPERTY_NAMES}
    return {name: plain(value) for name, value in values.items() if value is not None}


# -- browsing

COUNT, COUNT_MAX = 50, 500
SCAN_COUNT_MAX = 20_000  # messages looked at in one request
SCAN_BYTES_MAX = 64 * 1024 * 1024
ANSWER_BYTES_MAX = 8 * 1024 * 1024  # of bodies in one answer
SLICE_COUNT = 50  # between which others have their turn
SLICE_S = 0.001
TEXT_BYTES_MAX = 1000
FILTER_FIELDS = ("exchange", "routing_key", "headers", "body", "selector")

QUERY = (
    number("count", f"messages in the answer, {COUNT} where not given", 1, COUNT_MAX),
    words("from", "where to go on: `next` of the answer before, or the `position` of a message"),
    Parameter(
        "state",
        "`ready` messages (where not given), or those that are `unacked` with clients",
        {"type": "string", "enum": ["ready", "unacked"]},
    ),
    number("truncate", "show at most so many bytes of each body", 0, 2**31),
    words("exchange", "only those published to this exchange"),
    words("routing_key", "only those whose routing key fits this topic pattern"),
    words("header", "only those with this header; `name=value` for one that has this value"),
    words("body", "only those whose body has this text", TEXT_BYTES_MAX),
    words("selector", "only those for which this condition is true", SELECTOR_BYTES_MAX),
)


@describes("Look at messages, or search them, without touching them.", query=QUERY, answer=schemas.BROWSED)
async def browse(request: Request) -> Response:
    queue = queue_to(request, "read")
    wanted = filter_in_query(request.query)
    query: dict[str, Any] = dict(request.query)
    count = integer(query, "count", 1, COUNT_MAX) if "count" in query else COUNT
    truncate = integer(query, "truncate", 0, 2**31) if "truncate" in query else None
    state = query.get("state", "ready")
    if state == "unacked":
        return Response.of(await unacked_page(request, queue, wanted, count, truncate))
    if state != "ready":
        raise bad_request("state is ready or unacked")
    return Response.of(await ready_page(request, queue, wanted, count, truncate))


def place_asked(text: str | None) -> Place | None:
    if not text:
        return None
    try:
        return Place.parse(text)
    except ValueError as error:
        raise bad_request(str(error)) from None


async def ready_page(
    request: Request, queue: Queue, wanted: MessageFilter, count: int, truncate: int | None
) -> View:
    steps, place = Steps(request.context.scheduler), place_asked(request.query.get("from"))
    shown: list[View] = []
    scanned = scanned_bytes = shown_bytes = 0
    more = True
    while more and len(shown) < count and scanned < SCAN_COUNT_MAX and not queue.deleted:
        if scanned_bytes > SCAN_BYTES_MAX or shown_bytes > ANSWER_BYTES_MAX:
            break
        looked_at = 0
        share = Share(SLICE_S)
        try:
            for seen in ready_from(queue, place):
                place = seen.next_place
                looked_at += 1
                scanned_bytes += seen.message.size
                if wanted.matches(seen.message):
                    shown.append(ready_view(seen, truncate))
                    shown_bytes += len(shown[-1]["payload"])
                if looked_at >= SLICE_COUNT or len(shown) >= count or scanned_bytes > SCAN_BYTES_MAX:
                    break
                if share.is_over():
                    break
            else:
                more = False
        except ValueError as error:
            raise bad_request(str(error)) from None
        scanned += looked_at
        await steps.pause()
    return {"messages": shown, "scanned": scanned, "next": str(place) if more and place else None}


def ready_view(seen: Seen, truncate: int | None) -> View:
    return {
        "position": str(seen.place),
        "state": "ready",
        "redelivered": seen.redelivered,
        "paged_out": seen.entry is None,
        **({"expires_at": seen.expires_ms} if seen.expires_ms else {}),
        **content_view(seen.message, "auto", truncate),
    }


async def unacked_page(
    request: Request, queue: Queue, wanted: MessageFilter, count: int, truncate: int | None
) -> View:
    """Those that are out with clients, by channel; `from` skips so many."""
    skip = request.query.get("from") or "0"
    if not skip.isascii() or not skip.isdigit() or len(skip) > 9:
        raise bad_request("from is a number, for unacked messages")
    steps = Steps(request.context.scheduler)
    shown: list[View] = []
    scanned = shown_bytes = 0
    for channel, entries in request.context.sessions.unacked(queue):
        for entry in entries:
            await steps.pause()
            scanned += 1
            if scanned <= int(skip) or not wanted.matches(entry.message):
                continue
            if len(shown) >= count or shown_bytes > ANSWER_BYTES_MAX:
                return {"messages": shown, "scanned": scanned - 1, "next": str(scanned - 1)}
            view = {
                "state": "unacked",
                "redelivered": bool(entry.redelivered),
                "channel": channel.name,
                "delivery_tag": entry.delivery_tag,
                "consumer_tag": None if entry.consumer is None else entry.consumer.tag,
                **content_view(entry.message, "auto", truncate),
            }
            shown.append(view)
            shown_bytes += len(view["payload"])
    return {"messages": shown, "scanned": scanned, "next": None}


# -- filters


def filter_in_query(query: dict[str, str]) -> MessageFilter:
    body: dict[str, Any] = {
        name: query[name] for name in ("exchange", "routing_key", "body", "selector") if name in query
    }
    if "header" in query:
        name, equals, value = query["header"].partition("=")
        body["headers"] = {name: value if equals else None}
    return filter_of(body)


def filter_of(body: object) -> MessageFilter:
    """A filter as JSON: {"exchange": "", "routing_key": "a.#", "headers": {"x": null}, "body": "text",
    "selector": "x > 5"}."""
    if not isinstance(body, dict) or body.keys() - set(FILTER_FIELDS):
        raise bad_request(f"a filter is an object with {', '.join(FILTER_FIELDS)}")
    for name in ("exchange", "routing_key", "body"):
        value = body.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > TEXT_BYTES_MAX):
            raise bad_request(f"{name} of a filter is text, {TEXT_BYTES_MAX} characters at most")
    headers = body.get("headers") or {}
    if not isinstance(headers, dict):
        raise bad_request("headers of a filter is an object")
    check_field("headers", {name: value for name, value in headers.items() if value is not None}, 0)
    text = (body.get("body") or "").encode("utf-8", "surrogatepass")
    selector = body.get("selector")
    return MessageFilter(
        body.get("exchange"), body.get("routing_key"), headers, text, selector and selector_of(selector)
    )


def selector_of(text: object) -> Selector:
    if not isinstance(text, str):
        raise bad_request("selector of a filter is text")
    try:
        return Selector(text)
    except SelectorError as error:
        raise bad_request(error.detail) from None
