"""Selectors: the language of JMS 2, case by case, and random conditions compared with SQLite's answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.broker.message.message import Message
from embermq.broker.selector.selector import Selector
from embermq.broker.selector.token import SelectorError
from embermq.wire.frame import content_header
from embermq.wire.properties import Properties

HEADERS = {
    "colour": "red",
    "weight": 5,
    "price": 9.5,
    "urgent": True,
    "quoted": "it's",
    "nested": {"inner": {"x": 1}, "list": [1]},
    "x-odd.name": "odd",
    "percent": "100%_sure",
    "empty": "",
}


def message_with(headers: dict[str, object] | None, routing_key: str = "k", **properties: object) -> Message:
    encoded = content_header(4, Properties(headers=headers, **properties).encode())  # type: ignore[arg-type]
    names = b"\x04logs" + bytes([len(routing_key)]) + routing_key.encode()
    return Message(names, encoded + b"body", len(encoded), False, 0, 0)


MESSAGE = message_with(
    HEADERS,
    "a.b",
    content_type="text/plain",
    priority=7,
    timestamp=1_700_000_000,
    type="order",
    delivery_mode=2,
)


@pytest.mark.parametrize(
    "selector",
    [
        "colour = 'red'",
        "colour <> 'blue'",
        "weight = 5 AND price > 9",
        "weight = 5.0",
        "weight BETWEEN 1 AND 5",
        "weight NOT BETWEEN 6 AND 9",
        "colour IN ('blue', 'red')",
        "colour NOT IN ('blue')",
        "colour LIKE 'r%'",
        "colour LIKE '_e_'",
        "colour NOT LIKE 'R%'",
        "percent LIKE '100\\%\\__ure' ESCAPE '\\'",
        "empty LIKE '%'",
        "empty LIKE ''",
        "quoted = 'it''s'",
        "urgent",
        "urgent = TRUE",
        "NOT (urgent = FALSE)",
        "absent IS NULL",
        "colour IS NOT NULL",
        "absent IS NULL OR absent = 1",
        "weight * 2 + 1 = 11",
        "-weight < 0",
        "- -weight = 5",
        "weight - 2 - 1 = 2",
        "7 / 2 = 3",
        "-7 / 2 = -3",
        "7 / 2.0 = 3.5",
        "weight + 2 * 3 = 11 and (weight + 2) * 3 = 21",
        "0x1F = 31 AND 017 = 15 AND 5L = 5 AND 1e3 = 1000 AND .5 < 1. AND 2f = 2d",
        "nested.inner.x = 1",
        "\"x-odd.name\" = 'odd'",
        "nested.list IS NOT NULL",
        "amqp.routing_key LIKE 'a.%'",
        "amqp.exchange = 'logs'",
        "amqp.size = 4",
        "amqp.content_type = 'text/plain'",
        "amqp.priority > 5 AND JMSPriority = 7",
        "JMSTimestamp >= 1700000000000 AND amqp.timestamp = 1700000000",
        "JMSType = 'order' AND JMSDeliveryMode = 'PERSISTENT'",
        "amqp.redelivered = FALSE",
        "TRUE",
        "weight = -9223372036854775808 OR TRUE",
        "weight between 1 and 9 aNd colour in ('red')",
    ],
)
def test_matches(selector: str) -> None:
    assert Selector(selector).matches(MESSAGE)


@pytest.mark.parametrize(
    "selector",
    [
        "colour = 'blue'",
        "Colour = 'red'",  # names are told apart by case
        "colour = 5",  # values of different kinds are not equal,
        "colour <> 5",  # nor unequal
        "NOT absent = 1",
        "absent <> 1",
        "absent NOT IN ('a')",
        "absent NOT LIKE 'a'",
        "absent NOT BETWEEN 1 AND 2",
        "weight / 0 = 1 OR weight / 0 <> 1",
        "colour + 1 = 2",
        "colour LIKE 'r'",
        "colour LIKE 'r_'",
        "colour",  # a text is not a condition
        "NOT colour",
        "weight LIKE '5'",
        "nested.inner = 1",
        "nested.list = 1 OR nested.list <> 1",
        "colour.length = 3",
        "urgent = 1",
        "FALSE",
        "amqp.redelivered",
        "colour > weight",
    ],
)
def test_does_not_match(selector: str) -> None:
    assert not Selector(selector).matches(MESSAGE)


def test_redelivered() -> None:
    assert Selector("amqp.redelivered AND JMSRedelivered").matches(MESSAGE, redelivered=True)


@pytest.mark.parametrize("headers", [None, {}])
def test_a_message_without_headers(headers: dict[str, object] | None) -> None:
    assert Selector("colour IS NULL AND amqp.size = 4").matches(message_with(headers))


def test_nothing_is_left_of_the_message_before() -> None:
    selector = Selector("colour = 'red'")
    assert selector.matches(MESSAGE)
    assert not selector.matches(message_with({"other": 1}))
    assert not selector.matches(message_with(None))


@pytest.mark.parametrize(
    ("selector", "problem", "at"),
    [
        ("", "it is empty", 0),
        ("   ", "it is empty", 3),
        ("colour = ", "it ends where a value was expected", 9),
        ("colour = 'red", "a text without its closing quote", 9),
        ('"colour = 1', "a quoted name without its closing quote", 0),
        ("colour == 'red'", "'=' stands where a value was expected", 8),
        ("colour = 'red' AND", "it ends where a value was expected", 18),
        ("colour ! 1", "unexpected '!'", 7),
        ("(colour = 'red'", "')' is missing", 15),
        ("colour = 'red')", "')' was not expected", 14),
        ("colour < 'red'", "only numbers are compared", 9),
        ("weight BETWEEN 1", "'AND' is missing", 16),
        ("weight BETWEEN 'a' AND 'b'", "a number was expected", 15),
        ("colour IN (1)", "a text in single quotes was expected", 11),
        ("colour IN ()", "a text in single quotes was expected", 11),
        ("colour LIKE 5", "a text in single quotes was expected", 12),
        ("colour LIKE 'a' ESCAPE 'bb'", "ESCAPE takes one character", 23),
        ("colour LIKE 'ab' ESCAPE 'b'", "ends with its escape", 24),
        ("5 IS NULL", "IS NULL asks about a name", 0),
        ("colour NOT NULL", "BETWEEN, IN or LIKE was expected", 11),
        ("1 + 1", "a condition was expected", 0),
        ("'red'", "a condition was expected", 0),
        ("colour = 'a' AND 5", "AND joins conditions", 17),
        ("NOT 5", "NOT stands before a condition", 4),
        ("99999999999999999999 = weight", "more than 64 bits", 0),
        ("9223372036854775808 = weight", "more than 64 bits", 0),
        ("09 = weight", "no octal number", 0),
        ("amqp.colour = 1", "there is no 'amqp.colour'", 0),
        ("JMSDestination = 'x'", "'JMSDestination' cannot be asked for", 0),
        ("(" * 65 + "TRUE" + ")" * 65, "nested more than 64 deep", 65),
        ("NOT " * 65 + "TRUE", "nested more than 64 deep", 260),
        ("weight" + " + 1" * 65 + " = 1", "nested more than 64 deep", 267),
        ("a = '" + "x" * 9000 + "'", "longer than 8192 octets", 0),
        ("a LIKE '" + "x" * 1025 + "'", "more than 1024 characters", 8),
        (" OR ".join(f"h{i} = 1" for i in range(17)), "names 17 headers", 0),
        ("colour = NULL", "'NULL' stands where a value was expected", 9),
        ('"' + "x" * 256 + '" = 1', "no header can have a name like that", 1),
        ('"\ud800" = 1', "no header can have a name like that", 1),
    ],
)
def test_refused_with_the_place_of_the_mistake(selector: str, problem: str, at: int) -> None:
    with pytest.raises(SelectorError) as refused:
        Selector(selector)
    assert problem in str(refused.value)
    assert refused.value.at == at


# -- random conditions, beside SQLite

NUMBERS, TEXTS, TRUTHS = ("n1", "n2", "n3"), ("t1", "t2"), ("b1", "b2")
short_text = st.text(alphabet="ab%_", max_size=4)
number_values = st.one_of(st.integers(-20, 20), st.sampled_from([0.5, -1.5, 2.0]))
literals = st.one_of(number_values).map(lambda value: f"({value})" if value < 0 else str(value))
numeric = st.recursive(
    st.one_of(literals, st.sampled_from(NUMBERS)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda part: f"(- {part})"),
    ),
    max_leaves=5,
)
quoted = short_text.map(lambda text: f"'{text}'")
comparisons = st.tuples(numeric, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), numeric).map(" ".join)
text_comparisons = st.tuples(
    st.sampled_from(TEXTS), st.sampled_from(["=", "<>"]), st.one_of(quoted, st.sampled_from(TEXTS))
).map(" ".join)
negation = st.sampled_from(["", "NOT "])
betweens = st.tuples(numeric, negation, numeric, numeric).map(
    lambda parts: f"{parts[0]} {parts[1]}BETWEEN {parts[2]} AND {parts[3]}"
)
ins = st.tuples(st.sampled_from(TEXTS), negation, st.lists(quoted, min_size=1, max_size=3)).map(
    lambda parts: f"{parts[0]} {parts[1]}IN ({', '.join(parts[2])})"
)
likes = st.tuples(st.sampled_from(TEXTS), negation, quoted).map(
    lambda parts: f"{parts[0]} {parts[1]}LIKE {parts[2]}"
)
nulls = st.tuples(st.sampled_from(NUMBERS + TEXTS + TRUTHS), negation).map(
    lambda parts: f"{parts[0]} IS {parts[1]}NULL"
)
predicates = st.one_of(
    comparisons, text_comparisons, betweens, ins, likes, nulls, st.sampled_from([*TRUTHS, "TRUE", "FALSE"])
)
conditions = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda part: f"NOT ({part})"),
    ),
    max_leaves=8,
)
assignments = st.fixed_dictionaries(
    {
        **{name: st.one_of(st.none(), number_values) for name in NUMBERS},
        **{name: st.one_of(st.none(), short_text) for name in TEXTS},
        **{name: st.one_of(st.none(), st.booleans()) for name in TRUTHS},
    }
)


@pytest.fixture(scope="module")
def sqlite() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like = ON")
    yield connection
    connection.close()


@settings(max_examples=1000, deadline=None)
@given(condition=conditions, values=assignments)
def test_random_conditions(sqlite: sqlite3.Connection, condition: str, values: dict[str, object]) -> None:
    columns = ", ".join(f"? AS {name}" for name in values)
    (answer,) = sqlite.execute(
        f"SELECT {condition} FROM (SELECT {columns})", tuple(values.values())
    ).fetchone()
    headers = {name: value for name, value in values.items() if value is not None}
    # The condition and its opposite: what is unknown fits neither.
    assert Selector(condition).matches(message_with(headers)) is (answer == 1)
    assert Selector(f"NOT ({condition})").matches(message_with(headers)) is (answer == 0)


words = [
    "a",
    "1",
    "'x'",
    "AND",
    "OR",
    "NOT",
    "(",
    ")",
    "=",
    "<>",
    "+",
    "-",
    "IN",
    "LIKE",
    "BETWEEN",
    "IS",
    "NULL",
    ",",
    ".",
]
nonsense = st.lists(st.sampled_from(words), max_size=12).map(" ".join)


@settings(max_examples=500, deadline=None)
@given(text=st.one_of(st.text(max_size=40), nonsense))
def test_anything_is_taken_or_refused(text: str) -> None:
    try:
        selector = Selector(text)
    except SelectorError:
        return
    assert selector.matches(MESSAGE) in (True, False)
