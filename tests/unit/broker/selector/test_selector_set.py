"""A set of selectors finds those that fit, as asking each of them does, however they come and go."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.broker.message.message import Message
from embermq.broker.selector.selector import Selector
from embermq.broker.selector.selector_set import SelectorSet
from embermq.wire.frame import content_header
from embermq.wire.properties import Properties

VALUES = ("'red'", "'5'", "5", "5.0", "TRUE", "1")
DEMANDS = [f"{name} = {value}" for name in ("colour", "weight", "address.city") for value in VALUES]
SELECTORS = st.sampled_from(
    [
        *DEMANDS,
        *(f"({demand}) AND weight > 3" for demand in DEMANDS),
        *(f"5 = {name}" for name in ("colour", "weight")),
        "colour IN ('red', 'blue')",
        "weight IS NULL AND colour NOT IN ('red')",
        "colour LIKE 'r%' OR weight = 5",
        "NOT colour = 'red'",
        "amqp.routing_key = 'k'",
        "amqp.redelivered = TRUE",
        *(f"h{number} = 'red'" for number in range(40)),
    ]
)
HEADER = st.sampled_from(["red", "blue", "5", 5, 5.0, 1, True, False, None, 7, {"city": "red"}, {"city": 5}])
HEADERS = st.dictionaries(st.sampled_from(["colour", "weight", "address", "h3", "h39"]), HEADER)


def message_with(headers: dict[str, object]) -> Message:
    encoded = content_header(0, Properties(headers=headers).encode())
    return Message(b"\x00\x01k", encoded, len(encoded), False, 0, 0)


@given(
    added=st.lists(SELECTORS, max_size=50),
    removed=st.sets(st.integers(0, 49)),
    seen=st.lists(st.tuples(HEADERS, st.booleans()), min_size=1, max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_those_that_fit_are_found(
    added: list[str], removed: set[int], seen: list[tuple[dict[str, object], bool]]
) -> None:
    selectors = SelectorSet()
    for number, text in enumerate(added):
        selectors.add(Selector(text), number)
    for number in removed:
        if number < len(added):
            selectors.remove(number)
    for headers, redelivered in seen:
        message = message_with(headers)
        fitting = {
            number
            for number, text in enumerate(added)
            if number not in removed and Selector(text).matches(message, redelivered)
        }
        found = selectors.fitting(message, redelivered)
        assert set(found) == fitting
        assert len(found) == len(fitting)


def test_names_that_no_selector_uses_any_more_are_forgotten() -> None:
    selectors = SelectorSet()
    selectors.add(Selector("colour = 'red'"), "stays")
    for number in range(200):
        selectors.add(Selector(f"h{number} = 'red'"), number)
        selectors.remove(number)
    assert len(selectors.numbers) < 40
    assert selectors.fitting(message_with({"colour": "red"})) == ["stays"]
