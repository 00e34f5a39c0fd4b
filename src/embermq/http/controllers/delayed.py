"""Messages that wait for a time: taken back before it comes. How many there are, the other views show."""

from __future__ import annotations

from embermq.http.controllers.exchanges import exchange_named, vhost_of
from embermq.http.controllers.queues import queue_to
from embermq.http.openapi.route_docs import describes
from embermq.http.server.request import Request, Response


@describes("Take back messages that wait to be routed by an exchange.", status=204)
def take_back_from_exchange(request: Request) -> Response:
    vhost = vhost_of(request)
    exchange = exchange_named(vhost, request.names["name"])
    request.user.require("write", vhost.name, "exchange", exchange.name)
    vhost.delays.take_back_from_exchange(exchange.name)
    return Response(204)


@describes("Take back messages that wait to go to a queue.", status=204)
def take_back_from_queue(request: Request) -> Response:
    """What was published for the queue by its name, and what consumers gave back to it."""
    queue = queue_to(request, "read")
    queue.vhost.delays.take_back_from_queue(queue.name)
    return Response(204)
