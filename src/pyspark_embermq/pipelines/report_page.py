"""A report as a page: one HTML file with a chart and a table, which needs nothing else to be shown."""

from __future__ import annotations

import datetime
import html
from collections.abc import Mapping
from typing import Any

BARS_MIN, BARS_MAX = 12, 48  # few bars are not made as wide as the page
BARS_HEIGHT, BAR_WIDTH = 100, 20
STEPS = (1, 5, 15, 60, 180, 720, 1440, 10_080)  # minutes that a bar may stand for
STYLE = """body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.4rem .8rem;border-bottom:1px solid #ddd}
td{overflow-wrap:break-word}time{white-space:nowrap}svg{width:100%;height:9rem}rect{fill:#e2571e}
.n{text-align:right;font-variant-numeric:tabular-nums}.bar{background:#e2571e;height:1rem;border-radius:2px}
@media(prefers-color-scheme:dark){body{background:#16161a;color:#ddd}th,td{border-color:#333}}"""


def page(title: str, rows: list[dict[str, Any]], measure: str, by_minute: Mapping[int, int]) -> str:
    """How much there is and since when, when it came, and a table with bars for what is measured."""
    if not rows:
        body = "<p>There is nothing to report.</p>"
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
    step = next((step for step in STEPS if last // step - first // step < BARS_MAX), STEPS[-1])
    begin = max(first // step, last // step - BARS_MAX + 1)
    counts = [0] * (last // step - begin + 1)
    for minute, count in by_minute.items():
        if minute // step >= begin:
            counts[minute // step - begin] += count
    largest = max(counts)
    whens = [at(step * (begin + index)) for index in range(len(counts))]
    bars = "".join(bar(index, count, largest, whens[index]) for index, count in enumerate(counts))
    return (
        f"<h2>When</h2><p>A bar is {span(step)}: from {at(step * begin)} to {at(last + 1)} (UTC). "
        f"The highest stands for {largest:,}.</p>"
        f'<svg viewBox="0 0 {max(len(counts), BARS_MIN) * BAR_WIDTH} {BARS_HEIGHT}" '
        f'preserveAspectRatio="none" role="img">'
        f"{bars}</svg>"
    )


def bar(index: int, count: int, largest: int, when: str) -> str:
    height = BARS_HEIGHT * count / largest
    return (
        f'<rect x="{index * BAR_WIDTH}" y="{BARS_HEIGHT - height:.1f}" width="{BAR_WIDTH - 2}" '
        f'height="{height:.1f}"><title>{when}: {count:,}</title></rect>'
    )


def at(minute: int) -> str:
    return f"{datetime.datetime.fromtimestamp(minute * 60, datetime.UTC):%Y-%m-%d %H:%M}"


def span(minutes: int) -> str:
    for name, size in (("day", 1440), ("hour", 60), ("minute", 1)):
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
