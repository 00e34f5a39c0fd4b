"""Layout of the pages with numbers: style, header, cards."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from embermq.http.console.refresh import Asking, refresh_links
from embermq.http.server.request import Request

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
<p>Change things in the <a href="/console/">console</a>.
More by the <a href="/api/">HTTP API</a> and as <a href="/metrics">metrics</a>.</p></footer>"""


def masthead(request: Request, asking: Asking, head: str) -> str:
    """The header: what the page is about, its user, and its time."""
    now = datetime.now(UTC)
    return f"""<header><h1>{head}</h1>
<p>{refresh_links(asking)} · <strong>{escape(request.user.name)}</strong> ·
<time datetime="{now:%Y-%m-%dT%H:%M:%SZ}">{now:%H:%M:%S} UTC</time></p></header>
"""


def alarms(request: Request) -> str:
    raised = request.context.broker.alarms.raised
    if not raised:
        return ""
    reasons = "; ".join(f"{name}: {reason}" if reason else name for name, reason in sorted(raised.items()))
    return (
        f'<p class="alarm" role="alert"><strong>Alarm.</strong> {escape(reasons)}. '
        "Publishers wait until it is over; consumers go on.</p>\n"
    )


def cards(numbers: list[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<div><dt>{name}</dt><dd>{value}</dd></div>' for name, value in numbers)}</dl>\n"
