"""Header patterns: all, any, with x, and what counts as equal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.exchange.headers import HeadersPattern
from embermq.errors import PreconditionFailed

names = st.sampled_from(["a", "b", "x-c", "x-d"])
scalars = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "1", "v"])
tables = st.dictionaries(names, scalars, max_size=4)
modes = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


@given(arguments=tables, mode=modes, headers=tables)
def test_patterns_match_as_defined(
    arguments: dict[str, object], mode: str | None, headers: dict[str, object]
) -> None:
    given_arguments = arguments if mode is None else arguments | {"x-match": mode}
    asked = {
        name: value
        for name, value in arguments.items()
        if (mode or "").endswith("with-x") or not name.startswith("x-")
    }
    hits = [
        name in headers and (value is None or (type(value) is type(headers[name]) and value == headers[name]))
        for name, value in asked.items()
    ]
    expected = any(hits) if (mode or "all").startswith("any") else all(hits)
    assert HeadersPattern(given_arguments).matches(headers) == expected


def test_no_arguments_at_all() -> None:
    assert HeadersPattern({}).matches({}) and HeadersPattern({}).matches({"a": 1})
    assert not HeadersPattern({"x-match": "any"}).matches({"a": 1})


def test_x_match_itself_is_never_looked_for() -> None:
    assert HeadersPattern({"x-match": "all-with-x", "x-a": 1}).matches({"x-a": 1})


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
        (
            "some",
            'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        ),
    ],
)
def test_wrong_modes_are_refused(mode: object, sentence: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        HeadersPattern({"x-match": mode})
    assert refusal.value.detail == sentence
