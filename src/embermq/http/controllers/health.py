"""Health checks: 200 with {"status": "ok"}, or 503 with what is wrong."""

from __future__ import annotations

import time

from embermq.http.controllers.exchanges import vhost_of
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.request import Request, Response, bad_request, not_found

PROTOCOLS = {
    **dict.fromkeys(("amqp091", "amqp0.9.1", "amqp0-9-1"), "amqp"),
    "amqps": "amqp/ssl",
}
PORT_DIGITS_MAX = 5
UNIT_DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
DAY_S = 24 * 60 * 60


def ok(**more: object) -> Response:
    return Response.of({"status": "ok", **more})


def failed(**what: object) -> Response:
    return Response.of({"status": "failed", **what}, 503)


@describes("Is no alarm raised?", answer=schemas.STATUS)
def alarms(request: Request) -> Response:
    raised = [
        {"node": request.context.node, "resource": name, "reason": detail}
        for name, detail in request.context.broker.alarms.raised.items()
    ]
    if raised:
        return failed(reason="There are alarms in effect in the cluster", alarms=raised)
    return ok()


@describes("Does somebody listen on this port?", answer=schemas.STATUS)
def port_listener(request: Request) -> Response:
    asked = request.names["port"]
    if not asked.isascii() or not asked.isdigit() or len(asked) > PORT_DIGITS_MAX:
        raise bad_request("Invalid port")
    ports = [listener.port for listener in request.context.listeners]
    if int(asked) in ports:
        return ok(port=int(asked))
    return failed(reason="No active listener", missing=int(asked), ports=ports)


@describes("Does somebody listen for this protocol?", answer=schemas.STATUS)
def protocol_listener(request: Request) -> Response:
    asked = request.names["protocol"]
    wanted = {name: PROTOCOLS.get(name.lower(), name.lower()) for name in asked.split(",")}
    protocols = sorted({listener.protocol for listener in request.context.listeners})
    if set(wanted.values()) <= set(protocols):
        return ok(protocol=",".join(wanted.values()))
    missing = [name for name, protocol in wanted.items() if protocol not in protocols]
    return failed(
        reason="No active listener", missing=missing if "," in asked else asked, protocols=protocols
    )


@describes("Are all virtual hosts running?", answer=schemas.STATUS)
def always_ok(request: Request) -> Response:
    return ok()


@describes("Does no certificate end within so many days, weeks, months or years?", answer=schemas.STATUS)
def certificates(request: Request) -> Response:
    within, unit = request.names["within"], request.names["unit"].lower()
    if not within.isascii() or not within.isdigit() or len(within) > PORT_DIGITS_MAX:
        raise bad_request("Invalid expiration: a number is expected")
    if unit not in UNIT_DAYS:
        raise bad_request(f"Time unit not recognised: expected one of {', '.join(UNIT_DAYS)}")
    end = request.context.certificate_end()
    if end is None or end > time.time() + int(within) * UNIT_DAYS[unit] * DAY_S:
        return ok()
    expired = [{"node": request.context.node, "ends_at": int(end)}]
    return failed(reason="Certificates expiring", expired=expired)


@describes(
    "Could the node be stopped without a quorum being lost? There is one node.",
    answer=schemas.STATUS,
)
def single_node(request: Request) -> Response:
    return ok(reason="single node cluster")


@describes("Can messages pass in this virtual host?", answer=schemas.STATUS)
def aliveness(request: Request) -> Response:
    """RabbitMQ sends a message to itself; here the loop that answers is the one that carries messages."""
    vhost_of(request)
    return alarms(request)


@describes("Are there fewer connections than there may be?", answer=schemas.STATUS)
def below_connection_limit(request: Request) -> Response:
    limit, count = request.context.connections_max(), request.context.sessions.connection_count()
    if limit and count >= limit:
        return failed(reason="connection limit is reached", limit=limit, connections=count)
    return ok(connections=count, **({"limit": limit} if limit else {}))


@describes("Does the broker carry messages?", answer=schemas.STATUS)
def in_service(request: Request) -> Response:
    """A broker that answers here carries messages, too: it is the same loop."""
    return ok()


@describes("Is no alarm raised on this node?", answer=schemas.STATUS)
def node_alarms(request: Request) -> Response:
    if request.names["node"] != request.context.node:
        raise not_found()
    return alarms(request)
