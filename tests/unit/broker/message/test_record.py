"""A message comes back out of the payload of its record, whole or cut, and where its parts stand is found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.message.message import Message
from embermq.broker.message.record import body_size, content_at, header_size_at, message_of, record_parts
from embermq.broker.message.rewrite import names_of
from embermq.store.log.peek import RecordPreview
from embermq.wire.frame import content_header
from embermq.wire.properties import Properties

names = st.text(st.characters(codec="ascii"), max_size=60)
bodies = st.binary(max_size=300)


@given(names, names, bodies, st.integers(0, 255), st.booleans(), st.binary(max_size=40), st.integers(0, 350))
def test_a_message_comes_back(
    exchange: str, key: str, body: bytes, priority: int, persistent: bool, before: bytes, body_bytes: int
) -> None:
    properties = Properties(expiration="5000", headers={"key": "é" * priority})
    header = content_header(len(body), properties.encode())
    message = Message(names_of(exchange, key), header + body, len(header), persistent, priority, 0)
    payload = b"".join(record_parts(message))
    found = message_of(payload, 1 if persistent else 0)
    assert (found.exchange, found.routing_key, found.content) == (exchange, key, header + body)
    assert (found.priority, found.persistent, found.ttl_ms) == (priority, persistent, 5000)
    at = content_at(before + payload, len(before))
    assert header_size_at(before + payload, len(before)) == len(header)
    assert (before + payload)[at:] == header + body
    cut = message_of(payload[: len(payload) - len(body) + body_bytes // 2], 0, body_bytes)
    assert cut.content == header + body[: body_bytes // 2]
    assert body_size(RecordPreview(1, 0, 0, payload[: at - len(before)], len(payload))) == len(body)


def test_a_header_that_is_cut_has_no_expiration() -> None:
    header = content_header(0, Properties(expiration="5000").encode())
    payload = b"".join(record_parts(Message(names_of("", "q"), header, len(header), True, 0, 0)))
    assert message_of(payload[:-2], 1).ttl_ms == -1
