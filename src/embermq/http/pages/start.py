"""The start page: the broker at a glance, for everybody who may see it, as far as they may see it."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime
from html import escape
from itertools import chain

from embermq.broker.vhost import VirtualHost
from embermq.http import schemas
from embermq.http.context import resident_bytes
from embermq.http.describing import describes, number, words
from embermq.http.login import sees_everything
from embermq.http.overview import visible_vhosts
from embermq.http.pages import chart, pipelines, queues
from embermq.http.pages.document import FLAME, page
from embermq.http.pages.refresh import refresh_head, refresh_links
from embermq.http.pages.words import duration, many, size
from embermq.http.request import Request, Response
from embermq.http.totals import Totals, totals

STYLE = """
header { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline;
         gap: .25rem 2rem }
header p { margin: 0 }
dl { display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem; margin: 1.5rem 0 0 }
dl div { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .6rem .9rem }
dt { color: var(--soft); font-size: .85rem }
dd { margin: 0; font-size: 1.45rem; font-variant-numeric: tabular-nums }
dd small { font-size: .85rem; color: var(--soft); margin-left: .35rem; white-space: nowrap }
.alarm { margin: 1.25rem 0 0; padding: .7rem .9rem; color: var(--bad); background: var(--bad-ground);
         border: 1px solid currentColor; border-radius: .6rem }
section { margin-top: 2.25rem }
.over { display: flex; flex-wrap: wrap; align-items: center; gap: .4rem 1rem; margin-bottom: .6rem }
.count { color: var(--soft); font-weight: 400; margin-left: .25rem }
thead th { color: var(--soft); font-weight: 500; font-size: .85rem }
th[scope=row] { font-weight: 400; width: 40% }
.name small { color: var(--soft); font-size: .85rem; margin-left: .6rem }
.name { overflow-wrap: anywhere; min-width: 9rem }
td { white-space: nowrap }
.number { text-align: right; font-variant-numeric: tabular-nums }
footer { margin-top: 2.5rem }
@media (max-width: 44rem) {
  main { padding: 1.25rem .9rem 3rem }
  dl { grid-template-columns: repeat(2, 1fr); gap: .5rem }
  thead tr { display: flex; flex-wrap: wrap; gap: 0 1rem; background: var(--past-ground) }
  thead:not(:has(a)) { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  table, thead, tbody { display: block }
  tr { display: grid; grid-template-columns: 1.2fr 1.1fr 1.3fr 1fr 1fr; gap: .3rem .6rem;
       padding: .6rem .9rem; border-bottom: 1px solid var(--line) }
  tr:last-child { border-bottom: 0 }
  th, td, th[scope=row] { padding: 0; border: 0; width: auto } th[scope=row] { grid-column: 1 / -1 }
  .name small { display: block; margin: 0 }
  td, td.number { text-align: left; white-space: normal }
  td[data-label]::before { content: attr(data-label); display: block; color: var(--soft);
                           font-size: .75rem } }
"""
FOOTER = """<footer>
<p>More by the <a href="/api/">HTTP API</a> and as <a href="/metrics">metrics</a>.</p></footer>"""
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
    sums = await totals(vhosts, context.sessions, context.gate)
    keys: list[Hashable] = [("vhost", vhost.name) for vhost in vhosts]
    if sees_everything(request.user):
        sums.tally.add(context.broker.past)
        keys = ["overview"]
    rates = chart.per_second(context.history, keys, sums.values())
    show_vhost = len(context.broker.vhosts) > 1
    lists = [await context.queues_of(vhost) for vhost in vhosts]
    listed = lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
    content = [
        header(request, choice),
        alarms(request),
        cards(sums, rates),
        chart.chart(rates),
        pipelines.pipelines_section(
            list(context.pipelines.views(vhosts)), context.pipelines.now_ms() / 1000, show_vhost=show_vhost
        ),
        await queues.queues_section(
            request, listed, choice, show_vhost=show_vhost, nothing=why_no_queues(request, vhosts)
        ),
        FOOTER,
    ]
    style = STYLE + chart.STYLE + pipelines.STYLE + queues.STYLE
    return page(f"EmberMQ on {context.node}", style, "".join(content), refresh_head(choice))


def header(request: Request, choice: queues.Choice) -> str:
    context = request.context
    now = datetime.now(UTC)
    told = [f"Version {context.version} on {context.node}", f"up {duration(context.uptime_ms // 1000)}"]
    if sees_everything(request.user):
        told += resources(request)
        told += [f"{listener.protocol} on port {listener.port}" for listener in context.listeners]
    return f"""<header><h1>{FLAME}<span><b>Ember</b>MQ</span></h1>
<p>{refresh_links(choice)} · <strong>{escape(request.user.name)}</strong> ·
<time datetime="{now:%Y-%m-%dT%H:%M:%SZ}">{now:%H:%M:%S} UTC</time></p></header>
<p>{escape(" · ".join(told))}</p>
"""


def resources(request: Request) -> list[str]:
    context, told = request.context, []
    limit = context.measures.get("resident_memory_limit_bytes")
    memory = f"{size(resident_bytes())} of memory"
    told.append(f"{memory} (alarm at {size(limit())})" if limit is not None else memory)
    if context.broker.storage is not None:
        told.append(f"{size(context.broker.storage.data.free_bytes())} of disk free")
    return told


def alarms(request: Request) -> str:
    raised = request.context.broker.alarms.raised
    if not raised:
        return ""
    reasons = "; ".join(f"{name}: {reason}" if reason else name for name, reason in sorted(raised.items()))
    return (
        f'<p class="alarm" role="alert"><strong>Alarm.</strong> {escape(reasons)}. '
        "Publishers wait until it is over; consumers go on.</p>\n"
    )


def cards(sums: Totals, rates: dict[str, list[float]]) -> str:
    delayed = f" <small>and {many(sums.delayed)} delayed</small>" if sums.delayed else ""
    numbers = (
        ("Ready", many(sums.ready) + delayed),
        ("Unacknowledged", many(sums.unacked)),
        ("Published per second", many(rates["publish"][-1])),
        ("Delivered per second", many(rates["deliver_get"][-1])),
        ("Queues", many(sums.queues)),
        ("Consumers", many(sums.consumers)),
        ("Connections", many(sums.connections)),
        ("Channels", many(sums.channels)),
    )
    return f"<dl>{''.join(f'<div><dt>{name}</dt><dd>{value}</dd></div>' for name, value in numbers)}</dl>\n"


def why_no_queues(request: Request, vhosts: list[VirtualHost]) -> str:
    if vhosts:
        return "None yet. Declare one with any AMQP client."
    name = escape(request.user.name)
    command = f"<code>embermq permission grant {name} --vhost /</code>"
    return f"{name} has permissions in no virtual host, and so sees none. Administrators give some: {command}"
