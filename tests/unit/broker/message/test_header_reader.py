"""Some headers of messages, by name: what a decoded table says of them, for any table and any names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.message.header_reader import HeaderReader
from embermq.broker.message.rewrite import composed
from embermq.wire.properties import Properties

NAMES = st.sampled_from([f"h{number}" for number in range(100)])
VALUES = st.one_of(
    st.integers(-9, 9), st.text("ab", max_size=3), st.booleans(), st.none(), st.lists(st.text("a"))
)


@given(
    headers=st.none() | st.dictionaries(NAMES, VALUES),
    names=st.lists(NAMES, unique=True),
    content_type=st.none() | st.just("text/plain"),
    content_encoding=st.none() | st.just("gzip"),
)
def test_what_is_asked_for_is_read(
    headers: dict[str, object] | None,
    names: list[str],
    content_type: str | None,
    content_encoding: str | None,
) -> None:
    properties = Properties(content_type=content_type, content_encoding=content_encoding, headers=headers)
    message = composed("", "", properties, b"body")
    found = HeaderReader(tuple(names)).read(message.content, message.header_size)
    assert {name: value for name, value in found.items() if name in names} == {
        name: value for name, value in (headers or {}).items() if name in names
    }
