"""Messages that wait for a time: taken back before it comes. How many there are, the other views show."""

from __future__ import annotations

from embermq.broker.vhost import require_access
from embermq.http.describing import describes
from embermq.http.exchanges import exchange_named, vhost_of
from embermq.http.queues import NOBODY, queue_named
from embermq.http.request import Request, Response


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
    vhost = vhost_of(request)
    queue = queue_named(vhost, request.names["name"])
    request.user.require("read", vhost.name, "queue", queue.name)
    require_access(queue, NOBODY)
    vhost.delays.take_back_from_queue(queue.name)
    return Response(204)
