"""Names that no short string holds: refused where they come in, and harmless where one slips through."""

from __future__ import annotations

from typing import Any

import pytest

from embermq.broker.dead_letter import router as dead_letters
from embermq.broker.message.message import Message
from embermq.broker.policy.keys import problem_with
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.broker.stream.arguments import check_declaration
from embermq.broker.transfer import last_death
from embermq.broker.vhost import VirtualHost
from embermq.errors import PreconditionFailed
from embermq.wire.properties import Properties
from tests.support.domain import Loop, message, new_queue, new_vhost
from tests.unit.broker.test_timers import Clock

LONGEST, TOO_LONG = "\N{EURO SIGN}" * 85, "\N{EURO SIGN}" * 85 + "x"  # of 255 bytes and one more
HALF = "\ud800"  # of a character: JSON can say it


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def vhost(clock: Clock) -> VirtualHost:
    loop = Loop()
    loop.turn = clock.turn
    return new_vhost(loop)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize(
    "argument", ["x-dead-letter-exchange", "x-dead-letter-routing-key", "x-template", "x-namespace"]
)
@pytest.mark.parametrize("value", [TOO_LONG, HALF, LONGEST], ids=["long", "half", "longest"])
def test_arguments_of_queues(vhost: VirtualHost, kind: str, argument: str, value: str) -> None:
    arguments: dict[str, object] = {"x-queue-type": kind, "x-dead-letter-exchange": "", argument: value}
    vhost.defaults.templates.set(LONGEST, {})
    if value is LONGEST:
        new_queue(vhost, durable=True, arguments=arguments)
    else:
        with pytest.raises(PreconditionFailed, match=f"'{argument}' for queue 'q'"):
            new_queue(vhost, durable=True, arguments=arguments)
        assert vhost.queues == {}


@pytest.mark.parametrize("value", [TOO_LONG, HALF], ids=["long", "half"])
def test_names_and_routing_keys(vhost: VirtualHost, value: str) -> None:
    exchange: dict[str, Any] = {"durable": False, "auto_delete": False, "internal": False}
    with pytest.raises(PreconditionFailed, match=r"queue name .* is not text of at most 255"):
        new_queue(vhost, value)
    with pytest.raises(PreconditionFailed, match=r"exchange name .* is not text of at most 255 bytes"):
        vhost.declare_exchange(value, "direct", arguments={}, **exchange)
    with pytest.raises(PreconditionFailed, match="'alternate-exchange'"):
        vhost.declare_exchange("x", "direct", arguments={"alternate-exchange": value}, **exchange)
    queue = new_queue(vhost, LONGEST)
    vhost.declare_exchange(LONGEST, "direct", arguments={"alternate-exchange": LONGEST}, **exchange)
    with pytest.raises(PreconditionFailed, match=r"routing key .* is not text of at most 255 bytes"):
        vhost.bind(vhost.exchanges[LONGEST], queue, value, {})
    vhost.bind(vhost.exchanges[LONGEST], queue, LONGEST, {})


@pytest.mark.parametrize("argument", ["x-template", "x-namespace"])
def test_arguments_of_streams(argument: str) -> None:
    for value in (TOO_LONG, HALF):
        with pytest.raises(PreconditionFailed, match=f"'{argument}' for stream"):
            check_declaration("stream", {"x-queue-type": "stream", argument: value}, True, False, False)
    check_declaration("stream", {"x-queue-type": "stream", argument: LONGEST}, True, False, False)


@pytest.mark.parametrize(
    "key",
    ["dead-letter-exchange", "dead-letter-routing-key", "alternate-exchange", "federation-upstream"],
)
def test_policies(key: str) -> None:
    assert problem_with({key: LONGEST}, False) is None
    for value in (TOO_LONG, HALF):
        assert "is not a valid" in str(problem_with({key: value}, False))


def letters_of(vhost: VirtualHost, **arguments: object) -> Queue:
    """A queue whose letters go to the queue `letters`, by a definition that nobody has checked."""
    new_queue(vhost, "letters")
    vhost.exchanges[""].changed()
    known: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    known |= {name.replace("_", "-"): value for name, value in arguments.items()}
    return vhost.add_queue("q", id="id", durable=False, auto_delete=False, arguments=known)


def rejected(queue: Queue, what: Message) -> Entry:
    queue.append(what)
    entry = queue.get()
    assert entry is not None
    queue.discard([entry])
    return entry


def test_a_key_from_a_store_of_before_is_passed_over(vhost: VirtualHost) -> None:
    """The letter keeps its own; and an exchange that cannot be there is one that is not there."""
    queue = letters_of(vhost, x_dead_letter_routing_key=TOO_LONG)
    rejected(queue, message(b"letter", key="letters"))
    assert [letter.body for letter in vhost.queues["letters"].messages()] == [b"letter"]
    queue.effective = {"x-dead-letter-exchange": TOO_LONG}
    assert queue.rules is not None
    queue.rules.apply_effective()
    rejected(queue, message(b"lost", key="letters"))
    assert vhost.past.dropped_rejected == 1


def with_headers(headers: dict[str, object], body: bytes = b"forged") -> Message:
    return message(body, properties=Properties(headers=headers).encode())


FORGED: list[object] = [
    [{"queue": "q", "reason": "rejected", "count": 2**63 - 1}],
    [{"queue": "q", "reason": "rejected", "count": "many"}],
    [
        {
            "queue": "q",
            "reason": "rejected",
            "count": -(2**63),
            "exchange": TOO_LONG,
            "routing-keys": [TOO_LONG],
        }
    ],
    [{"queue": "q" * 300, "reason": "r" * 300, "exchange": "e" * 300, "routing-keys": 5, "time": 7}],
    [{"queue": None, "reason": ["rejected"], "count": 1.5}, 5, "x", None, {"q" * 255: []}],
    [[[]], {}, {"queue": {"queue": "q"}}],
    "no list",
    [],
    5,
]


@pytest.mark.parametrize("deaths", FORGED, ids=range(len(FORGED)))
@pytest.mark.parametrize("end", ["rejected", "expired", "maxlen", "delivery_limit"])
def test_a_forged_history_harms_nobody(vhost: VirtualHost, clock: Clock, deaths: object, end: str) -> None:
    arguments: dict[str, object] = {
        "expired": {"x_message_ttl": 100},
        "maxlen": {"x_max_length": 1},
        "delivery_limit": {"x_delivery_limit": 0},
    }.get(end, {})
    queue = letters_of(vhost, **arguments)
    for what in (with_headers({"x-death": deaths}), message(b"good")):
        if end in ("rejected", "delivery_limit"):
            queue.append(what)
            entry = queue.get()
            assert entry is not None
            (queue.discard if end == "rejected" else queue.requeue)([entry])
        else:
            queue.append(what)
    clock.pass_ms(200)
    if end == "maxlen":
        queue.append(message(b"pushes"))
    letters = list(vhost.queues["letters"].messages())
    assert [letter.body for letter in letters] == [b"forged", b"good"]
    for letter in letters:
        history: Any = letter.properties.headers
        assert history["x-death"][0]["reason"] == end
        assert history["x-death"][0]["queue"] == "q"


@pytest.mark.parametrize("deaths", FORGED, ids=range(len(FORGED)))
def test_what_cannot_be_sent_back_is_passed_over(deaths: object) -> None:
    death = last_death(with_headers({"x-death": deaths}))
    assert death is None or len(death.exchange) + len(death.routing_key) <= 510


def test_one_letter_that_fails_is_kept_and_does_not_stop_others(
    vhost: VirtualHost, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever slips through is no matter of the queue, nor of the client that is being served."""
    compose = dead_letters.dead_letter

    def fails(what: Message, *more: Any) -> Message:
        if what.body == b"bad":
            raise ValueError("something that nobody has thought of")
        return compose(what, *more)

    monkeypatch.setattr(dead_letters, "dead_letter", fails)
    queue = letters_of(vhost, x_message_ttl=100)
    for body in (b"1", b"bad", b"2"):
        queue.append(message(body))
    clock.pass_ms(200)
    letters = vhost.queues["letters"]
    assert [letter.body for letter in letters.messages()] == [b"1", b"2"]
    assert queue.ready_count == 0 and vhost.dead_letters.held.count(queue) == 1
    for _ in range(5):
        clock.pass_ms(1000)
    assert len([line for line in caplog.records if "cannot be moved" in line.getMessage()]) == 1
    monkeypatch.undo()
    clock.pass_ms(1000)
    assert [letter.body for letter in letters.messages()] == [b"1", b"2", b"bad"]
    assert vhost.dead_letters.held.count(queue) == 0
