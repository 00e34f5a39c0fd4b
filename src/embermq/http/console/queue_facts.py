"""A queue's properties on its page: declaration, policies, where its dead letters go."""

from __future__ import annotations

from html import escape
from itertools import islice

from embermq.broker.exchange.exchange import Exchange
from embermq.broker.lease.lease import OPEN
from embermq.broker.queue.queue import Queue
from embermq.http.console.address import queue_address
from embermq.http.console.messages import value_html
from embermq.http.console.words import many
from embermq.http.server.request import Request
from embermq.http.views.json_values import plain

ARGUMENTS_MAX = 50
LETTER_QUEUES_MAX = 10
LETTER_BINDINGS_MAX = 200  # looked at to find so many

STYLE = """
.facts th[scope=row] { width: 14rem; color: var(--soft) }
.facts td { white-space: normal; overflow-wrap: anywhere } .facts small { color: var(--soft) }
@media (max-width: 44rem) { .facts tr { grid-template-columns: 1fr; gap: 0 } }
"""


def facts_section(request: Request, queue: Queue) -> str:
    facts = [("Virtual host", f"<code>{escape(queue.vhost.name)}</code>"), ("Kind", kind_of(queue))]
    in_force = queue.vhost.policies.of(queue)
    for label, policy in (("Policy", in_force.policy), ("Operator policy", in_force.operator_policy)):
        if policy is not None:
            pattern = f"<small>for names that fit <code>{escape(policy.pattern)}</code></small>"
            facts.append((label, f"<code>{escape(policy.name)}</code> {pattern}"))
    letters = dead_letters(queue)
    facts += [("Dead letters", letters)] if letters else []
    facts += counted(queue)
    facts += [(f"<code>{escape(name)}</code>", told) for name, told in arguments_of(queue)]
    rows = "".join(f'<tr><th scope="row">{name}</th><td>{told}</td></tr>' for name, told in facts)
    return f"""<section aria-labelledby="facts">
<div class="over"><h2 id="facts">What it is</h2></div>
<div class="table" role="region" aria-labelledby="facts" tabindex="0"><table class="facts">
<tbody>{rows}</tbody></table></div>
</section>
"""


def kind_of(queue: Queue) -> str:
    told = [str(queue.effective.get("x-queue-type", "classic")), "durable" if queue.durable else "transient"]
    told += ["auto-delete: it goes with its last consumer"] if queue.auto_delete else []
    if queue.exclusive:
        owner = str(getattr(queue.owner, "name", ""))
        told.append(f"exclusive to the connection {owner}" if owner else "exclusive")
    return escape(", ".join(told))


def counted(queue: Queue) -> list[tuple[str, str]]:
    """What is there only now and then."""
    paged = sum(level.paged_count for level in queue.levels)
    leases = [lease for lease in queue.vhost.leases.of.get(queue, {}).values() if lease.state == OPEN]
    numbers = (
        ("On disk only", paged, "of the ready messages, to save memory"),
        ("Delayed", queue.vhost.delays.count_to_queue(queue.name), "messages that come here later"),
        ("Letters held", queue.vhost.dead_letters.held.count(queue), "until their next queue takes them"),
        ("Leases", len(leases), f"with {many(sum(lease.count for lease in leases))} messages"),
    )
    return [(label, f"{many(number)} <small>{about}</small>") for label, number, about in numbers if number]


def arguments_of(queue: Queue) -> list[tuple[str, str]]:
    """Arguments in force, each with where it was set."""
    found = []
    names = sorted(queue.effective)
    for name in names[:ARGUMENTS_MAX]:
        value = queue.effective[name]
        told = value_html(plain(value))
        if name not in queue.arguments:
            told += " <small>by policy</small>"
        elif queue.arguments[name] != value:
            told += f" <small>by policy; declared: {value_html(plain(queue.arguments[name]))}</small>"
        found.append((name, told))
    if len(names) > ARGUMENTS_MAX:
        found.append(("", f"and {many(len(names) - ARGUMENTS_MAX)} more arguments"))
    return found


def dead_letters(queue: Queue) -> str:
    name, key = (queue.effective.get(f"x-dead-letter-{what}") for what in ("exchange", "routing-key"))
    if not isinstance(name, str):
        return ""
    with_key = (
        f"with the routing key {value_html(key)}" if isinstance(key, str) else "with their routing keys"
    )
    if not name:
        target = queue.vhost.queues.get(key) if isinstance(key, str) else None
        missing = " <small>which is no queue</small>" if isinstance(key, str) and target is None else ""
        return f"to {link(target)}" if target is not None else f"to the default exchange, {with_key}{missing}"
    exchange = queue.vhost.exchanges.get(name)
    told = f"to the exchange <code>{escape(name)}</code>, {with_key}"
    if exchange is None:
        return f"{told} <small>There is no such exchange: they are lost.</small>"
    queues = queues_behind(exchange)
    if not queues:
        return f"{told} <small>No queue is bound to it.</small>"
    return f"{told} <small>Bound to it:</small> {', '.join(queues)}"


def queues_behind(exchange: Exchange) -> list[str]:
    found: dict[Queue, None] = {}
    more = len(exchange.bindings) > LETTER_BINDINGS_MAX
    for binding in islice(exchange.bindings.values(), LETTER_BINDINGS_MAX):
        if isinstance(binding.destination, Queue):
            found[binding.destination] = None
    links = [link(queue) for queue in islice(found, LETTER_QUEUES_MAX)]
    return links + (["and more"] if more or len(found) > LETTER_QUEUES_MAX else [])


def link(queue: Queue) -> str:
    address = queue_address(queue.vhost.name, queue.name)
    return f'<a href="{address}"><code>{escape(queue.name)}</code></a>'
