"""Leases of messages of a queue: made, listed, settled, released, renewed (docs/leases.md)."""

from __future__ import annotations

import asyncio

from embermq.broker.describe import description_of_lease
from embermq.broker.lease.lease import BYTES_MAX, MESSAGES_MAX, OPEN, SETTLED, TIMEOUT_MS_MAX, Lease
from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import generated_name
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.controllers.queues import queue_to
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.request import Refusal, Request, Response, bad_request, integer, not_found, text
from embermq.http.views.thing_name import clean

MESSAGES_DEFAULT, BYTES_DEFAULT = 10_000, 64 * 1024 * 1024
TIMEOUT_MS_DEFAULT = 600_000
NAME_BYTES_MAX = 255

LEASE = schemas.every(
    name=schemas.TEXT,
    queue=schemas.TEXT,
    vhost=schemas.TEXT,
    state={"enum": ["open", "settled", "empty"]},
    count=schemas.COUNT,
    bytes=schemas.COUNT,
    created_ms=schemas.COUNT,
    expires_ms=schemas.COUNT_OR_NULL,
)
WANTED = schemas.fields(
    name={"type": "string", "minLength": 1, "maxLength": 60},
    max_messages={"type": "integer", "minimum": 1, "maximum": MESSAGES_MAX},
    max_bytes={"type": "integer", "minimum": 1, "maximum": BYTES_MAX},
    timeout_ms={"type": "integer", "minimum": 0, "maximum": TIMEOUT_MS_MAX},
)
RENEWAL = schemas.fields(timeout_ms={"type": "integer", "minimum": 0, "maximum": TIMEOUT_MS_MAX})


def queue_of(request: Request) -> Queue:
    queue = queue_to(request, "read")
    if not queue.messages_leave:
        raise bad_request("messages do not leave a stream; read a range of it")
    return queue


def lease_of(request: Request) -> Lease:
    """Open or settled."""
    queue = queue_of(request)
    lease = queue.vhost.leases.of.get(queue, {}).get(request.names["lease"])
    if lease is None:
        raise not_found()
    return lease


def number(request: Request, name: str, usual: int, minimum: int, maximum: int) -> int:
    body = request.json()
    return integer(body, name, minimum, maximum) if name in body else usual


@describes(
    "Lease messages of a queue; the same name again answers the lease that there is.",
    body=WANTED,
    answer=LEASE,
    status=(200, 201),
)
async def create(request: Request) -> Response:
    queue = queue_of(request)
    leases = queue.vhost.leases
    name = clean(text(request.json(), "name")) or generated_name("lease-")
    if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
        raise bad_request("the name is too long")
    timeout_ms = number(request, "timeout_ms", TIMEOUT_MS_DEFAULT, 0, TIMEOUT_MS_MAX)
    left = number(request, "max_messages", MESSAGES_DEFAULT, 1, MESSAGES_MAX)
    bytes_max = number(request, "max_bytes", BYTES_DEFAULT, 1, BYTES_MAX)
    existing = leases.of.get(queue, {}).get(name)
    if existing is not None:
        require_rest(existing)
        return Response.of(description_of_lease(existing))
    queue.vhost.turn.refresh()
    lease = leases.begin(queue, name, timeout_ms)
    for _ in leases.taking(lease, left, bytes_max):
        await asyncio.sleep(0)
    if queue.deleted:
        raise not_found()
    return Response.of(description_of_lease(lease), 201 if lease.count else 200)


@describes("Leases of a queue, open and settled.", answer=schemas.list_of(LEASE))
def leases_on(request: Request) -> Response:
    queue = queue_of(request)
    return Response.of(
        [description_of_lease(lease) for lease in queue.vhost.leases.of.get(queue, {}).values()]
    )


@describes("Open leases of all queues.", answer=schemas.list_of(LEASE))
def open_leases(request: Request) -> Response:
    found = [lease for vhost in visible_vhosts(request) for lease in vhost.leases.open_ones()]
    return Response.of([description_of_lease(lease) for lease in found])


@describes("A lease.", answer=LEASE)
def one_lease(request: Request) -> Response:
    return Response.of(description_of_lease(lease_of(request)))


@describes("Ack all messages of a lease, in one step; again, it changes nothing.", status=204)
def settle(request: Request) -> Response:
    lease = lease_of(request)
    if lease.state != SETTLED:
        require_open(lease)
        lease.queue.vhost.leases.settle(lease)
    return Response(204)


@describes("Give all messages of a lease back to the queue, each to its place.", status=204)
async def release(request: Request) -> Response:
    lease = lease_of(request)
    require_open(lease)
    leases, done = lease.queue.vhost.leases, asyncio.Event()
    leases.release(lease, done=done.set)
    await done.wait()
    if lease.queue.deleted:
        raise not_found()
    if leases.has(lease):
        raise Refusal(503, "service_unavailable", f"lease '{lease.name}' could not be released now")
    return Response(204)


@describes("Another time-out for a lease, from now.", body=RENEWAL, answer=LEASE)
def renew(request: Request) -> Response:
    lease = lease_of(request)
    require_open(lease)
    lease.queue.vhost.turn.refresh()
    timeout_ms = number(request, "timeout_ms", TIMEOUT_MS_DEFAULT, 0, TIMEOUT_MS_MAX)
    lease.queue.vhost.leases.renew(lease, timeout_ms)
    return Response.of(description_of_lease(lease))


def require_open(lease: Lease) -> None:
    require_rest(lease)
    if lease.state != OPEN:
        raise Refusal(409, "conflict", f"lease '{lease.name}' is {lease.state}")


def require_rest(lease: Lease) -> None:
    """Its messages are neither being taken nor on their way back."""
    if lease.being_made or lease.being_released:
        what = "made" if lease.being_made else "released"
        raise Refusal(409, "conflict", f"lease '{lease.name}' is being {what}")
