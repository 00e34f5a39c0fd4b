"""RabbitMQ's routes about clusters, nodes and features, answered for a single node."""

from __future__ import annotations

import gc
import math

from embermq.broker.policy.parameter import GLOBAL
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.context import Context, resident_bytes
from embermq.http.server.request import Request, Response, bad_request, not_found, require_keys, text
from embermq.http.views.listing import LIST, listing
from embermq.http.views.views import View

CLUSTER_NAME = "cluster_name"
# What RabbitMQ would call feature flags, of those that EmberMQ always has.
FEATURES = {
    "classic_mirrored_queue_version": "Mirrored queues do not exist here",
    "direct_exchange_routing_v2": "Routes of direct exchanges are found by one look-up",
    "drop_unroutable_metric": "Counts of unroutable messages that are dropped",
    "empty_basic_get_metric": "Counts of basic.get on empty queues",
    "implicit_default_bindings": "Bindings to the default exchange are implied",
    "maintenance_mode_status": "A node can be drained",
    "quorum_queue": "x-queue-type quorum is accepted",
    "stream_queue": "Streams",
    "user_limits": "Limits of connections and channels per user",
    "virtual_host_metadata": "Virtual hosts have descriptions and tags",
}


# What RabbitMQ tells of its memory and there is nothing of here; its tools expect all of it.
MEMORY_OF_NOTHING = (
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "quorum_queue_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "metadata_store",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "metadata_store_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
    "reserved_unallocated",
)


COUNTED = (*MEMORY_OF_NOTHING, "queue_procs", "other_proc")


def cluster_name_of(context: Context) -> str:
    name = context.broker.parameters.values.get((GLOBAL, CLUSTER_NAME))
    return name if isinstance(name, str) else context.node


@describes(
    "The name of the cluster: that of the node, unless another was given.", answer=schemas.CLUSTER_NAME
)
def cluster_name(request: Request) -> Response:
    return Response.of({"name": cluster_name_of(request.context)})


def check_cluster_name(name: object) -> None:
    if not isinstance(name, str) or not name or not name.isprintable() or len(name) > 255:
        raise bad_request("a cluster's name is printable text")


@describes("Give the cluster another name.", body=schemas.CLUSTER_NAME, status=204)
def put_cluster_name(request: Request) -> Response:
    body = request.json()
    require_keys(body, "name")
    name = text(body, "name")
    check_cluster_name(name)
    request.context.broker.parameters.set(GLOBAL, CLUSTER_NAME, name)
    return Response(204)


@describes("Extensions of the web pages.", answer=schemas.list_of(schemas.OBJECT))
def extensions(request: Request) -> Response:
    return Response.of([{"javascript": "dispatcher.js"}])


@describes(
    "Feature flags: what RabbitMQ asks about and EmberMQ always has.", query=LIST, answer=schemas.LISTED
)
async def feature_flags(request: Request) -> Response:
    views = [
        {
            "name": name,
            "desc": about,
            "state": "enabled",
            "stability": "stable",
            "provided_by": "embermq",
            "doc_url": "",
        }
        for name, about in sorted(FEATURES.items())
    ]
    return await listing(request, views, lambda view: view, lambda view: str(view["name"]))


@describes("Enable a feature flag; they all are.", body=schemas.OBJECT, status=204)
def enable_feature_flag(request: Request) -> Response:
    if request.names["name"] not in FEATURES:
        raise bad_request("unsupported")
    return Response(204)


@describes("Features that will go; there are none.", answer=schemas.list_of(schemas.OBJECT))
def deprecated_features(request: Request) -> Response:
    return Response.of([])


@describes("Spread queues over the nodes of a cluster; there is one.", status=204)
def rebalance(request: Request) -> Response:
    return Response(204)


@describes("Forget the samples that rates are made of. Counters stay.", status=204)
def reset_history(request: Request) -> Response:
    if not request.context.is_here(request.names.get("node", request.context.node)):
        raise not_found()
    request.context.history.reset()
    return Response(204)


@describes("What the memory of the node is used for.", answer=schemas.OBJECT)
def node_memory(request: Request) -> Response:
    if not request.context.is_here(request.names["node"]):
        raise not_found()
    return Response.of({"memory": memory_view(request.context)})


@describes("The same in percent.", answer=schemas.OBJECT)
def node_memory_relative(request: Request) -> Response:
    if not request.context.is_here(request.names["node"]):
        raise not_found()
    view = memory_view(request.context)
    total = max(view["total"]["rss"], 1)
    percent = {
        name: math.ceil(view[name] * 100 / total) for name in COUNTED
    }  # however little it is, it shows
    return Response.of({"memory": {"total": 100, **percent}})


def memory_view(context: Context) -> View:
    ready = sum(level.ring_bytes for queue in context.broker.queues() for level in queue.levels)
    total = resident_bytes()
    return {
        **dict.fromkeys(MEMORY_OF_NOTHING, 0),
        "strategy": "rss",
        "queue_procs": ready,
        "other_proc": max(0, total - ready),
        "total": {"rss": total, "allocated": total, "erlang": 0},
        "python_objects_frozen": gc.get_freeze_count(),
    }
