"""The table of Spark pipelines on the start page."""

from __future__ import annotations

from html import escape

from embermq.http.console.words import duration, many
from embermq.http.pipeline_registry import ALIVE, DIED, FAILED, RUNNING, WAITING
from embermq.http.views.views import View

PIPELINES_SHOWN_MAX = 100
UNKNOWN = "\N{EN DASH}"

STYLE = """
.state { display: inline-block; padding: 0 .55rem; border-radius: 1rem; font-size: .85rem; font-weight: 600 }
.running { color: var(--good); background: var(--good-ground) }
.waiting { color: var(--wait); background: var(--wait-ground) }
.failed, .died { color: var(--bad); background: var(--bad-ground) }
.ended { color: var(--soft); background: var(--past-ground) }
.pipelines .name { min-width: 15rem } .pipelines small { display: block; margin: 0 }
.pipelines .reason { color: var(--bad) } .pipelines .waiting-for { color: var(--wait) }
@media (max-width: 44rem) {
  .pipelines tr { grid-template-columns: repeat(3, 1fr) }
  .pipelines td:nth-of-type(2) { grid-column: 2 / -1; overflow-wrap: anywhere } }
"""
# Those that need attention come first.
URGENCY = {FAILED: 0, DIED: 0, WAITING: 1, RUNNING: 2}


def pipelines_section(views: list[View], now: float, *, show_vhost: bool) -> str:
    """Nothing where there are none: most brokers have none."""
    if not views:
        return ""
    views = sorted(views, key=lambda view: URGENCY.get(view["state"], 3))
    rows = "".join(pipeline_row(view, now, show_vhost) for view in views[:PIPELINES_SHOWN_MAX])
    more = ""
    if len(views) > PIPELINES_SHOWN_MAX:
        more = f'<p>The first {PIPELINES_SHOWN_MAX}; <a href="/api/pipelines">all</a> by the HTTP API.</p>'
    return f"""<section aria-labelledby="pipelines">
<div class="over"><h2 id="pipelines">Pipelines <span class="count">{many(len(views))}</span></h2></div>
<div class="table" role="region" aria-labelledby="pipelines" tabindex="0"><table class="pipelines">
<thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">From, to</th>
<th scope="col" class="number">Lag</th><th scope="col" class="number">Rows/s</th>
<th scope="col" class="number">Rows</th><th scope="col">Heard of</th></tr></thead>
<tbody>{rows}</tbody></table></div>{more}
</section>
"""


def pipeline_row(view: View, now: float, show_vhost: bool) -> str:
    state, is_alive = str(view["state"]), view["state"] in ALIVE
    where = [str(view["vhost"])] if show_vhost else []
    where += [f"{view['host']}, process {view['pid']}"] if view.get("host") and view.get("pid") else []
    small = f"<small>{escape(' · '.join(where))}</small>" if where else ""
    reason = ""
    if view.get("reason"):
        kind = "waiting-for" if is_alive else "reason"
        reason = f'<small class="{kind}">{escape(str(view["reason"]))}</small>'
    ends = [
        f"{label} {escape(str(view[key]))}"
        for label, key in (("from", "source"), ("to", "sink"))
        if view.get(key)
    ]
    # How much waits now for a pipeline that has ended is not known.
    lag = many(view["lag"]) if is_alive and "lag" in view else UNKNOWN
    speed = many(view["rows_per_second"]) if is_alive and "rows_per_second" in view else UNKNOWN
    rows = many(view["rows"]) if "rows" in view else UNKNOWN
    cells = "".join(
        f'<td class="number" data-label="{label}">{value}</td>'
        for label, value in (("Lag", lag), ("Rows/s", speed), ("Rows", rows))
    )
    return (
        f'<tr><th scope="row" class="name"><code>{escape(str(view["name"]))}</code>{small}{reason}</th>'
        f'<td data-label="State"><span class="state {state}">{state}</span></td>'
        f'<td data-label="From, to">{"<br>".join(ends) or UNKNOWN}</td>{cells}'
        f'<td data-label="Heard of">{duration(max(int(now - view["heard_at"]), 0))} ago</td></tr>'
    )
