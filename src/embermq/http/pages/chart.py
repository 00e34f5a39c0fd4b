"""The last ten minutes as two lines: how many messages came in, and how many went out."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise

from embermq.http.history import History
from embermq.http.pages.words import many
from embermq.http.rates import Numbers, Range, Ranges
from embermq.http.totals import COLUMNS

SPAN_S, STEP_S = 600, 5
WIDTH, HEIGHT = 600, 100
SHOWN = ("publish", "deliver_get")

STYLE = """
figure { margin: .75rem 0 0; padding: .7rem .9rem .6rem; background: var(--card);
         border: 1px solid var(--line); border-radius: .6rem }
figcaption { display: flex; flex-wrap: wrap; gap: 0 1.25rem; color: var(--soft); font-size: .85rem }
figcaption span:first-child { margin-right: auto }
figure svg { display: block; width: 100%; height: 6rem; margin-top: .4rem; overflow: visible }
figure path { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round }
.publish { stroke: var(--glow) } .deliver_get { stroke: var(--out); stroke-dasharray: 5 3 }
.ground { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke }
.key { display: inline-block; width: 1.6rem; height: .7em }
.key line { stroke-width: 2; vector-effect: non-scaling-stroke }
figcaption svg.key { margin: 0 .35rem 0 0 }
"""


def per_second(history: History, keys: list[Hashable], values: tuple[int, ...]) -> dict[str, list[float]]:
    """Rates of the past, oldest first."""
    ranges = Ranges({"msg_rates": Range(SPAN_S, STEP_S)})
    view = Numbers(history, keys, COLUMNS, values, ranges).view(SHOWN)
    rates = {}
    for column in SHOWN:
        details = view[f"{column}_details"]
        assert isinstance(details, dict)
        counts = [sample["sample"] for sample in reversed(details["samples"])]
        rates[column] = [max(after - before, 0) / STEP_S for before, after in pairwise(counts)]
    return rates


def line(rates: list[float], top: float) -> str:
    step = WIDTH / max(len(rates) - 1, 1)
    points = (f"{place * step:.0f} {HEIGHT - rate / top * HEIGHT:.1f}" for place, rate in enumerate(rates))
    return "M" + "L".join(points)


def chart(rates: dict[str, list[float]]) -> str:
    """Nothing where nothing happened."""
    top = max(max(row, default=0.0) for row in rates.values())
    if top == 0:
        return ""
    coming, going = rates["publish"], rates["deliver_get"]
    told = (
        f"Messages per second in the last ten minutes. Published: now {many(coming[-1])}, at most "
        f"{many(max(coming))}. Delivered: now {many(going[-1])}, at most {many(max(going))}."
    )
    lines = "".join(f'<path class="{column}" d="{line(rates[column], top)}"/>' for column in reversed(SHOWN))
    return f"""<figure>
<figcaption><span>Messages per second in the last ten minutes, at most {many(top)}</span>
<span>{key("publish")}published</span> <span>{key("deliver_get")}delivered</span></figcaption>
<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{told}">
<line class="ground" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>{lines}</svg>
</figure>
"""


def key(column: str) -> str:
    sample = f'<line class="{column}" x2="26" y1="5" y2="5"/>'
    return f'<svg class="key" viewBox="0 0 26 10" aria-hidden="true">{sample}</svg>'
