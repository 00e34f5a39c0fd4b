"""Server-sent events, `GET /api/stream`: the numbers of the overview once a second, and what has changed.

    event: overview     sums and rates of the virtual hosts that the user sees, alarms
    event: node         memory, disk, files, sync latency; every five seconds, for monitoring users
    event: change       lists of the API that have other things in them than before

Everything is computed once for all listeners (see `stats/live.py`); those that see the same virtual hosts get
the same bytes. It ends when its user may no longer log in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from embermq.http.controllers.overview import node_view, visible_vhosts
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import ADMINISTRATOR, sees_everything
from embermq.http.server.context import Context
from embermq.http.server.request import Refusal, Request, Response, encode
from embermq.http.server.session import Session, token_in
from embermq.http.stats.live import Snapshot, total_of
from embermq.http.stats.rates import VHOST_STATS
from embermq.http.stats.totals import COLUMNS, LENGTHS
from embermq.http.views.views import View

CONTENT_TYPE = "text/event-stream"
RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser comes back
NODE_EVERY = 5
NODE_FIELDS = (
    *("name", "uptime", "processors", "mem_used", "mem_limit", "mem_alarm", "disk_free", "disk_free_limit"),
    *("disk_free_alarm", "fd_used", "fd_total", "sockets_used", "io_sync_count", "io_sync_avg_time"),
)
FOR_ADMINISTRATORS = ("users", "permissions", "topic-permissions", "operator-policies")


@describes(
    "Server-sent events: `overview` every second, `node` every five, `change` when a list has changed.",
    answer=schemas.TEXT,
    content_type=CONTENT_TYPE,
)
def stream(request: Request) -> Response:
    if request.context.live.is_full:
        raise Refusal(503, "service_unavailable", "there are too many listeners")
    return Response(200, b"", CONTENT_TYPE, (("cache-control", "no-store"),), endless=events(request))


async def events(request: Request) -> AsyncGenerator[bytes]:
    live, session = request.context.live, session_of(request)
    live.enter()
    try:
        yield RETRY
        is_first = True
        while True:
            snapshot = await live.next()
            if not is_valid(request, session):
                return
            yield written(request, snapshot, with_node=is_first or snapshot.number % NODE_EVERY == 0)
            is_first = False
    finally:
        live.leave()


def session_of(request: Request) -> Session:
    user, clock = request.user, request.context.console_sessions.clock
    return Session(user, user.secret, user.tags, clock())


def is_valid(request: Request, session: Session) -> bool:
    """Signing out ends it, and all that ends a session."""
    sessions = request.context.console_sessions
    session.used_at = sessions.clock()
    if "authorization" not in request.headers:
        return token_in(request.headers.get("cookie", "")) in sessions.by_token and sessions.is_valid(session)
    return sessions.is_valid(session)


def written(request: Request, snapshot: Snapshot, *, with_node: bool) -> bytes:
    """What this user gets with this snapshot."""
    context, user = request.context, request.user
    sees_all = sees_everything(user)
    vhosts = tuple(vhost.name for vhost in visible_vhosts(request))
    key = (sees_all, vhosts)
    if key not in snapshot.encoded:
        snapshot.encoded[key] = event("overview", overview_view(context, snapshot, vhosts, sees_all))
    text = snapshot.encoded[key]
    if with_node and sees_all:
        if "node" not in snapshot.encoded:
            known = node_view(context)
            snapshot.encoded["node"] = event(
                "node", {name: known[name] for name in NODE_FIELDS if name in known}
            )
        text += snapshot.encoded["node"]
    changed = {
        name
        for name, vhost in snapshot.changed
        if (not vhost or sees_all or vhost in vhosts)
        and (name not in FOR_ADMINISTRATORS or ADMINISTRATOR in user.tags)
    }
    return text + event("change", {"lists": sorted(changed)}) if changed else text


def overview_view(context: Context, snapshot: Snapshot, vhosts: Sequence[str], sees_all: bool) -> View:
    """The fields have the names that they have in `/api/overview`."""
    total = total_of(snapshot.sums, vhosts)
    values, before = total.values(), total_of(snapshot.sums_before, vhosts).values()
    if sees_all:
        total.counters.add(context.broker.past)
    now = total.values()

    def numbers(columns: Sequence[str]) -> View:
        view: View = {}
        for column in columns:
            at = COLUMNS.index(column)
            change = values[at] - before[at]
            rate = change if column in LENGTHS else max(change, 0)
            view[column] = now[at]
            view[f"{column}_details"] = {"rate": round(rate * 1000 / snapshot.elapsed_ms, 1)}
        return view

    return {
        "timestamp": snapshot.time_ms,
        "queue_totals": numbers(LENGTHS),
        "message_stats": numbers(VHOST_STATS),
        "object_totals": {
            "connections": context.sessions.connection_count(),
            "channels": context.sessions.channel_count(),
            "exchanges": total.exchanges,
            "queues": total.queues,
            "consumers": total.consumers,
        },
        "alarms": [
            {"resource": name, "reason": detail} for name, detail in context.broker.alarms.raised.items()
        ],
    }


def event(name: str, value: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode(value))
