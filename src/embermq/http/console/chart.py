"""Charts of the last ten minutes, in SVG: message rates, or queue lengths."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise

from embermq.http.console.words import many
from embermq.http.stats.history import History
from embermq.http.stats.rates import Numbers, Range, Ranges
from embermq.http.stats.totals import COLUMNS

SPAN_S, STEP_S = 600, 5
WIDTH, HEIGHT = 600, 100
SHOWN = ("publish", "deliver_get")
LENGTHS = ("messages_ready", "messages_unacknowledged")
# How the columns are called.
WORDS = {
    "publish": "published",
    "deliver_get": "delivered",
    "messages_ready": "ready",
    "messages_unacknowledged": "unacknowledged",
}

STYLE = """
figure { margin: .75rem 0 0; padding: .7rem .9rem .6rem; background: var(--card);
         border: 1px solid var(--line); border-radius: .6rem }
figcaption { display: flex; flex-wrap: wrap; gap: 0 1.25rem; color: var(--soft); font-size: .85rem }
figcaption span:first-child { margin-right: auto }
figure svg { display: block; width: 100%; height: 6rem; margin-top: .4rem; overflow: visible }
figure path { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round }
.publish, .messages_ready { stroke: var(--glow) }
.deliver_get, .messages_unacknowledged { stroke: var(--out); stroke-dasharray: 5 3 }
.ground { stroke: var(--line); stroke-width: 1; vector-effect: non-scaling-stroke }
.key { display: inline-block; width: 1.6rem; height: .7em }
.key line { stroke-width: 2; vector-effect: non-scaling-stroke }
figcaption svg.key { margin: 0 .35rem 0 0 }
"""


def samples(
    history: History,
    keys: list[Hashable],
    columns: tuple[str, ...],
    values: tuple[int, ...],
    shown: tuple[str, ...],
) -> dict[str, list[int]]:
    """The numbers of the past, oldest first."""
    wanted = Range(SPAN_S, STEP_S)
    ranges = Ranges({"msg_rates": wanted, "lengths": wanted})
    view = Numbers(history, keys, columns, values, ranges).view(shown)
    found = {}
    for column in shown:
        details = view[f"{column}_details"]
        assert isinstance(details, dict)
        found[column] = [sample["sample"] for sample in reversed(details["samples"])]
    return found


def per_second(
    history: History,
    keys: list[Hashable],
    values: tuple[int, ...],
    columns: tuple[str, ...] = COLUMNS,
    shown: tuple[str, ...] = SHOWN,
) -> dict[str, list[float]]:
    """Rates of the past, oldest first."""
    return {
        column: [max(after - before, 0) / STEP_S for before, after in pairwise(counts)]
        for column, counts in samples(history, keys, columns, values, shown).items()
    }


def line(rates: Sequence[float], top: float) -> str:
    step = WIDTH / max(len(rates) - 1, 1)
    points = (f"{place * step:.0f} {HEIGHT - rate / top * HEIGHT:.1f}" for place, rate in enumerate(rates))
    return "M" + "L".join(points)


def chart(
    rows: Mapping[str, Sequence[float]],
    about: str = "Messages per second in the last ten minutes",
    shown: tuple[str, ...] = SHOWN,
) -> str:
    """Nothing where nothing happened."""
    top = max(max(rows[column], default=0.0) for column in shown)
    if top == 0:
        return ""
    told = " ".join(
        f"{WORDS[column].capitalize()}: now {many(rows[column][-1])}, at most {many(max(rows[column]))}."
        for column in shown
    )
    keys = " ".join(f"<span>{key(column)}{WORDS[column]}</span>" for column in shown)
    lines = "".join(f'<path class="{column}" d="{line(rows[column], top)}"/>' for column in reversed(shown))
    return f"""<figure>
<figcaption><span>{about}, at most {many(top)}</span>
{keys}</figcaption>
<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{about}. {told}">
<line class="ground" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>{lines}</svg>
</figure>
"""


def key(column: str) -> str:
    sample = f'<line class="{column}" x2="26" y1="5" y2="5"/>'
    return f'<svg class="key" viewBox="0 0 26 10" aria-hidden="true">{sample}</svg>'
