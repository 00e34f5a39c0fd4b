"""A queue's consumers and bindings on its page: the first of each, however many there are."""

from __future__ import annotations

from html import escape
from itertools import islice

from embermq.broker.exchange.binding import Binding
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.queue import Queue
from embermq.broker.stream.stream import Stream
from embermq.http.console.address import queue_in_api
from embermq.http.console.messages import value_html
from embermq.http.console.words import many
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import Request
from embermq.http.views.views import consumer_view

CONSUMERS_MAX, BINDINGS_MAX, NAMES_MAX = 25, 25, 25
ARGUMENTS_MAX = 10
NOTHING = "\N{EN DASH}"
CONSUMER_HEADS = (("Tag", False), ("Channel", False), ("Prefetch", True), ("Unacked", True), ("Acks", False))
READER_HEADS = (("Tag", False), ("Channel", False), ("Name", False), ("Next offset", True), ("Behind", True))

STYLE = """
.wide td { white-space: normal; overflow-wrap: break-word }
@media (max-width: 44rem) {
  .wide td { overflow-wrap: anywhere }
  .wide tr { grid-template-columns: repeat(3, 1fr) } .bindings tr { grid-template-columns: repeat(2, 1fr) }
  .consumers td:nth-of-type(1) { grid-column: 1 / -1 } }
"""


def table(kind: str, heads: tuple[tuple[str, bool], ...], rows: list[str]) -> str:
    cells = "".join(
        f'<th scope="col"{" class=number" if is_number else ""}>{text}</th>' for text, is_number in heads
    )
    return (
        f'<div class="table" role="region" aria-labelledby="{kind}" tabindex="0"><table class="wide {kind}">'
        f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def section(kind: str, title: str, count: int, shown: str) -> str:
    return f"""<section aria-labelledby="{kind}">
<div class="over"><h2 id="{kind}">{title} <span class="count">{many(count)}</span></h2></div>
{shown}
</section>
"""


def and_more(count: int, where: str) -> str:
    return f'<p>And {many(count)} more, by the <a href="{where}">HTTP API</a>.</p>' if count > 0 else ""


def cell(label: str, value: str, is_number: bool = False) -> str:
    return f'<td{" class=number" if is_number else ""} data-label="{label}">{value}</td>'


async def consumers_section(request: Request, queue: Queue) -> str:
    if isinstance(queue, Stream):
        return await readers_section(request, queue)
    steps, count = Steps(request.context.scheduler), len(queue.consumers)
    rows = []
    for consumer in queue.consumers[:CONSUMERS_MAX]:
        rows.append(consumer_row(request, consumer))
        await steps.pause()
    shown = "<p>Nobody takes messages from here.</p>"
    if rows:
        shown = table("consumers", (*CONSUMER_HEADS, ("State", False)), rows)
        shown += and_more(count - len(rows), queue_in_api(queue.vhost.name, queue.name))
    return section("consumers", "Consumers", count, shown)


def consumer_row(request: Request, consumer: Consumer) -> str:
    view = consumer_view(request.context, consumer)
    prefetch = many(view["prefetch_count"]) if view["prefetch_count"] else "no limit"
    return "".join(
        (
            tag_cell(consumer),
            channel_cell(view["channel_details"]),
            cell("Prefetch", prefetch if view["ack_required"] else NOTHING, True),
            cell("Unacked", many(consumer.unacked) if view["ack_required"] else NOTHING, True),
            cell("Acks", "by the client" if view["ack_required"] else "automatic"),
            cell("State", state_of(consumer)),
            "</tr>",
        )
    )


def state_of(consumer: Consumer) -> str:
    rules = consumer.queue.rules
    if not consumer.is_active:
        return "paused"
    if rules is not None and rules.single_active:
        return "active" if rules.active is consumer else "stands by"
    return "exclusive" if consumer.exclusive else "active"


def tag_cell(consumer: Consumer) -> str:
    told = arguments_html(consumer.arguments)
    small = f" <small>{told}</small>" if told else ""
    return f'<tr><th scope="row" class="name"><code>{escape(consumer.tag)}</code>{small}</th>'


def channel_cell(details: dict[str, object]) -> str:
    if not details:
        return cell("Channel", NOTHING)
    return cell("Channel", f"{escape(str(details['name']))}, user {escape(str(details['user']))}")


def arguments_html(arguments: dict[str, object]) -> str:
    told = [f"{escape(name)} {value_html(value)}" for name, value in islice(arguments.items(), ARGUMENTS_MAX)]
    if len(arguments) > ARGUMENTS_MAX:
        told.append(f"and {many(len(arguments) - ARGUMENTS_MAX)} more")
    return ", ".join(told)


async def readers_section(request: Request, stream: Stream) -> str:
    steps, count = Steps(request.context.scheduler), len(stream.cursors)
    rows = []
    for cursor in stream.cursors[:CONSUMERS_MAX]:
        view = consumer_view(request.context, cursor.consumer)
        name = cursor.group.name if cursor.group is not None else ""
        rows.append(
            tag_cell(cursor.consumer)
            + channel_cell(view["channel_details"])
            + cell("Name", f"<code>{escape(name)}</code>" if name else NOTHING)
            + cell("Next offset", many(cursor.offset), True)
            + cell("Behind", many(max(stream.safe_end - cursor.offset, 0)), True)
            + cell("State", "stands by" if cursor.waits else "active")
            + "</tr>"
        )
        await steps.pause()
    shown = "<p>Nobody reads it.</p>"
    if rows:
        shown = table("consumers", (*READER_HEADS, ("State", False)), rows)
        shown += and_more(count - len(rows), queue_in_api(stream.vhost.name, stream.name))
    return section("consumers", "Readers", count, shown + names_kept(stream))


def names_kept(stream: Stream) -> str:
    """Readers with a name find their place again, whether or not they are connected."""
    groups = [group for name, group in stream.groups.by_name.items() if name]
    told = [
        f"<code>{escape(group.name)}</code> at {many(group.position)}"
        for group in groups[:NAMES_MAX]
        if group.position is not None
    ]
    more = f", and {many(len(groups) - NAMES_MAX)} more" if len(groups) > NAMES_MAX else ""
    return f"<p>Places kept by name: {', '.join(told)}{more}.</p>" if told else ""


async def bindings_section(request: Request, queue: Queue) -> str:
    steps, bound = Steps(request.context.scheduler), queue.vhost.queue_bindings.get(queue, {})
    count = len(bound)
    rows = []
    for binding in list(islice(bound, BINDINGS_MAX)):
        rows.append(binding_row(binding))
        await steps.pause()
    shown = table("bindings", (("Exchange", False), ("Routing key", False), ("Arguments", False)), rows)
    always = "By the default exchange it gets what is published with its name as the routing key"
    told = f"<p>{always}{'; by nothing else.' if not rows else '.'}</p>"
    more = and_more(count - len(rows), f"{queue_in_api(queue.vhost.name, queue.name)}/bindings")
    return section("bindings", "Bindings", count, (shown if rows else "") + more + told)


def binding_row(binding: Binding) -> str:
    key = f"<code>{escape(binding.routing_key)}</code>" if binding.routing_key else NOTHING
    return (
        f'<tr><th scope="row" class="name"><code>{escape(binding.source.name)}</code>'
        f" <small>{escape(binding.source.type)}</small></th>"
        f"{cell('Routing key', key)}{cell('Arguments', arguments_html(binding.arguments) or NOTHING)}</tr>"
    )
