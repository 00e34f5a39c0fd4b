"""The first ready messages of a queue, on its page, without taking them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from html import escape

from embermq.broker.message.message import Message
from embermq.broker.queue.preview import Preview, previews
from embermq.broker.queue.queue import Queue
from embermq.errors import AccessRefused, SyntaxFault
from embermq.http.console.address import queue_in_api
from embermq.http.console.body import BODY_BYTES, body_html
from embermq.http.console.words import many, size
from embermq.http.controllers.messages import properties_view
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import Request

MESSAGES_MAX = 10
STEPS_MAX = 200  # of looking; more are needed where most of what is on disk is gone already
HEADER_BYTES_MAX = 8 * 1024  # longer ones are not taken apart
FIELDS_MAX = 20
VALUE_CHARACTERS = 200
DELIVERY_MODES = {1: "transient", 2: "persistent"}

STYLE = """
.messages { list-style: none; margin: 0; padding: 0; display: grid; gap: .75rem }
.messages > li { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
                 padding: .6rem .9rem .8rem; min-width: 0 }
.messages h3 { font-size: 1rem; font-weight: 600; margin: 0; overflow-wrap: anywhere }
.messages h3 span { color: var(--soft); font-weight: 400; margin-right: .35rem }
.messages ul { list-style: none; margin: .4rem 0 0; padding: 0; display: flex; flex-wrap: wrap;
               gap: .1rem 1.25rem; font-size: .9rem; overflow-wrap: anywhere }
.messages ul span { color: var(--soft) }
pre { margin: .5rem 0 0; padding: .5rem .7rem; background: var(--paper); border-radius: .4rem;
      font: .85em/1.45 ui-monospace, monospace; overflow-x: auto; white-space: pre-wrap;
      overflow-wrap: anywhere; unicode-bidi: isolate }
pre.hex { white-space: pre }
"""


async def messages_section(request: Request, queue: Queue) -> str:
    count = queue.ready_count
    why_not = why_not_shown(request, queue)
    if why_not or not count:
        shown, title = f"<p>{why_not or 'None: nothing waits here.'}</p>", "First messages"
    else:
        items = await first_messages(Steps(request.context.scheduler), queue)
        shown = f'<ol class="messages">{"".join(items)}</ol>' if items else "<p>None any more.</p>"
        if len(items) < count:
            api = f'<a href="{queue_in_api(queue.vhost.name, queue.name)}/messages">HTTP API</a>'
            shown += f"<p>And {many(count - len(items))} more, by the {api}.</p>"
        title = f'First messages <span class="count">{many(len(items))} of {many(count)}</span>'
    return f"""<section aria-labelledby="messages">
<div class="over"><h2 id="messages">{title}</h2></div>
{shown}
</section>
"""


def why_not_shown(request: Request, queue: Queue) -> str:
    """As by the API: a user who may not read a queue does not see what is in it."""
    if queue.exclusive:
        return "The queue is exclusive: only its connection may look into it."
    try:
        request.user.require("read", queue.vhost.name, "queue", queue.name)
    except AccessRefused:
        name, vhost = escape(request.user.name), escape(queue.vhost.name)
        return f"{name} may not read this queue: that takes the permission to read in {vhost}."
    return ""


async def first_messages(steps: Steps, queue: Queue) -> list[str]:
    items: list[str] = []
    looking = previews(queue, MESSAGES_MAX, BODY_BYTES)
    for _ in range(STEPS_MAX):
        await steps.pause()
        if queue.deleted:
            break
        seen = next(looking, looking)
        if seen is looking or len(items) >= MESSAGES_MAX:
            break
        if isinstance(seen, Preview):
            items.append(await message_item(steps, queue, seen, len(items) + 1))
    return items


async def message_item(steps: Steps, queue: Queue, seen: Preview, number: int) -> str:
    message = seen.message
    label = f"Offset {many(seen.sequence)}" if not queue.messages_leave else f"{number}."
    exchange = f"<code>{escape(message.exchange)}</code>" if message.exchange else "the default exchange"
    facts = [f"<span>by</span> {exchange}"]
    facts += ["redelivered"] if seen.redelivered else []
    facts += [f"<span>expires</span> {moment(seen.expires_ms / 1000)}"] if seen.expires_ms else []
    facts += ["on disk only"] if not seen.in_memory and queue.messages_leave else []
    properties = property_facts(message)
    await steps.pause()
    beginning = message.content[message.header_size : message.header_size + BODY_BYTES]
    kind, body = body_html(beginning, seen.body_size)
    await steps.pause()
    key = f"<code>{escape(message.routing_key)}</code>" if message.routing_key else "no routing key"
    listed = "".join(f"<li>{fact}</li>" for fact in [kind, *facts, *properties])
    return f"<li><h3><span>{label}</span> {key}</h3><ul>{listed}</ul>{body}</li>"


def property_facts(message: Message) -> list[str]:
    if message.header_size > min(HEADER_BYTES_MAX, message.size):
        return [f"{size(message.header_size)} of properties, too many to show"]
    try:
        values = properties_view(message.properties)
    except SyntaxFault:
        return ["properties that cannot be read"]
    headers = values.pop("headers", {})
    mode = values.get("delivery_mode")
    if mode in DELIVERY_MODES:
        values["delivery_mode"] = DELIVERY_MODES[mode]
    if isinstance(values.get("timestamp"), int):
        values["timestamp"] = moment(values["timestamp"])
    fields = [(name.replace("_", " "), value) for name, value in values.items()]
    fields += [(f"header {name}", value) for name, value in headers.items()]
    facts = [f"<span>{escape(name)}</span> {value_html(value)}" for name, value in fields[:FIELDS_MAX]]
    if len(fields) > FIELDS_MAX:
        facts.append(f"and {many(len(fields) - FIELDS_MAX)} more")
    return facts


def value_html(value: object) -> str:
    """A property, a header or an argument, not too much of it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    cut = text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"
    return f"<code>{escape(cut)}</code>" if cut else "<code>&quot;&quot;</code>"


def moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return str(seconds)
