"""Delayed messages: how many wait for which exchange or queue."""

from __future__ import annotations

from collections.abc import Iterator

from embermq.broker.vhost import VirtualHost
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.request import Request, Response
from embermq.http.views.listing import LIST, listing
from embermq.http.views.views import View

# How `broker.delayed` writes a destination: published for an exchange, for a queue, given back to a queue.
KINDS = {"e": ("exchange", "published"), "q": ("queue", "published"), "r": ("queue", "retried")}
DELAYED = schemas.every(
    vhost=schemas.TEXT,
    destination=schemas.TEXT,
    destination_type={"enum": ["exchange", "queue"]},
    reason={"enum": ["published", "retried"]},
    messages=schemas.COUNT,
)


def delayed_in(vhost: VirtualHost) -> Iterator[View]:
    for destination, count in sorted(vhost.delays.counts.items()):
        kind, _, name = destination.partition(":")
        destination_type, reason = KINDS[kind]
        ends = {"destination": name, "destination_type": destination_type}
        yield {"vhost": vhost.name, **ends, "reason": reason, "messages": count}


@describes("Delayed messages, by destination.", query=LIST, answer=schemas.listed(DELAYED))
async def all_delayed(request: Request) -> Response:
    views = [view for vhost in visible_vhosts(request) for view in delayed_in(vhost)]
    return await listing(request, views, lambda view: view, lambda view: str(view["destination"]))
