"""The page of one queue: its numbers, properties, clients, and first messages."""

from __future__ import annotations

from html import escape
from urllib.parse import unquote

from embermq.broker.queue.queue import Queue
from embermq.broker.stream.stream import Stream
from embermq.http.console import chart, dashboard, messages, queue_clients, queue_facts
from embermq.http.console.address import queue_address, queue_in_api
from embermq.http.console.dashboard import alarms, cards, masthead
from embermq.http.console.document import FLAME, page
from embermq.http.console.refresh import every_asked, refresh_head
from embermq.http.console.words import many, size
from embermq.http.controllers.exchanges import vhost_of
from embermq.http.controllers.queues import queue_named
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes, number, words
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import Request, Response
from embermq.http.stats.history import QUEUE, queue_values
from embermq.http.stats.rates import NOTHING, Numbers

STYLE = """
h1 { overflow-wrap: anywhere; min-width: 0 } h1 svg { flex: none } h1 code { font-size: .95em }
header { gap: .25rem 2rem } header h1 { max-width: 100% }
code { unicode-bidi: isolate }
nav.home { margin-bottom: .75rem }
.number code { white-space: nowrap }
"""
EVERY = (number("every", "seconds after which the browser asks again: 2, 10 or 60", 2, 60),)
NAMED = (words("vhost", "a virtual host"), words("name", "of a queue in it"))
NONE = "\N{EN DASH}"
RATES = ("publish", "deliver_get", "ack", "redeliver")


class Asked:
    """What the address asks for."""

    def __init__(self, request: Request, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name
        self.every = every_asked(request.query)

    def address(self, **changes: object) -> str:
        every = str(changes.get("every", self.every))
        return queue_address(self.vhost, self.name, f"every={every}" if every else "")


@describes("A page about one queue.", query=EVERY, answer=schemas.TEXT, content_type="text/html")
async def queue_page(request: Request) -> Response:
    # A name may hold bytes that are no UTF-8, and be a queue's all the same.
    parts = request.path.strip("/").split("/")[1:]
    request.names = {
        label: unquote(part, errors="surrogateescape")
        for label, part in zip(("vhost", "name"), parts, strict=True)
    }
    return await shown(request)


@describes(
    "The same for names that cannot stand in a path: `.` and `..`.",
    query=NAMED + EVERY,
    answer=schemas.TEXT,
    content_type="text/html",
)
async def queue_page_by_query(request: Request) -> Response:
    request.names = {"vhost": request.query.get("vhost", "/"), "name": request.query.get("name", "")}
    return await shown(request)


async def shown(request: Request) -> Response:
    vhost = vhost_of(request, to_see=True)
    queue = queue_named(vhost, request.names["name"])
    asked = Asked(request, vhost.name, queue.name)
    queue.measure_soon()
    steps = Steps(request.context.scheduler)
    content = [header(request, asked, queue), alarms(request)]
    charts = (rates_chart, lengths_chart) if request.context.history.track(queue) is not None else ()
    for part in (numbers, *charts, queue_facts.facts_section):
        content.append(part(request, queue))
        await steps.pause()
    content += [
        await queue_clients.consumers_section(request, queue),
        await messages.messages_section(request, queue),
        await queue_clients.bindings_section(request, queue),
        footer(queue),
    ]
    if queue.deleted:
        queue_named(vhost, queue.name)  # not found; or another of the same name, which comes next time
    style = dashboard.STYLE + chart.STYLE + queue_facts.STYLE + queue_clients.STYLE + messages.STYLE + STYLE
    title = f"{queue.name} · EmberMQ on {request.context.node}"
    return page(title, style, "".join(content), refresh_head(asked))


def header(request: Request, asked: Asked, queue: Queue) -> str:
    head = f"{FLAME}<span><code>{escape(asked.name)}</code></span>"
    state = "running"
    if queue.is_pressed():
        state = "running; publishers are slowed to the speed of its consumers"
    return f"""<nav class="home" aria-label="Back"><a href="/">All queues</a></nav>
{masthead(request, asked, head)}<p>{state}</p>
"""


def numbers(request: Request, queue: Queue) -> str:
    rates = Numbers(request.context.history, [queue], QUEUE, queue_values(queue), NOTHING).view(RATES)

    def rate(column: str) -> str:
        details = rates[f"{column}_details"]
        assert isinstance(details, dict)
        return many(details["rate"])

    if isinstance(queue, Stream):
        last = queue.safe_end - 1
        return cards(
            [
                ("Messages", f"{many(queue.ready_count)} <small>{size(queue.log.bytes_on_disk)}</small>"),
                ("First offset", many(queue.first_offset) if last >= queue.first_offset else NONE),
                ("Last offset", many(last) if last >= queue.first_offset else NONE),
                ("Segments", many(len(queue.log.segments))),
                ("Readers", many(len(queue.consumers))),
                ("Published per second", rate("publish")),
                ("Delivered per second", rate("deliver_get")),
                ("Acknowledged per second", rate("ack")),
            ]
        )
    about = "about " if queue.is_unmeasured() and queue.ready_count else ""
    ready, unacked = queue.body_bytes(), queue.unacked_bytes
    total = queue.ready_count + queue.unacked_count
    return cards(
        [
            ("Ready", f"{many(queue.ready_count)} <small>{about}{size(ready)}</small>"),
            ("Unacknowledged", f"{many(queue.unacked_count)} <small>{size(unacked)}</small>"),
            ("Together", f"{many(total)} <small>{about}{size(ready + unacked)}</small>"),
            ("Consumers", many(len(queue.consumers))),
            ("Published per second", rate("publish")),
            ("Delivered per second", rate("deliver_get")),
            ("Acknowledged per second", rate("ack")),
            ("Delivered again per second", rate("redeliver")),
        ]
    )


def rates_chart(request: Request, queue: Queue) -> str:
    return chart.chart(chart.per_second(request.context.history, [queue], queue_values(queue), QUEUE))


def lengths_chart(request: Request, queue: Queue) -> str:
    shown = chart.LENGTHS[:1] if isinstance(queue, Stream) else chart.LENGTHS
    found = chart.samples(request.context.history, [queue], QUEUE, queue_values(queue), shown)
    return chart.chart(found, "Messages in the last ten minutes", shown)


def footer(queue: Queue) -> str:
    api = queue_in_api(queue.vhost.name, queue.name)
    return f"""<footer>
<p><a href="/">All queues</a>. The same for programs: <a href="{api}">HTTP API</a>.</p></footer>"""
