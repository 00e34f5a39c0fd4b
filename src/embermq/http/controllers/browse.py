"""Messages looked at where they are: page by page, or those that fit a filter. Nothing is taken.

A page is a bounded piece of work. A search that has not found enough by then answers with what it has and
with `next`, from where the following request goes on.
"""

from __future__ import annotations

from typing import Any

from embermq.broker.incremental_work import Share
from embermq.broker.message_filter import MessageFilter
from embermq.broker.queue.browse import Place, Seen, ready_from
from embermq.broker.queue.queue import Queue
from embermq.http.controllers.messages import content_view
from embermq.http.controllers.queues import queue_to
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import Parameter, describes, number, words
from embermq.http.server.cooperative import Pace
from embermq.http.server.request import Request, Response, bad_request, check_field, integer
from embermq.http.views.views import View

COUNT, COUNT_MAX = 50, 500
SCAN_COUNT_MAX = 20_000  # messages looked at in one request
SCAN_BYTES_MAX = 64 * 1024 * 1024
ANSWER_BYTES_MAX = 8 * 1024 * 1024  # of bodies in one answer
SLICE_COUNT = 50  # between which others have their turn
SLICE_S = 0.001
TEXT_BYTES_MAX = 1000
FILTER_FIELDS = ("exchange", "routing_key", "headers", "body")

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
    pace, place = Pace(request.context.gate), place_asked(request.query.get("from"))
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
        await pace.breathe()
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
    pace = Pace(request.context.gate)
    shown: list[View] = []
    scanned = shown_bytes = 0
    for channel, entries in request.context.sessions.unacked(queue):
        for entry in entries:
            await pace.breathe()
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
        name: query[name] for name in ("exchange", "routing_key", "body") if name in query
    }
    if "header" in query:
        name, equals, value = query["header"].partition("=")
        body["headers"] = {name: value if equals else None}
    return filter_of(body)


def filter_of(body: object) -> MessageFilter:
    """A filter as JSON: {"exchange": "", "routing_key": "a.#", "headers": {"x": null}, "body": "text"}."""
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
    return MessageFilter(body.get("exchange"), body.get("routing_key"), headers, text)
