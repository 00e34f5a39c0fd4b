"""From a client's response to a name and a password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.amqp.connection.sasl import (
    AMQPlain,
    Anonymous,
    Challenge,
    Credentials,
    External,
    LoginContext,
    LoginFailed,
    Plain,
    Proven,
    mechanism,
    offered,
)
from embermq.amqp.connection.scram import Scram, keys_of_nobody
from embermq.errors import SyntaxFault
from embermq.wire.table import encode_table

words = st.binary(max_size=20).filter(lambda data: b"\0" not in data)


@given(identity=words, name=words, password=words)
def test_plain(identity: bytes, name: bytes, password: bytes) -> None:
    answer = Plain().respond(b"\0".join([identity, name, password]))
    assert answer == Credentials(name.decode("utf-8", "surrogateescape"), password)


@given(name=st.text(max_size=20), password=st.text(max_size=20))
def test_amqplain(name: str, password: str) -> None:
    table = encode_table({"LOGIN": name, "PASSWORD": password, "more": 1})[4:]
    assert AMQPlain().respond(table) == Credentials(name, password.encode())


@pytest.mark.parametrize("kind", [Plain, AMQPlain])
def test_no_response_yet_is_asked_for_once(kind: type[Plain | AMQPlain]) -> None:
    login = kind()
    assert login.respond(b"") == Challenge(b"")
    with pytest.raises(LoginFailed, match="no response"):
        login.respond(b"")


def test_a_certificate_names_the_user_and_nobody_else() -> None:
    login = External("anna")
    assert login.respond(b"") == login.respond(b"anna") == login.respond(b"anna\0") == Proven("anna")
    with pytest.raises(LoginFailed, match="the certificate is that of 'anna'"):
        login.respond(b"guest")


def test_anybody_is_the_anonymous_user() -> None:
    assert Anonymous("visitor").respond(b"somebody@example.org") == Proven("visitor")


def test_only_what_can_work_is_offered() -> None:
    every = ("PLAIN", "AMQPLAIN", "EXTERNAL", "SCRAM-SHA-256", "ANONYMOUS")
    assert offered(every, LoginContext()) == ["PLAIN", "AMQPLAIN"]
    known = LoginContext("anna", "visitor", keys_of_nobody)
    assert offered(every, known) == list(every)
    assert offered(("EXTERNAL",), known) == ["EXTERNAL"]
    kinds = [type(mechanism(name, known)) for name in every]
    assert kinds == [Plain, AMQPlain, External, Scram, Anonymous]


@pytest.mark.parametrize("response", [b"\0", b"guest", b"\0guest", b"\0guest\0guest\0"])
def test_plain_that_is_not_three_parts(response: bytes) -> None:
    with pytest.raises(SyntaxFault):
        Plain().respond(response)


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
        AMQPlain().respond(response)


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Credentials("guest", b"secret"))
