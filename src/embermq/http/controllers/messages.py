"""Messages by HTTP: publish one, look at some. For trying things out; AMQP is the way for more."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from embermq.broker.message.message import Message
from embermq.broker.publish import PROPERTY_NAMES, compose, copy_keys, publish
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.broker.queue.requeue import failed, untouched
from embermq.broker.vhost import require_access
from embermq.errors import AccessRefused, AMQPError, ResourceLocked
from embermq.http.controllers.bindings import require_topics
from embermq.http.controllers.exchanges import DEFAULT_NAMES, vhost_of
from embermq.http.controllers.queues import NOBODY
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.cooperative import Pace
from embermq.http.server.request import (
    Refusal,
    Request,
    Response,
    bad_request,
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
    pace = Pace(request.context.gate)
    payload = await payload_of(body["payload"], body["payload_encoding"], pace)
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


async def payload_of(payload: str, encoding: object, pace: Pace) -> bytes:
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
            await pace.breathe()
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
        require_access(queue, NOBODY)
    except ResourceLocked as error:  # as AMQP says it
        raise bad_request(str(error)) from None
    pace = Pace(request.context.gate)
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
            await pace.breathe()
        while taken:
            some, taken = taken[:SETTLED_TOGETHER], taken[SETTLED_TOGETHER:]
            settle(queue, some, ackmode)
            await pace.breathe()
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
