"""Dead letters: messages that a queue could not keep or deliver go on to an exchange, with their history.

The history is the header `x-death`, as RabbitMQ writes it: one table per queue and reason, newest first, with
`count`, `reason`, `queue`, `time`, `exchange`, `routing-keys` and, when the message had an expiration (which
it loses), `original-expiration`. `x-first-death-*` and `x-last-death-*` (RabbitMQ 4) keep the ends of it.

A letter is in its new queues before it leaves the old one: where both are on disk, the old record is acked
only after the sync that made the new ones safe. A crash in between makes a duplicate, never a loss.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from embermq.broker.dead_letter.at_least_once import Held, HeldLetters
from embermq.broker.message.message import NO_TTL, Message
from embermq.broker.message.rewrite import names_of, rewritten, typed_headers
from embermq.broker.queue.length_limit import ACCEPTED
from embermq.broker.queue.queue import KEEPS_ALL, KEEPS_NOTHING
from embermq.wire.table_writer import TypedField, TypedValue

if TYPE_CHECKING:
    from embermq.broker.queue.features import QueueRules
    from embermq.broker.queue.level import Entry
    from embermq.broker.queue.queue import Queue
    from embermq.broker.vhost import VirtualHost

log = logging.getLogger("embermq.queue")

COUNT_MAX = 2**63 - 1
PAUSE_MS = 60_000  # between two words about letters that cannot be moved


class DeadLetters:
    """The dead letters of a virtual host on their way."""

    def __init__(self, vhost: VirtualHost) -> None:
        self.vhost = vhost
        self.pending: deque[Held] = deque()
        self.held = HeldLetters(self)
        self.moving = False
        self.next_word_ms = 0

    def send(self, rules: QueueRules, message: Message, entry: Entry | None, reason: str) -> None:
        """One letter may push out another, and so on: they queue up here instead of nesting."""
        self.vhost.past.count_dead(reason)
        self.pending.append(Held(rules, message, entry, reason))
        if self.moving:
            return
        self.moving = True
        try:
            while self.pending:
                self.move(self.pending.popleft())
        finally:
            self.moving = False

    def move(self, held: Held) -> None:
        """Into the queues that it is for. Whatever is wrong with one letter is no matter of its queue, nor of
        the client that is being served: it waits, and is tried again."""
        try:
            self.try_to_move(held)
        except Exception:
            now_ms = self.vhost.turn.now_ms
            if now_ms >= self.next_word_ms:
                self.next_word_ms = now_ms + PAUSE_MS
                log.exception("a dead letter of %r is kept, as it cannot be moved", held.rules.queue)
            if held.entry is not None:
                self.held.add(held)

    def try_to_move(self, held: Held) -> None:
        """What has no place in the queues that it is for, and must have one, waits."""
        rules, message, entry, reason = held.rules, held.message, held.entry, held.reason
        source: Queue = rules.queue
        assert rules.dead_letter_exchange is not None
        letter = dead_letter(
            message,
            source.name,
            reason,
            rules.dead_letter_exchange,
            rules.dead_letter_routing_key,
            self.vhost.turn.now_ms // 1000,
        )
        kept = refused = False
        targets = self.targets(letter, reason)
        for queue in targets or ():
            if queue in held.taken_by:
                continue
            if queue.append(letter) != ACCEPTED:
                refused = True
                continue
            held.taken_by.add(queue)
            kept = kept or queue.keeps == KEEPS_ALL or (letter.persistent and queue.keeps != KEEPS_NOTHING)
        if entry is None:
            return
        if rules.holds_letters and (refused or targets is None):
            self.held.add(held)
            return
        if kept and entry.stored:
            self.vhost.turn.after_safe(partial(entry.level.forget, entry))
        else:
            entry.level.forget(entry)

    def targets(self, letter: Message, reason: str) -> list[Queue] | None:
        """Where a letter goes; not where it has been without being rejected on the way (a cycle).

        None when no queue is meant at all.
        """
        exchange = self.vhost.exchanges.get(letter.exchange)
        if exchange is None:
            return None
        headers = letter.properties.headers or {}
        queues = exchange.resolve_or_none(letter.routing_key, letter, copy_keys(headers))
        if not queues:
            return None
        if reason == "rejected":
            return list(queues)
        deaths = headers.get("x-death")
        assert isinstance(deaths, list)
        return [queue for queue in queues if not is_cycle(queue.name, deaths)]


def copy_keys(headers: dict[str, object]) -> list[str]:
    """Further routing keys out of the headers CC and BCC."""
    keys: list[str] = []
    for name in ("CC", "BCC"):
        values = headers.get(name)
        if isinstance(values, list):
            keys += [value for value in values if isinstance(value, str)]
    return keys


def is_cycle(queue: str, deaths: list[object]) -> bool:
    """Has the message been in that queue, and not been rejected since?"""
    for death in deaths:
        if not isinstance(death, dict):
            continue
        if death.get("reason") == "rejected":
            return False
        if death.get("queue") == queue:
            return True
    return False


def dead_letter(
    message: Message, queue: str, reason: str, exchange: str, routing_key: str | None, now_s: int
) -> Message:
    """The message as it goes to the dead letter exchange."""
    headers = typed_headers(message)
    properties = message.properties
    keys = [message.routing_key, *copy_keys(properties.headers or {})]
    event: list[TypedField] = [
        ("count", "l", 1),
        ("reason", "S", reason),
        ("queue", "S", queue),
        ("time", "T", now_s),
        ("exchange", "S", message.exchange),
        ("routing-keys", "A", [("S", key) for key in keys]),
    ]
    if properties.expiration is not None:
        event.append(("original-expiration", "S", properties.expiration))
        properties.expiration = None
    headers = with_death(headers, event)
    if routing_key is not None:
        headers = [field for field in headers if field[0] != "CC"]
    names = names_of(exchange, message.routing_key if routing_key is None else routing_key)
    letter = rewritten(message, names, properties, headers)
    letter.ttl_ms = NO_TTL
    return letter


def with_death(headers: list[TypedField], event: list[TypedField]) -> list[TypedField]:
    """The headers with one more death; a second one in the same queue for the same reason is counted."""
    values = {name: value for name, _, value in event}
    others = [field for field in headers if field[0] != "x-death"]
    deaths: list[TypedValue] = []
    for name, letter, value in headers:
        if name == "x-death" and letter == "A" and isinstance(value, list):
            deaths = value
    if not deaths:
        first = [(f"x-first-death-{name}", "S", values[name]) for name in ("reason", "queue", "exchange")]
        names = {name for name, _, _ in first}
        others = [field for field in others if field[0] not in names] + first
    last = [(f"x-last-death-{name}", "S", values[name]) for name in ("reason", "queue", "exchange")]
    names = {name for name, _, _ in last}
    others = [field for field in others if field[0] not in names] + last
    rest: list[TypedValue] = []
    for letter, death in counted(deaths):
        if letter == "F" and isinstance(death, list):
            known = {name: value for name, _, value in death}
            if (known.get("queue"), known.get("reason")) == (values["queue"], values["reason"]):
                count = known["count"]
                event = [("count", "l", min(count + 1, COUNT_MAX) if isinstance(count, int) else 1)]
                event += [field for field in death if field[0] != "count"]
                continue
        rest.append((letter, death))
    return [*others, ("x-death", "A", [("F", event), *rest])]


def counted(deaths: list[TypedValue]) -> list[TypedValue]:
    """Long ago brokers wrote a table for each death: those of one queue and reason are one with a count."""
    groups: dict[object, list[TypedValue]] = {}
    for letter, death in deaths:
        key: object = len(groups)  # an unknown entry: a group of its own
        if letter == "F" and isinstance(death, list):
            known = {name: str(value) for name, _, value in death}
            key = known.get("queue"), known.get("reason")
        groups.setdefault(key, []).append((letter, death))
    together: list[TypedValue] = []
    for group in groups.values():
        letter, death = group[0]
        if letter == "F" and isinstance(death, list) and all(field[0] != "count" for field in death):
            death = [("count", "l", len(group)), *death]
        together.append((letter, death))
    return together
