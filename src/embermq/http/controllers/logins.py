"""Logins, tried and counted: RabbitMQ's `/api/login` and `/api/auth/attempts`."""

from __future__ import annotations

import base64
from dataclasses import replace
from urllib.parse import parse_qsl

from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import MANAGEMENT, Doorkeeper, require_tag
from embermq.http.server.request import QUERY_FIELDS_MAX, Request, Response, bad_request, not_found
from embermq.http.stats.login_counts import LoginCounts


def counts_of(request: Request) -> LoginCounts:
    if request.names["node"] != request.context.node:
        raise not_found()
    return request.context.logins


@describes("Logins by protocol.", answer=schemas.list_of(schemas.OBJECT))
def by_protocol(request: Request) -> Response:
    found = counts_of(request).protocols
    return Response.of([attempts.view(protocol) for protocol, attempts in sorted(found.items())])


@describes("Logins by address, user and protocol; the last thousand.", answer=schemas.list_of(schemas.OBJECT))
def by_source(request: Request) -> Response:
    views = [
        {"remote_address": address, "username": user, **attempts.view(protocol)}
        for (address, user, protocol), attempts in sorted(counts_of(request).sources.items())
    ]
    return Response.of(views)


@describes("Forget the logins.", status=204)
def reset(request: Request) -> Response:
    counts = counts_of(request)
    counts.protocols.clear()
    counts.sources.clear()
    return Response(204)


@describes(
    "Is this a name and its password? As a form of a page sends them.",
    body=schemas.every(username=schemas.TEXT, password=schemas.TEXT),
    answer=schemas.TEXT,
)
async def log_in(request: Request) -> Response:
    """Nobody is logged in by it: every request says who asks."""
    try:
        form = dict(parse_qsl(request.body.decode("latin-1"), max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        raise bad_request("too many fields") from None
    pair = f"{form.get('username', '')}:{form.get('password', '')}".encode("utf-8", "surrogateescape")
    asking = replace(request, headers={"authorization": f"Basic {base64.b64encode(pair).decode()}"})
    require_tag(await Doorkeeper(request.context.broker).admit(asking), MANAGEMENT)
    return Response.of("ok")
