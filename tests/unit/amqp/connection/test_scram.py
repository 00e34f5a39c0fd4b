"""SCRAM-SHA-256: proofs that fit, proofs that do not, and what is no proof at all."""

from __future__ import annotations

import pytest

from embermq.amqp.connection.sasl import Challenge, LoginFailed, Proven
from embermq.amqp.connection.scram import NONCE_CHARACTERS_MAX, Scram, keys_of_nobody
from embermq.broker.security.password import ScramKeys
from embermq.errors import SyntaxFault
from tests.support.scram_client import ScramClient

KEYS = ScramKeys.derive(b"pencil", b"salt of sixteen!", 4096)


def keys_of(name: str) -> ScramKeys:
    return KEYS if name == "a,b=c" else keys_of_nobody(name)


def asked(server: Scram, client: ScramClient) -> bytes:
    answer = server.respond(client.first)
    assert isinstance(answer, Challenge)
    return answer.data


def test_who_knows_the_password_is_believed_and_learns_that_the_server_knows_it() -> None:
    server, client = Scram(keys_of), ScramClient("a,b=c", "pencil")
    answer = server.respond(client.final(asked(server, client)))
    assert answer == Challenge(client.expected)
    assert server.respond(b"") == Proven("a,b=c")


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    import base64

    keys = ScramKeys.derive(b"pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    server = Scram(lambda name: keys)
    assert isinstance(server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"), Challenge)
    server.nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    server.dialogue = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={server.nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = f"c=biws,r={server.nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    assert server.respond(proof) == Challenge(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(("user", "password"), [("a,b=c", "pen"), ("nobody", "pencil"), ("a,b=c", "")])
def test_who_does_not_is_refused_at_the_proof(user: str, password: str) -> None:
    server, client = Scram(keys_of), ScramClient(user, password)
    with pytest.raises(LoginFailed, match="invalid credentials"):
        server.respond(client.final(asked(server, client)))


def test_a_user_who_does_not_exist_looks_like_any_other() -> None:
    one, two = keys_of_nobody("x"), keys_of_nobody("x")
    assert (one.salt, one.iterations) == (two.salt, two.iterations)
    assert keys_of_nobody("y").salt != one.salt


def test_a_proof_cannot_be_used_again() -> None:
    server, client = Scram(keys_of), ScramClient("a,b=c", "pencil")
    proof = client.final(asked(server, client))
    again = Scram(keys_of)
    asked(again, client)
    with pytest.raises(LoginFailed, match="another conversation"):
        again.respond(proof)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"n,",
        b"n,,",
        b"p=tls-unique,,n=a,r=b",
        b"n,a=other,n=a,r=b",
        b"n,,r=b,n=a",
        b"n,,n=a,r=",
        b"n,,n=a,r=" + b"x" * (NONCE_CHARACTERS_MAX + 1),
        b"n,,m=ext,n=a,r=b",
        b"\xff\xfe",
    ],
)
def test_first_words_that_are_none(first: bytes) -> None:
    with pytest.raises(SyntaxFault):
        Scram(keys_of).respond(first)


@pytest.mark.parametrize(
    ("end", "kind"), [(b"p=!", SyntaxFault), (b"p=AAAA", LoginFailed), (b"", LoginFailed)]
)
def test_proofs_that_are_none(end: bytes, kind: type[Exception]) -> None:
    server, client = Scram(keys_of), ScramClient("a,b=c", "pencil")
    proof = client.final(asked(server, client))
    with pytest.raises(kind):
        server.respond(proof[: proof.index(b"p=")] + end)


def test_nothing_follows_the_end() -> None:
    server, client = Scram(keys_of), ScramClient("a,b=c", "pencil")
    server.respond(client.final(asked(server, client)))
    with pytest.raises(SyntaxFault):
        server.respond(b"more")
