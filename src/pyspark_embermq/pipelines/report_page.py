"""A report as a page: one HTML file with a chart and a table, which needs nothing else to be shown."""

from __future__ import annotations

import datetime
import html
from collections.abc import Mapping
from typing import Any

BARS_MIN, BARS_MAX = 12, 60  # few bars are not made as wide as the page
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 960, 240, 64, 28, 12  # of the chart, and of the margins with its labels
LABEL_WIDTH = 76  # of a date
LABELS_MAX = 8  # below the bars
STEPS = (1, 5, 15, 60, 180, 720, 1440, 10_080, 40_320)  # minutes that a bar may stand for
DAY = 1440
STYLE = """body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.4rem .8rem;border-bottom:1px solid #ddd}
td{overflow-wrap:break-word}time{white-space:nowrap}svg{width:100%;height:auto}rect{fill:#e2571e}
svg text{font-size:13px;fill:#666}svg line{stroke:#ddd}
.nothing{padding:2rem;border:1px dashed #bbb;color:#666}
.n{text-align:right;font-variant-numeric:tabular-nums}.bar{background:#e2571e;height:1rem;border-radius:2px}
@media(prefers-color-scheme:dark){body{background:#16161a;color:#ddd}th,td{border-color:#333}
svg text{fill:#aaa}svg line{stroke:#333}}"""


def page(title: str, rows: list[dict[str, Any]], measure: str, by_minute: Mapping[int, int]) -> str:
    """How much there is and since when, when it came, and a table with bars for what is measured."""
    if not rows:
        body = '<p class="nothing">There is nothing to report.</p>'
    else:
        total = sum(int(row[measure] or 0) for row in rows)
        causes = "1 cause" if len(rows) == 1 else f"{len(rows):,} causes"
        body = f"<p>{total:,} {html.escape(measure)}, {causes}.</p>{chart(by_minute)}"
        body += table(rows, measure)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>{body}</html>\n"
    )


def chart(by_minute: Mapping[int, int]) -> str:
    """Bars over time: as many minutes each as it takes for all of them to fit."""
    if not by_minute:
        return ""
    first, last = min(by_minute), max(by_minute)
    step = step_for(first, last)
    begin = first // step
    counts = [0] * (last // step - begin + 1)
    for minute, count in by_minute.items():
        counts[minute // step - begin] += count
    top = round_up(max(counts))
    whens = [step * (begin + index) for index in range(len(counts))]
    width = (WIDTH - LEFT) / max(len(counts), BARS_MIN)
    bars = "".join(bar(index, count, top, at(whens[index]), width) for index, count in enumerate(counts))
    return (
        f"<h2>When</h2><p>A bar is {span(step)}: from {at(whens[0])} to {at(last + 1)} (UTC).</p>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Letters over time">'
        f"{scale(top)}{bars}{times(whens, width)}</svg>"
    )


def step_for(first: int, last: int) -> int:
    """How many minutes a bar stands for; of decades as many weeks as it takes."""
    found = next((step for step in STEPS if last // step - first // step < BARS_MAX), None)
    if found is not None:
        return found
    weeks = -(-(last - first + 1) // (STEPS[-1] * (BARS_MAX - 1)))
    return STEPS[-1] * weeks


def round_up(largest: int) -> int:
    """The top of the scale: one digit and zeros, so that the lines below have round numbers."""
    unit: int = 10 ** (len(str(largest)) - 1)
    return next(factor * unit for factor in (1, 2, 3, 4, 6, 8, 10) if factor * unit >= largest)


def scale(top: int) -> str:
    """Lines with numbers, from nothing to the top."""
    lines = [part * top // 4 for part in range(5)] if top % 4 == 0 else [0, top // 2, top]
    drawn = []
    for value in sorted({0, top, *lines}):
        y = y_of(value, top)
        drawn.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,}</text>'
        )
    return "".join(drawn)


def times(whens: list[int], width: float) -> str:
    """Times below the bars: of some of them, where there are many."""
    every = -(-len(whens) // LABELS_MAX)
    days = whens[-1] - whens[0] >= DAY
    drawn = []
    for index in range(0, len(whens), every):
        moment = datetime.datetime.fromtimestamp(whens[index] * 60, datetime.UTC)
        text = f"{moment:%Y-%m-%d}" if days else f"{moment:%H:%M}"
        if LEFT + index * width + (LABEL_WIDTH if days else LABEL_WIDTH / 2) > WIDTH and index:
            break  # there is no room for it
        drawn.append(f'<text x="{LEFT + index * width:.1f}" y="{HEIGHT - 8}">{text}</text>')
    return "".join(drawn)


def y_of(value: float, top: int) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def bar(index: int, count: int, top: int, when: str, width: float) -> str:
    y = y_of(count, top)
    return (
        f'<rect x="{LEFT + index * width:.1f}" y="{y:.1f}" width="{max(width - 2, 1):.1f}" '
        f'height="{HEIGHT - BOTTOM - y:.1f}"><title>{when}: {count:,}</title></rect>'
    )


def at(minute: int) -> str:
    return f"{datetime.datetime.fromtimestamp(minute * 60, datetime.UTC):%Y-%m-%d %H:%M}"


def span(minutes: int) -> str:
    for name, size in (("week", 7 * DAY), ("day", DAY), ("hour", 60), ("minute", 1)):
        if minutes % size == 0:
            return f"{minutes // size} {name}{'s' if minutes > size else ''}"
    raise AssertionError(minutes)


def table(rows: list[dict[str, Any]], measure: str) -> str:
    largest = max(float(row[measure] or 0) for row in rows) or 1.0
    head = "".join(f"<th{side(rows[0][name])}>{html.escape(name)}</th>" for name in rows[0])
    lines = []
    for row in rows:
        cells = "".join(cell(value) for value in row.values())
        width = 100 * float(row[measure] or 0) / largest
        lines.append(
            f'<tr>{cells}<td style="width:15%"><div class="bar" style="width:{width:.1f}%"></div></td></tr>'
        )
    return (
        f"<h2>What</h2><table><thead><tr>{head}<th></th></tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def side(value: object) -> str:
    """Numbers stand at the right, and so does what is above them."""
    return ' class="n"' if is_number(value) else ""


def cell(value: object) -> str:
    if is_number(value):
        return f"<td{side(value)}>{value:,}</td>"
    if isinstance(value, datetime.datetime):
        return f"<td><time>{value:%Y-%m-%d %H:%M:%S}</time></td>"
    return f"<td>{html.escape('' if value is None else str(value))}</td>"
