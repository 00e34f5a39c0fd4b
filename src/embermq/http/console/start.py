"""The start page: the broker at a glance, as far as its user may see it."""

from __future__ import annotations

from collections.abc import Hashable
from html import escape
from itertools import chain

from embermq.broker.vhost import VirtualHost
from embermq.http.console import chart, dashboard, pipelines, queues
from embermq.http.console.dashboard import alarms, cards, masthead
from embermq.http.console.document import FLAME, page
from embermq.http.console.refresh import refresh_head
from embermq.http.console.words import duration, many, size
from embermq.http.controllers.overview import visible_vhosts
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes, number, words
from embermq.http.server.auth import sees_everything
from embermq.http.server.context import resident_bytes
from embermq.http.server.request import Request, Response
from embermq.http.stats.totals import Totals, totals

QUERY = (
    words("name", "queues with this text in their names"),
    words("sort", f"queues by one of {', '.join(word for word, _, _ in queues.HEADS)}"),
    number("page", f"of the queues, {queues.QUEUES_SHOWN_MAX} each", 1, 10**queues.PAGE_DIGITS_MAX - 1),
    number("every", "seconds after which the browser asks again: 2, 10 or 60", 2, 60),
)


@describes(
    "A page with the most important numbers.", query=QUERY, answer=schemas.TEXT, content_type="text/html"
)
async def start_page(request: Request) -> Response:
    context, vhosts, choice = request.context, visible_vhosts(request), queues.Choice(request)
    sums = await totals(vhosts, context.sessions, context.scheduler)
    keys: list[Hashable] = [("vhost", vhost.name) for vhost in vhosts]
    if sees_everything(request.user):
        sums.counters.add(context.broker.past)
        keys = ["overview"]
    rates = chart.per_second(context.history, keys, sums.values())
    show_vhost = len(context.broker.vhosts) > 1
    lists = [await context.queues_of(vhost) for vhost in vhosts]
    listed = lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
    content = [
        header(request, choice),
        alarms(request),
        sums_on_cards(sums, rates),
        chart.chart(rates),
        pipelines.pipelines_section(
            list(context.pipelines.views(vhosts)), context.pipelines.now_ms() / 1000, show_vhost=show_vhost
        ),
        await queues.queues_section(
            request, listed, choice, show_vhost=show_vhost, nothing=why_no_queues(request, vhosts)
        ),
        dashboard.FOOTER,
    ]
    style = dashboard.STYLE + chart.STYLE + pipelines.STYLE + queues.STYLE
    return page(f"EmberMQ on {context.node}", style, "".join(content), refresh_head(choice))


def header(request: Request, choice: queues.Choice) -> str:
    context = request.context
    told = [f"Version {context.version} on {context.node}", f"up {duration(context.uptime_ms // 1000)}"]
    if sees_everything(request.user):
        told += resources(request)
        told += [f"{listener.protocol} on port {listener.port}" for listener in context.listeners]
    head = f"{FLAME}<span><b>Ember</b>MQ</span>"
    return f"{masthead(request, choice, head)}<p>{escape(' · '.join(told))}</p>\n"


def resources(request: Request) -> list[str]:
    context, told = request.context, []
    limit = context.measures.get("resident_memory_limit_bytes")
    memory = f"{size(resident_bytes())} of memory"
    told.append(f"{memory} (alarm at {size(limit())})" if limit is not None else memory)
    if context.broker.storage is not None:
        told.append(f"{size(context.broker.storage.data.free_bytes())} of disk free")
    return told


def sums_on_cards(sums: Totals, rates: dict[str, list[float]]) -> str:
    delayed = f" <small>and {many(sums.delayed)} delayed</small>" if sums.delayed else ""
    numbers = [
        ("Ready", many(sums.ready) + delayed),
        ("Unacknowledged", many(sums.unacked)),
        ("Published per second", many(rates["publish"][-1])),
        ("Delivered per second", many(rates["deliver_get"][-1])),
        ("Queues", many(sums.queues)),
        ("Consumers", many(sums.consumers)),
        ("Connections", many(sums.connections)),
        ("Channels", many(sums.channels)),
    ]
    return cards(numbers)


def why_no_queues(request: Request, vhosts: list[VirtualHost]) -> str:
    if vhosts:
        return "None yet. Declare one with any AMQP client."
    name = escape(request.user.name)
    command = f"<code>embermq permission grant {name} --vhost /</code>"
    return f"{name} has permissions in no virtual host, and so sees none. Administrators give some: {command}"
