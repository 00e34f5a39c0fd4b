"""SASL mechanisms: from a client's responses to a proven name, or to a name and a password to be checked.

A mechanism is made for one login and told each response of the client. It answers a `Challenge` (sent as
connection.secure), `Credentials` or a `Proven` name; or it raises `LoginFailed`, whose text is for the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from embermq.broker.security.password import ScramKeys
from embermq.errors import SyntaxFault
from embermq.wire.table import decode_table


@dataclass(frozen=True)
class Challenge:
    data: bytes


@dataclass(frozen=True)
class Credentials:
    user: str
    password: bytes = field(repr=False)


@dataclass(frozen=True)
class Proven:
    user: str


Answer = Challenge | Credentials | Proven


class LoginFailed(Exception):
    """Authentication failed; the user is the one that was claimed."""

    def __init__(self, user: str, problem: str) -> None:
        super().__init__(problem)
        self.user = user
        self.problem = problem


@dataclass(frozen=True)
class LoginContext:
    """What a mechanism may know besides the client's words."""

    certificate_name: str = ""  # out of the client's certificate, which TLS has checked
    anonymous_user: str = ""
    scram_keys: Callable[[str], ScramKeys] | None = None


class Mechanism(Protocol):
    def respond(self, response: bytes) -> Answer: ...


class Asking:
    """A mechanism of one response; a client that begins without is asked for it, once."""

    asked = False

    def respond(self, response: bytes) -> Answer:
        if response:
            return self.understood(response)
        if self.asked:
            raise LoginFailed("", "no response")
        self.asked = True
        return Challenge(b"")

    def understood(self, response: bytes) -> Answer:
        raise NotImplementedError


class Plain(Asking):
    """PLAIN: authorisation id, name and password, divided by NULs."""

    def understood(self, response: bytes) -> Answer:
        parts = response.split(b"\x00")
        if len(parts) != 3:
            raise SyntaxFault("a PLAIN response that is not three parts")
        return Credentials(parts[1].decode("utf-8", "surrogateescape"), parts[2])


class AMQPlain(Asking):
    """AMQPLAIN: a field table without its length, with LOGIN and PASSWORD."""

    def understood(self, response: bytes) -> Answer:
        data = len(response).to_bytes(4, "big") + response
        table, _ = decode_table(data, 0, len(data))
        login, password = table.get("LOGIN"), table.get("PASSWORD")
        if not isinstance(login, str) or not isinstance(password, str):
            raise SyntaxFault("an AMQPLAIN response without LOGIN and PASSWORD")
        return Credentials(login, password.encode("utf-8", "surrogateescape"))


class External:
    """EXTERNAL: TLS has checked the client's certificate, which names the user."""

    def __init__(self, certificate_name: str) -> None:
        self.name = certificate_name

    def respond(self, response: bytes) -> Answer:
        # An authorization identity may be given; it must be the user itself.
        wanted = response.rstrip(b"\x00").decode("utf-8", "surrogateescape")
        if wanted not in ("", self.name):
            raise LoginFailed(wanted, f"the certificate is that of {self.name!r}")
        return Proven(self.name)


class Anonymous:
    """ANONYMOUS: every client is the user that the configuration names; the response is only for the log."""

    def __init__(self, user: str) -> None:
        self.user = user

    def respond(self, response: bytes) -> Answer:
        return Proven(self.user)


def mechanism(name: str, context: LoginContext) -> Mechanism:
    from embermq.amqp.connection.scram import Scram  # few speak it

    if name == "SCRAM-SHA-256":
        assert context.scram_keys is not None
        return Scram(context.scram_keys)
    if name == "EXTERNAL":
        return External(context.certificate_name)
    if name == "ANONYMOUS":
        return Anonymous(context.anonymous_user)
    return Plain() if name == "PLAIN" else AMQPlain()


def offered(mechanisms: tuple[str, ...], context: LoginContext) -> list[str]:
    """Those of the configured mechanisms that can lead anywhere for this client."""
    possible = {
        "PLAIN": True,
        "AMQPLAIN": True,
        "SCRAM-SHA-256": context.scram_keys is not None,
        "EXTERNAL": bool(context.certificate_name),
        "ANONYMOUS": bool(context.anonymous_user),
    }
    return [name for name in mechanisms if possible[name]]
