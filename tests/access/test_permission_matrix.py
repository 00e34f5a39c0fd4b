"""Every method against every right that it needs: with all it passes, without any one it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.access.tenant import connect, make_user, publish, put
from tools.brokers import EmberBroker

USER = "matrix"
Need = tuple[str, str, str]  # right, kind, name


class Case(NamedTuple):
    name: str
    needs: tuple[Need, ...]
    act: Callable[[BlockingChannel], object]


def dead_lettering(channel: BlockingChannel) -> None:
    channel.queue_declare("new", auto_delete=True, arguments={"x-dead-letter-exchange": "x"})


def alternating(channel: BlockingChannel) -> None:
    channel.exchange_declare("new-x", auto_delete=True, arguments={"alternate-exchange": "x"})


CASES = [
    Case("queue.declare", (("configure", "queue", "new"),), lambda c: c.queue_declare("new")),
    Case("queue.declare generated", (("configure", "queue", "amq.gen-"),), lambda c: c.queue_declare("")),
    Case(
        "queue.declare with dead letters",
        (("configure", "queue", "new"), ("read", "queue", "new"), ("write", "exchange", "x")),
        dead_lettering,
    ),
    Case(
        "queue.bind",
        (("write", "queue", "q"), ("read", "exchange", "x")),
        lambda c: c.queue_bind("q", "x", "k"),
    ),
    Case(
        "queue.unbind",
        (("write", "queue", "q"), ("read", "exchange", "x")),
        lambda c: c.queue_unbind("q", "x", "k"),
    ),
    Case("queue.purge", (("read", "queue", "q"),), lambda c: c.queue_purge("q")),
    Case("queue.delete", (("configure", "queue", "gone"),), lambda c: c.queue_delete("gone")),
    Case("exchange.declare", (("configure", "exchange", "new-x"),), lambda c: c.exchange_declare("new-x")),
    Case(
        "exchange.declare with an alternate",
        (("configure", "exchange", "new-x"), ("read", "exchange", "new-x"), ("write", "exchange", "x")),
        alternating,
    ),
    Case("exchange.delete", (("configure", "exchange", "gone"),), lambda c: c.exchange_delete("gone")),
    Case(
        "exchange.bind",
        (("write", "exchange", "y"), ("read", "exchange", "x")),
        lambda c: c.exchange_bind("y", "x", "k"),
    ),
    Case(
        "exchange.unbind",
        (("write", "exchange", "y"), ("read", "exchange", "x")),
        lambda c: c.exchange_unbind("y", "x", "k"),
    ),
    Case("basic.publish", (("write", "exchange", "x"),), lambda c: publish(c, "x", "k")),
    Case("basic.publish default", (("write", "exchange", "amq.default"),), lambda c: publish(c, "", "q")),
    Case("basic.consume", (("read", "queue", "q"),), lambda c: c.basic_consume("q", print)),
    Case("basic.get", (("read", "queue", "q"),), lambda c: c.basic_get("q")),
]
# Whoever has any right at all to a thing may ask whether it is there.
PASSIVE = [
    Case("queue.declare passive", (("", "queue", "q"),), lambda c: c.queue_declare("q", passive=True)),
    Case("queue.declare passive", (("", "queue", "no"),), lambda c: c.queue_declare("no", passive=True)),
    Case(
        "exchange.declare passive", (("", "exchange", "x"),), lambda c: c.exchange_declare("x", passive=True)
    ),
    Case(
        "exchange.declare passive",
        (("", "exchange", "no"),),
        lambda c: c.exchange_declare("no", passive=True),
    ),
]
# Names that nobody without the right may learn to exist: the answer is the same for those that do not.
SILENT: list[tuple[str, Callable[[BlockingChannel, str], object]]] = [
    ("exchange", lambda c, name: publish(c, name, "k")),
    ("queue", lambda c, name: c.basic_get(name)),
    ("queue", lambda c, name: c.basic_consume(name, print)),
    ("queue", lambda c, name: c.queue_purge(name)),
    ("queue", lambda c, name: c.queue_delete(name)),
    ("exchange", lambda c, name: c.exchange_delete(name)),
    ("queue", lambda c, name: c.queue_bind(name, "x", "k")),
    ("exchange", lambda c, name: c.exchange_bind(name, "x", "k")),
    ("queue", lambda c, name: c.queue_declare(name, passive=True)),
    ("exchange", lambda c, name: c.exchange_declare(name, passive=True)),
]


@pytest.fixture(scope="module")
def connection(ember: EmberBroker) -> Iterator[pika.BlockingConnection]:
    with connect(ember, "guest") as owner:
        channel = owner.channel()
        channel.queue_declare("q")
        channel.exchange_declare("x")
        channel.exchange_declare("y")
        make_user(ember, USER)
        with connect(ember, USER) as made:
            yield made


def grant(broker: EmberBroker, needs: list[Need]) -> None:
    """Exactly these rights, and to everything else none."""
    patterns = {}
    for right in ("configure", "write", "read"):
        names = [re.escape(name) for needed, _, name in needs if needed == right]
        patterns[right] = f"^({'|'.join(names)})" if names else ""
    put(broker, "permissions", "/", USER, **patterns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_with_exactly_what_it_needs_it_passes(
    ember: EmberBroker, connection: pika.BlockingConnection, case: Case
) -> None:
    grant(ember, list(case.needs))
    channel = connection.channel()
    case.act(channel)
    channel.close()
    grant(ember, [("configure", "queue", "new")])
    cleaner = connection.channel()
    cleaner.queue_delete("new")
    cleaner.exchange_delete("new-x")
    cleaner.close()


@pytest.mark.parametrize(
    ("case", "missing"),
    [(case, need) for case in CASES for need in case.needs],
    ids=lambda value: value.name if isinstance(value, Case) else "-".join(value),
)
def test_without_any_one_of_them_it_is_refused(
    ember: EmberBroker, connection: pika.BlockingConnection, case: Case, missing: Need
) -> None:
    right, kind, name = missing
    others = [(other, kind, name) for other in ("configure", "write", "read") if other != right]
    grant(ember, [need for need in case.needs if need != missing] + others)
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        case.act(channel)
    assert refusal.value.reply_code == 403
    shown = "" if name == "amq.default" else name
    text = f"ACCESS_REFUSED - {right} access to {kind} '{shown}"
    assert refusal.value.reply_text.startswith(text)
    assert refusal.value.reply_text.endswith(f"in vhost '/' refused for user '{USER}'")


@pytest.mark.parametrize("right", ["configure", "write", "read"])
@pytest.mark.parametrize("case", PASSIVE, ids=lambda case: f"{case.name} {case.needs[0][2]}")
def test_a_passive_declaration_needs_any_right(
    ember: EmberBroker, connection: pika.BlockingConnection, case: Case, right: str
) -> None:
    (_, kind, name) = case.needs[0]
    grant(ember, [(right, kind, name)])
    if name == "no":
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as missing:
            case.act(connection.channel())
        assert missing.value.reply_code == 404
    else:
        case.act(connection.channel())


@pytest.mark.parametrize(("kind", "act"), SILENT, ids=lambda value: value if isinstance(value, str) else "")
def test_a_refusal_does_not_tell_what_exists(
    ember: EmberBroker,
    connection: pika.BlockingConnection,
    kind: str,
    act: Callable[[BlockingChannel, str], object],
) -> None:
    grant(ember, [("read", "exchange", "else")])
    texts = []
    for name in ("q" if kind == "queue" else "x", "no"):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
            act(connection.channel(), name)
        texts.append((refusal.value.reply_code, refusal.value.reply_text.replace(f"'{name}'", "''")))
    assert texts[0] == texts[1] and texts[0][0] == 403


def test_a_right_that_is_taken_is_gone_at_once(
    ember: EmberBroker, connection: pika.BlockingConnection
) -> None:
    """Also for a publisher whose route is remembered; and one that is given is there at once."""
    grant(ember, [("write", "exchange", "x")])
    channel = connection.channel()
    publish(channel, "x", "k")
    grant(ember, [])
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        channel.basic_publish("x", "k", b"")
    assert refusal.value.reply_code == 403
    grant(ember, [("write", "exchange", "x")])
    publish(connection.channel(), "x", "k")
