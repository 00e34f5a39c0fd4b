"""Logging in by SCRAM: what the client says, and which brokers it does not believe."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from embermq.client.core.login import ITERATIONS_MAX, Scram
from embermq.client.errors import AuthenticationFailed
from embermq.wire.methods import (
    ConnectionOpen,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
)
from tests.support.scripted_broker import Script

SALT, ITERATIONS = b"0123456789abcdef", 4096


class Server:
    """The broker's half, written from RFC 5802; knows the password itself."""

    def __init__(self, first: bytes, password: str) -> None:
        assert first.startswith(b"n,,n=")
        self.bare = first[3:].decode()
        self.nonce = self.bare.partition(",r=")[2] + "server"
        self.salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS)
        self.question = f"r={self.nonce},s={base64.b64encode(SALT).decode()},i={ITERATIONS}"

    def signature(self, final: bytes) -> bytes:
        """To a proof, which must be right."""
        without_proof, _, proof = final.decode().rpartition(",p=")
        assert without_proof == f"c=biws,r={self.nonce}"
        dialogue = f"{self.bare},{self.question},{without_proof}".encode()
        key = hmac.digest(self.salted, b"Client Key", "sha256")
        mask = hmac.digest(hashlib.sha256(key).digest(), dialogue, "sha256")
        assert base64.b64decode(proof) == bytes(a ^ b for a, b in zip(key, mask, strict=True))
        server_key = hmac.digest(self.salted, b"Server Key", "sha256")
        return b"v=" + base64.b64encode(hmac.digest(server_key, dialogue, "sha256"))


def test_the_example_of_the_rfc() -> None:
    login = Scram("user", "pencil")
    login.nonce = "rOprNGfwEbeRWgbNEkqO"
    login.introduction = f"n=user,r={login.nonce}"
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    question = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert login.answer(question) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert login.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") == b""
    login.accepted()


def test_both_sides_prove_that_they_know_the_password() -> None:
    script = Script(username="a,b=c", password="pencil", mechanism="SCRAM-SHA-256")
    script.engine.start()
    script.answer(0, ConnectionStart(mechanisms=b"PLAIN SCRAM-SHA-256"))
    [start_ok] = script.heard_methods(0)
    assert isinstance(start_ok, ConnectionStartOk)
    assert b"pencil" not in start_ok.response
    assert start_ok.response.startswith(b"n,,n=a=2Cb=3Dc,r=")
    server = Server(start_ok.response, "pencil")
    script.answer(0, ConnectionSecure(server.question.encode()))
    [proof] = script.heard_methods(0)
    assert isinstance(proof, ConnectionSecureOk)
    script.answer(0, ConnectionSecure(server.signature(proof.response)))
    [thanks] = script.heard_methods(0)
    assert isinstance(thanks, ConnectionSecureOk) and thanks.response == b""
    script.answer(0, ConnectionTune(100, 4096, 60))
    assert any(isinstance(method, ConnectionOpen) for method in script.heard_methods(0))
    assert script.end is None


def asked(password: str = "pencil") -> tuple[Script, Server]:
    """A client that has said who it is."""
    script = Script(username="anna", password="pencil", mechanism="SCRAM-SHA-256")
    script.engine.start()
    script.answer(0, ConnectionStart(mechanisms=b"SCRAM-SHA-256"))
    [start_ok] = script.heard_methods(0)
    assert isinstance(start_ok, ConnectionStartOk)
    return script, Server(start_ok.response, password)


def test_a_broker_with_the_wrong_signature_is_not_believed() -> None:
    script, server = asked()
    script.answer(0, ConnectionSecure(server.question.encode()))
    script.heard()
    script.answer(0, ConnectionSecure(b"v=" + base64.b64encode(bytes(32))))
    assert isinstance(script.end, AuthenticationFailed)
    assert "the broker's SCRAM signature is wrong" in str(script.end)
    assert script.heard() == []


@pytest.mark.parametrize("after_the_question", [False, True])
def test_a_broker_that_lets_us_in_without_a_signature_is_not_believed(after_the_question: bool) -> None:
    script, server = asked()
    if after_the_question:
        script.answer(0, ConnectionSecure(server.question.encode()))
        script.heard()
    script.answer(0, ConnectionTune(100, 4096, 60))
    assert isinstance(script.end, AuthenticationFailed)
    assert "without its SCRAM signature" in str(script.end)
    assert script.heard() == [], "nothing is opened there"


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (b"", "not an answer of SCRAM"),
        (b"\xff\xfe", "not an answer of SCRAM"),
        (b"r=other,s=AAAA,i=4096", "another conversation"),
        (b"r={nonce},s=AAAA,i=4096", "another conversation"),  # the broker added nothing of its own
        (b"r={nonce}x,s=AAAA,i=100", "asks for 100 SCRAM rounds"),
        (b"r={nonce}x,s=AAAA,i=%d" % (ITERATIONS_MAX + 1), "SCRAM rounds"),
        (b"r={nonce}x,s=!,i=4096", "not an answer of SCRAM"),
        (b"r={nonce}x,i=4096", "not an answer of SCRAM"),
        (b"r={nonce}x,s=AAAA,i=many", "not an answer of SCRAM"),
    ],
)
def test_questions_that_make_no_sense(question: bytes, problem: str) -> None:
    script, server = asked()
    nonce = server.nonce.removesuffix("server").encode()
    script.answer(0, ConnectionSecure(question.replace(b"{nonce}", nonce)))
    assert isinstance(script.end, AuthenticationFailed)
    assert problem in str(script.end)
    assert script.heard() == []


def test_an_error_instead_of_a_signature() -> None:
    script, server = asked()
    script.answer(0, ConnectionSecure(server.question.encode()))
    script.answer(0, ConnectionSecure(b"e=invalid-proof"))
    assert "refused the SCRAM proof: invalid-proof" in str(script.end)
