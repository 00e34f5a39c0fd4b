"""SASL mechanisms: from a client's response to a name and a password.

A mechanism answers a `Challenge` (sent as connection.secure) or `Credentials`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from embermq.errors import SyntaxFault
from embermq.wire.table import decode_table


@dataclass(frozen=True)
class Challenge:
    data: bytes


@dataclass(frozen=True)
class Credentials:
    user: str
    password: bytes = field(repr=False)


Answer = Challenge | Credentials


def plain(response: bytes) -> Answer:
    """PLAIN: authorisation id, name and password, divided by NULs; no response yet is asked for."""
    if not response:
        return Challenge(b"")
    parts = response.split(b"\x00")
    if len(parts) != 3:
        raise SyntaxFault("a PLAIN response that is not three parts")
    return Credentials(parts[1].decode("utf-8", "surrogateescape"), parts[2])


def amqplain(response: bytes) -> Answer:
    """AMQPLAIN: a field table without its length, with LOGIN and PASSWORD."""
    if not response:
        return Challenge(b"")
    data = len(response).to_bytes(4, "big") + response
    table, _ = decode_table(data, 0, len(data))
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(login, str) or not isinstance(password, str):
        raise SyntaxFault("an AMQPLAIN response without LOGIN and PASSWORD")
    return Credentials(login, password.encode("utf-8", "surrogateescape"))


MECHANISMS: dict[str, Callable[[bytes], Answer]] = {"PLAIN": plain, "AMQPLAIN": amqplain}
