"""The start page: what a browser shows of a broker. One document, no scripts, nothing from outside."""

from __future__ import annotations

from html import escape

from embermq.broker.queue import Queue
from embermq.http import schemas
from embermq.http.context import resident_bytes
from embermq.http.describing import describes
from embermq.http.overview import visible_vhosts
from embermq.http.request import Request, Response
from embermq.http.totals import totals

QUEUES_SHOWN_MAX = 200

STYLE = """
:root { color-scheme: light dark; --ink: #2b2320; --soft: #8a7a70; --paper: #fbf7f3; --card: #fff;
        --line: #eadfd5; --ember: #d9480f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #f3e9e0; --soft: #a8988c; --paper: #171310; --card: #211b17; --line: #392f28;
          --ember: #ff7a3c; } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1 { font-size: 1.7rem; margin: 0; letter-spacing: -.02em }
h1 b { color: var(--ember) }
h2 { font-size: 1.05rem; margin: 2.5rem 0 .75rem }
p { margin: .25rem 0 0; color: var(--soft) }
a { color: var(--ember) }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .75rem;
     margin: 2rem 0 0 }
dl div { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .7rem .9rem }
dt { color: var(--soft); font-size: .8rem }
dd { margin: 0; font-size: 1.45rem; font-variant-numeric: tabular-nums }
.table { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem }
table { border-collapse: collapse; width: 100% }
th, td { padding: .45rem .9rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap }
th { color: var(--soft); font-weight: 500; font-size: .8rem }
tr:last-child td { border-bottom: 0 }
.number { text-align: right; font-variant-numeric: tabular-nums }
code { font: .9em ui-monospace, monospace }
.name { min-width: 9rem; white-space: normal; overflow-wrap: anywhere }
.table + p { margin-top: .75rem }
"""


@describes("A page with the most important numbers.", answer=schemas.TEXT, content_type="text/html")
async def start_page(request: Request) -> Response:
    context, vhosts = request.context, visible_vhosts(request)
    sums = await totals(vhosts, context.sessions, context.gate)
    cards = {
        "Ready": sums.ready,
        "Unacknowledged": sums.unacked,
        "Queues": sums.queues,
        "Consumers": sums.consumers,
        "Connections": context.sessions.connection_count(),
        "Channels": context.sessions.channel_count(),
    }
    queues = [queue for vhost in vhosts for queue in await context.queues_of(vhost)]
    numbers = "".join(f"<div><dt>{name}</dt><dd>{count:,}</dd></div>" for name, count in cards.items())
    where = ", ".join(f"{listener.protocol} on port {listener.port}" for listener in context.listeners)
    memory = resident_bytes() / 2**20
    html = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>EmberMQ</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1><b>Ember</b>MQ</h1>
<p>Version {escape(context.version)} on {escape(context.node)}, up {duration(context.uptime_ms // 1000)},
{memory:,.0f} MiB. {escape(where)}. You are {escape(request.user.name)}.</p>
<dl>{numbers}</dl>
<h2>Queues</h2>
{queue_table(queues)}
<p>More by the <a href="/api/overview">HTTP API</a> and as <a href="/metrics">metrics</a>.
Reload for new numbers.</p>
</main>
</body>
</html>
"""
    # A name may hold bytes that were no UTF-8; the page must not fail for it.
    return Response(200, html.encode("utf-8", "replace"), "text/html; charset=utf-8")


def queue_table(queues: list[Queue]) -> str:
    if not queues:
        return "<p>None yet. Declare one with any AMQP client.</p>"
    rows = "".join(queue_row(queue) for queue in queues[:QUEUES_SHOWN_MAX])
    more = ""
    if len(queues) > QUEUES_SHOWN_MAX:
        more = f"<p>The first {QUEUES_SHOWN_MAX} of {len(queues):,}.</p>"
    return (
        '<div class="table"><table><thead><tr><th>Virtual host</th><th>Name</th><th>Kind</th>'
        '<th class="number">Ready</th><th class="number">Unacknowledged</th><th class="number">Consumers</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div>{more}"
    )


def queue_row(queue: Queue) -> str:
    qualities = [
        name
        for name, present in (
            ("durable", queue.durable),
            ("auto-delete", queue.auto_delete),
            ("exclusive", queue.exclusive),
        )
        if present
    ]
    numbers = (queue.ready_count, queue.unacked_count, len(queue.consumers))
    cells = "".join(f'<td class="number">{number:,}</td>' for number in numbers)
    return (
        f'<tr><td>{escape(queue.vhost.name)}</td><td class="name"><code>{escape(queue.name)}</code></td>'
        f"<td>{', '.join(qualities) or 'transient'}</td>{cells}</tr>"
    )


def duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    shown = [f"{count} {unit}" for count, unit in parts if count][:2]
    return " ".join(shown) or "0 s"
