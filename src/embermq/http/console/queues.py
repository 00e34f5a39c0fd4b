"""The table of queues on the start page: filtered by name, sorted, in pages."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import urlencode

from embermq.broker.queue.queue import Queue
from embermq.http.console.address import queue_address
from embermq.http.console.refresh import every_asked
from embermq.http.console.words import many
from embermq.http.controllers.queues import SORTABLE
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import Request
from embermq.http.stats.history import QUEUE, History, queue_values
from embermq.http.stats.rates import NOTHING, Numbers
from embermq.http.views.name_filter import name_filter

QUEUES_SHOWN_MAX = 100
PAGE_DIGITS_MAX = 6
FILTER_CHARACTERS_MAX = 255
RATES = ("publish", "deliver_get")
# The word in the address, the head of the column, and whether it is a number: the largest come first.
HEADS = (
    ("name", "Name", False),
    ("ready", "Ready", True),
    ("unacked", "Unacked", True),
    ("consumers", "Consumers", True),
    ("in", "In/s", True),
    ("out", "Out/s", True),
)

STYLE = """
form { display: flex; gap: .4rem; margin-left: auto }
input { font: inherit; font-size: .9rem; color: inherit; background: var(--card);
        border: 1px solid var(--soft); border-radius: .4rem; padding: .2rem .6rem;
        width: 13rem; max-width: 45vw }
button { font: inherit; font-size: .9rem; color: var(--ink); background: var(--past-ground);
         border: 1px solid var(--soft); border-radius: .4rem; padding: .2rem .8rem; cursor: pointer }
thead a { color: inherit; text-decoration: none; white-space: nowrap }
thead a:hover { text-decoration: underline }
th[aria-sort] a { color: var(--ink); font-weight: 600 }
.zero { color: var(--soft) }
nav.more { display: flex; gap: 1.25rem; margin-top: .75rem; color: var(--soft) }
"""


class Choice:
    """What the address asks for. What it says wrongly counts as not said: it is for people."""

    def __init__(self, request: Request) -> None:
        query = request.query
        self.name = query.get("name", "")[:FILTER_CHARACTERS_MAX]
        self.sort = query["sort"] if query.get("sort") in {word for word, _, _ in HEADS} else "name"
        page = query.get("page", "")
        self.page = (
            max(int(page), 1) if page.isascii() and page.isdigit() and len(page) <= PAGE_DIGITS_MAX else 1
        )
        self.every = every_asked(query)

    def address(self, **changes: object) -> str:
        """The same page, but for these."""
        now = {"name": self.name, "sort": self.sort, "page": self.page, "every": self.every, **changes}
        usual = {"name": "", "sort": "name", "page": 1, "every": ""}
        told = {key: value for key, value in now.items() if value != usual[key]}
        return escape("/?" + urlencode(told, errors="replace") if told else "/")


def sort_key(history: History, sort: str) -> Callable[[Queue], Any]:
    if sort in ("in", "out"):
        column = QUEUE.index(RATES[sort == "out"])

        def change(queue: Queue) -> int:
            track = history.track(queue)
            return 0 if track is None else track.change(column, history.time_ms)

        return change
    return SORTABLE[{"ready": "messages_ready", "unacked": "messages_unacknowledged"}.get(sort, sort)]


async def queues_section(
    request: Request, queues: list[Queue], choice: Choice, *, show_vhost: bool, nothing: str
) -> str:
    """`nothing`: what to say where there are no queues at all."""
    history, steps = request.context.history, Steps(request.context.scheduler)
    chosen = queues
    if choice.name:
        matches = name_filter(choice.name, use_regex=False)
        chosen = []
        for queue in queues:
            if matches(queue.name):
                chosen.append(queue)
            await steps.pause()
    page_count = max(1, -(-len(chosen) // QUEUES_SHOWN_MAX))
    choice.page = min(choice.page, page_count)
    end = choice.page * QUEUES_SHOWN_MAX
    if choice.sort != "name":
        chosen, count = await steps.sorted(chosen, sort_key(history, choice.sort), True, end), len(chosen)
    else:
        count = len(chosen)
    rows = []
    for queue in chosen[end - QUEUES_SHOWN_MAX : end]:
        rows.append(queue_row(history, queue, show_vhost))
        await steps.pause()
    if not queues:
        shown = f"<p>{nothing}</p>"
    elif not rows:
        all_of_them = f'<a href="{choice.address(name="")}">All queues</a>'
        shown = f"<p>No name has “{escape(choice.name)}” in it. {all_of_them}</p>"
    else:
        shown = queue_table(rows, choice)
    return f"""<section aria-labelledby="queues">
<div class="over"><h2 id="queues">Queues <span class="count">{how_many(count, queues, choice)}</span></h2>
{filter_form(choice) if queues else ""}</div>
{shown}{pages(choice, page_count)}
</section>
"""


def how_many(count: int, queues: list[Queue], choice: Choice) -> str:
    return f"{many(count)} of {many(len(queues))}" if choice.name else many(count)


def filter_form(choice: Choice) -> str:
    """As links and nothing else, so that it works without scripts."""
    kept = (("sort", choice.sort if choice.sort != "name" else ""), ("every", choice.every))
    hidden = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in kept if value)
    return (
        f'<form action="/" role="search"><input type="search" name="name" value="{escape(choice.name)}" '
        f'placeholder="Part of a name" aria-label="Part of a queue\'s name">{hidden}'
        "<button>Filter</button></form>"
    )


def queue_table(rows: list[str], choice: Choice) -> str:
    return (
        '<div class="table" role="region" aria-labelledby="queues" tabindex="0"><table>'
        f"<thead><tr>{''.join(head(choice, *each) for each in HEADS)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def head(choice: Choice, word: str, text: str, is_number: bool) -> str:
    kind = ' class="number"' if is_number else ""
    order = mark = ""
    if choice.sort == word:
        order = f' aria-sort="{"descending" if is_number else "ascending"}"'
        mark = f' <span aria-hidden="true">{"▾" if is_number else "▴"}</span>'
    return f'<th scope="col"{kind}{order}><a href="{choice.address(sort=word, page=1)}">{text}{mark}</a></th>'


def queue_row(history: History, queue: Queue, show_vhost: bool) -> str:
    qualities = [str(queue.effective.get("x-queue-type", "classic"))]
    qualities += ["durable"] if queue.durable and qualities == ["classic"] else []
    qualities += ["auto-delete"] if queue.auto_delete else []
    qualities += ["exclusive"] if queue.exclusive else []
    told = ([queue.vhost.name] if show_vhost else []) + [", ".join(qualities)]
    rates = Numbers(history, [queue], QUEUE, queue_values(queue), NOTHING).view(RATES)
    numbers = (
        ("Ready", queue.ready_count),
        ("Unacked", queue.unacked_count),
        ("Consumers", len(queue.consumers)),
        ("In/s", rate_of(rates, "publish")),
        ("Out/s", rate_of(rates, "deliver_get")),
    )
    cells = "".join(
        f'<td class="{"number" if number else "number zero"}" data-label="{label}">{many(number)}</td>'
        for label, number in numbers
    )
    return (
        f'<tr><th scope="row" class="name"><a href="{queue_address(queue.vhost.name, queue.name)}">'
        f"<code>{escape(queue.name)}</code></a>"
        f" <small>{escape(' · '.join(told))}</small></th>{cells}</tr>"
    )


def rate_of(rates: dict[str, object], column: str) -> float:
    details = rates[f"{column}_details"]
    assert isinstance(details, dict)
    return float(details["rate"])


def pages(choice: Choice, page_count: int) -> str:
    if page_count == 1:
        return ""
    links = [f"<span>Page {choice.page:,} of {page_count:,}</span>"]
    if choice.page > 1:
        links.append(f'<a rel="prev" href="{choice.address(page=choice.page - 1)}">Previous</a>')
    if choice.page < page_count:
        links.append(f'<a rel="next" href="{choice.address(page=choice.page + 1)}">Next</a>')
    return f'<nav class="more" aria-label="Pages of queues">{" ".join(links)}</nav>'
