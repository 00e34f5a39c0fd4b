"""Messages by HTTP: publish one, look at some. For trying things out; AMQP is the way for more."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from embermq.broker.level import Entry
from embermq.broker.message import Message
from embermq.broker.publishing import PROPERTY_NAMES, compose, copy_keys, publish
from embermq.broker.returned import failed, untouched
from embermq.broker.vhost import require_access
from embermq.errors import AccessRefused, AMQPError, ResourceLocked
from embermq.http import schemas
from embermq.http.bindings import require_topics
from embermq.http.describing import describes
from embermq.http.exchanges import DEFAULT_NAMES, vhost_of
from embermq.http.plain import decoded, plain
from embermq.http.queues import NOBODY
from embermq.http.request import (
    Refusal,
    Request,
    Response,
    bad_request,
    echoed,
    integer,
    require_keys,
    routing_key_of,
    table,
)
from embermq.http.views import View

GET_COUNT_MAX = 10_000
GET_BYTES_MAX = 16 * 1024 * 1024  # of bodies in one answer
REQUEUING = ("ack_requeue_true", "reject_requeue_true")
ACKMODES = (*REQUEUING, "ack_requeue_false", "reject_requeue_false")


@describes("Publish a message.", body=schemas.PUBLISH_BODY, answer=schemas.every(routed=schemas.BOOLEAN))
def publish_message(request: Request) -> Response:
    vhost, body = vhost_of(request), request.json()
    require_keys(body, "routing_key", "properties", "payload", "payload_encoding")
    name = "" if request.names["name"] in DEFAULT_NAMES else request.names["name"]
    if not isinstance(body["payload"], str):
        raise bad_request("payload_not_string")
    payload = payload_of(body["payload"], body["payload_encoding"])
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


def payload_of(payload: str, encoding: object) -> bytes:
    if encoding == "string":
        try:
            return payload.encode("utf-8")
        except UnicodeEncodeError:
            raise bad_request("payload is not valid Unicode") from None
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", echoed(encoding)])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", payload[:100]]) from None


@describes(
    "Take messages out, and put them back or not.",
    body=schemas.GET_BODY,
    answer=schemas.list_of(schemas.MESSAGE),
)
def get_messages(request: Request) -> Response:
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
    taken: list[Entry] = []
    shown: list[View] = []
    left = GET_BYTES_MAX
    while len(taken) < count and left > 0:
        entry = queue.get()
        if entry is None:
            break
        taken.append(entry)
        left -= entry.message.size
        shown.append(message_view(entry, queue.ready_count, encoding, truncate))
    if ackmode in REQUEUING:
        queue.requeue(taken, failed if ackmode == "reject_requeue_true" else untouched)
    elif ackmode == "reject_requeue_false":
        queue.discard(taken)
    else:
        for entry in taken:
            queue.settle(entry)
    return Response.of(shown)


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
