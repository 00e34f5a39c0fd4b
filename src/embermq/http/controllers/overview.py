"""The broker as a whole: overview, node, version, the user of the request."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Hashable

from embermq.broker.exchange.exchange import PLUGIN_TYPES
from embermq.broker.vhost import VirtualHost
from embermq.http.controllers.cluster import cluster_name_of, memory_view
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes, flag
from embermq.http.server.auth import may_enter, sees_everything
from embermq.http.server.context import RABBITMQ_VERSION, Context, open_files, resident_bytes
from embermq.http.server.request import Request, Response, not_found
from embermq.http.stats.history import BASIC, DETAILED, GLOBAL
from embermq.http.stats.rates import RANGES, ranges_asked, total_numbers
from embermq.http.stats.totals import totals
from embermq.http.views.listing import COLUMNS, LIST, listing, single
from embermq.http.views.views import View

EXCHANGE_TYPES: list[dict[str, object]] = [
    {"name": name, "description": f"AMQP {name} exchange, as per the AMQP specification", "enabled": True}
    for name in ("direct", "fanout", "headers", "topic")
]
EXCHANGE_TYPES += [
    {"name": name, "description": description, "enabled": True}
    for name, description in (
        ("x-consistent-hash", "Consistent Hashing Exchange"),
        ("x-delayed-message", "Delayed Message Exchange."),
        ("x-local-random", "Picks one random local binding (queue) to route via (to)."),
        ("x-modulus-hash", "Modulus Hashing Exchange"),
        ("x-random", "Randomly picks a binding (queue) to route via (to)."),
        ("x-selector", "Routes by a selector of each binding."),
        ("system", "Hands messages to the service that the routing key names."),
    )
]


def exchange_types() -> list[dict[str, object]]:
    """With those of plug-ins, and those that exchanges have without a plug-in for them."""
    return EXCHANGE_TYPES + [
        {
            "name": state.name,
            "description": "A plug-in's." if state.kind is not None else "Missing: its plug-in is not there.",
            "enabled": state.enabled,
            "failures": state.failures,
            "last_failure": state.last_failure,
        }
        for state in PLUGIN_TYPES.values()
    ]


# Fields of a node, and what other rooms measure of it.
MEMORY = flag("memory", "with what its memory is used for")
NODE_LIMITS = {
    "mem_limit": "resident_memory_limit_bytes",
    "disk_free_limit": "disk_space_available_limit_bytes",
}


def visible_vhosts(request: Request) -> list[VirtualHost]:
    known = request.context.broker.vhosts
    vhosts = [known[name] for name in sorted(known)]
    return [vhost for vhost in vhosts if sees_everything(request.user) or may_enter(request.user, vhost.name)]


@describes("The broker as a whole: sums, rates, listeners.", query=RANGES, answer=schemas.OVERVIEW)
async def overview(request: Request) -> Response:
    context = request.context
    vhosts, ranges = visible_vhosts(request), ranges_asked(request)
    sums = await totals(vhosts, context.sessions, context.scheduler)
    keys: list[Hashable] = [("vhost", vhost.name) for vhost in vhosts]
    if sees_everything(request.user):
        sums.counters.add(context.broker.past)
        keys = ["overview"]
    view: View = {
        "management_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "EmberMQ",
        "product_version": context.version,
        "product_build": context.build,
        "rates_mode": "basic",
        "sample_retention_policies": {
            name: [kept for _, kept in policy]
            for name, policy in (("global", GLOBAL), ("basic", BASIC), ("detailed", DETAILED))
        },
        "exchange_types": exchange_types(),
        "cluster_name": cluster_name_of(context),
        "node": context.node,
        "erlang_version": "none",
        "erlang_full_version": f"none (Python {platform.python_version()})",
        "disable_stats": False,
        "enable_queue_totals": True,
        "statistics_db_event_queue": 0,
        **total_numbers(context.history, keys, sums.values(), ranges),
        "object_totals": {
            "connections": context.sessions.connection_count(),
            "channels": context.sessions.channel_count(),
            "exchanges": sums.exchanges,
            "queues": sums.queues,
            "consumers": sums.consumers,
        },
    }
    if sees_everything(request.user):
        view["listeners"] = listeners(context)
        view["contexts"] = web_contexts(context)
    return single(request, view)


def listeners(context: Context) -> list[View]:
    return [
        {
            "node": context.node,
            "protocol": listener.protocol,
            "ip_address": listener.host,
            "port": listener.port,
            "socket_opts": {},
        }
        for listener in context.listeners
    ]


def web_contexts(context: Context) -> list[View]:
    """Where this API answers; RabbitMQ tells ports as text here."""
    return [
        {
            "node": context.node,
            "description": "EmberMQ Management",
            "path": "/",
            "ip": listener.host,
            "port": str(listener.port),
            "ssl_opts": [],
        }
        for listener in context.listeners
        if listener.protocol in ("http", "https")
    ]


def node_view(context: Context) -> View:
    broker = context.broker
    view: View = {
        "name": context.node,
        "type": "disc",
        "running": True,
        "os_pid": str(os.getpid()),
        "uptime": context.uptime_ms,
        "processors": os.cpu_count() or 1,
        "mem_used": resident_bytes(),
        "mem_alarm": any("memory" in name for name in broker.alarms.raised),
        "disk_free_alarm": any("disk" in name for name in broker.alarms.raised),
        "fd_used": open_files(),
        "fd_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "sockets_used": context.sessions.connection_count(),
        "sockets_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "proc_used": 1 + context.sessions.channel_count(),  # ourselves, too: scripts take 0 for no answer
        "proc_total": 2**20,
        "run_queue": 0,
        "being_drained": False,
        "partitions": [],
        "rates_mode": "basic",
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": name, "description": f"SASL {name}", "enabled": True} for name in ("PLAIN", "AMQPLAIN")
        ],
        "applications": [{"name": "embermq", "description": "EmberMQ", "version": context.version}],
        "enabled_plugins": [],
        "log_files": [],
        "config_files": [],
        "cluster_links": [],
    }
    for field, measure in NODE_LIMITS.items():
        if measure in context.measures:
            view[field] = int(context.measures[measure]())
    if broker.storage is not None:
        path = broker.storage.data.layout.directory
        view["db_dir"] = path
        view["disk_free"] = broker.storage.data.free_bytes()
        syncs = broker.storage.data.committer.sync_times
        view["io_sync_count"] = syncs.count
        view["io_sync_avg_time"] = round(syncs.sum * 1000 / syncs.count, 3) if syncs.count else 0  # ms
    return view


@describes("The nodes; there is one.", query=LIST, answer=schemas.listed(schemas.NODE))
async def nodes(request: Request) -> Response:
    return await listing(request, [request.context], node_view)


@describes("The node: memory, disk, files, time.", query=(*COLUMNS, MEMORY), answer=schemas.NODE)
def node(request: Request) -> Response:
    if not request.context.is_here(request.names["node"]):
        raise not_found()
    view = node_view(request.context)
    if request.flag("memory"):
        view["memory"] = memory_view(request.context)
    return single(request, view)


@describes("Who is logged in.", answer=schemas.every(name=schemas.TEXT, tags=schemas.list_of(schemas.TEXT)))
def whoami(request: Request) -> Response:
    return Response.of({"name": request.user.name, "tags": sorted(request.user.tags)})


@describes("EmberMQ's version.", answer=schemas.TEXT)
def version(request: Request) -> Response:
    return Response.of(request.context.version)


@describes("How to log in.", answer=schemas.OBJECT)
def auth(request: Request) -> Response:
    return Response.of({"oauth_enabled": False, "enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


@describes("A list of things that EmberMQ does not have: empty.", answer=schemas.list_of(schemas.OBJECT))
def nothing_there(request: Request) -> Response:
    """A list of things that EmberMQ does not have (yet): empty, so that tools that ask go on."""
    return Response.of([])
