"""From a client's response to a name and a password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.amqp.sasl import MECHANISMS, Challenge, Credentials, amqplain, plain
from embermq.errors import SyntaxFault
from embermq.wire.table import encode_table

words = st.binary(max_size=20).filter(lambda data: b"\0" not in data)


@given(identity=words, name=words, password=words)
def test_plain(identity: bytes, name: bytes, password: bytes) -> None:
    answer = plain(b"\0".join([identity, name, password]))
    assert answer == Credentials(name.decode("utf-8", "surrogateescape"), password)


@given(name=st.text(max_size=20), password=st.text(max_size=20))
def test_amqplain(name: str, password: str) -> None:
    table = encode_table({"LOGIN": name, "PASSWORD": password, "more": 1})[4:]
    assert amqplain(table) == Credentials(name, password.encode())


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_no_response_yet_is_asked_for(mechanism: object) -> None:
    assert callable(mechanism)
    assert mechanism(b"") == Challenge(b"")


@pytest.mark.parametrize("response", [b"\0", b"guest", b"\0guest", b"\0guest\0guest\0"])
def test_plain_that_is_not_three_parts(response: bytes) -> None:
    with pytest.raises(SyntaxFault):
        plain(response)


@pytest.mark.parametrize(
    "response",
    [
        encode_table({"LOGIN": "guest"})[4:],
        encode_table({"PASSWORD": "guest"})[4:],
        encode_table({"LOGIN": 1, "PASSWORD": "guest"})[4:],
        encode_table({"LOGIN": "guest", "PASSWORD": None})[4:],
        encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:-1],
        b"garbage",
    ],
)
def test_amqplain_without_what_it_needs(response: bytes) -> None:
    with pytest.raises(SyntaxFault):
        amqplain(response)


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Credentials("guest", b"secret"))
