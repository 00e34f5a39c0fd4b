"""Logins, counted: RabbitMQ's `/api/auth/attempts`."""

from __future__ import annotations

from embermq.http import schemas
from embermq.http.describing import describes
from embermq.http.login_counts import LoginCounts
from embermq.http.request import Request, Response, not_found


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
