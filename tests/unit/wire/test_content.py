"""A Peek sees what the whole decoder sees, and refuses what that refuses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import SyntaxFault
from embermq.wire.content import ABSENT, TRANSIENT, Peek
from embermq.wire.properties import Properties
from embermq.wire.table import decode_table
from tests.support import wire_strategies as strategies

MORE_FLAGS = 0x0001  # a further word of flags follows; class basic has no use for one


def decoded(data: bytes) -> Properties | None:
    try:
        return Properties.decode(data, 0, len(data))
    except SyntaxFault:
        return None


def check_against_decoder(data: bytes, before: bytes = b"", after: bytes = b"") -> None:
    """Peek at `data` in the midst of other bytes and compare with the decoder's view of it alone."""
    whole = decoded(data)
    if len(data) >= 2 and data[1] & MORE_FLAGS:
        whole = None  # the decoder takes an empty second word of flags, the broker does not
    buf = bytearray(before + data + after)
    peek = Peek()
    try:
        peek.read(buf, len(before), len(before) + len(data))
    except SyntaxFault:
        assert whole is None
        return
    assert whole is not None, "the decoder refuses what the peek accepts"
    assert peek.delivery_mode == (TRANSIENT if whole.delivery_mode is None else whole.delivery_mode)
    assert peek.priority == (whole.priority or 0)
    assert shortstr(buf, peek.expiration_at) == whole.expiration
    assert shortstr(buf, peek.user_id_at) == whole.user_id
    if whole.headers is None:
        assert peek.headers_at == ABSENT
    else:
        assert repr(decode_table(buf, peek.headers_at, len(buf))[0]) == repr(whole.headers)


def shortstr(buf: bytearray, at: int) -> str | None:
    return None if at == ABSENT else buf[at + 1 : at + 1 + buf[at]].decode("utf-8", "surrogateescape")


@given(properties=strategies.properties, before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_well_formed_properties(properties: Properties, before: bytes, after: bytes) -> None:
    check_against_decoder(properties.encode(), before, after)


@given(properties=strategies.properties, data=st.data())
def test_truncations_and_additions(properties: Properties, data: st.DataObject) -> None:
    whole = properties.encode()
    cut_at = data.draw(st.integers(0, len(whole) - 1))
    check_against_decoder(whole[:cut_at], after=whole[cut_at:])
    check_against_decoder(whole + data.draw(st.binary(min_size=1, max_size=4)))


@given(properties=strategies.properties, data=st.data())
def test_mutations(properties: Properties, data: st.DataObject) -> None:
    whole = bytearray(properties.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    check_against_decoder(bytes(whole))


@given(flags=st.integers(0, 65535), rest=st.binary(max_size=200))
def test_garbage(flags: int, rest: bytes) -> None:
    check_against_decoder(flags.to_bytes(2, "big") + rest)


@given(first=strategies.properties, second=strategies.properties)
def test_a_peek_remembers_nothing_of_the_message_before(first: Properties, second: Properties) -> None:
    used, fresh = Peek(), Peek()
    for peek, several in ((used, (first, second)), (fresh, (second,))):
        for properties in several:
            data = bytearray(properties.encode())
            peek.read(data, 0, len(data))
    names = ("delivery_mode", "expiration_at", "headers_at", "priority", "user_id_at")
    assert [getattr(used, name) for name in names] == [getattr(fresh, name) for name in names]
