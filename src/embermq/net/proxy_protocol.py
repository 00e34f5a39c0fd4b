"""The PROXY protocol (v1 and v2): what a proxy says about the client whose connection it passes on.

    v1   PROXY TCP4 192.0.2.1 198.51.100.1 50000 5672\r\n        at most 107 bytes
    v2   0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A | version, command | family | length | addresses, extensions

Only addresses that are trusted may say so, and they must: a trusted address without the header is
refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

SIGNATURE_2 = b"\r\n\r\n\x00\r\nQUIT\n"
PREFIX_1 = b"PROXY "
LINE_BYTES_MAX = 107
HEADER_2_BYTES = 16
HEADER_BYTES_MAX = 4096
LOCAL, PROXIED = 0x20, 0x21
FAMILIES = {0x11: (socket.AF_INET, 4), 0x21: (socket.AF_INET6, 16)}
FAMILIES_1 = {b"TCP4": ipaddress.IPv4Address, b"TCP6": ipaddress.IPv6Address}
PORT_MAX = 65535
PORT_DIGITS_MAX = 5

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Peer(NamedTuple):
    """The client's address, and the address it connected to."""

    host: str
    port: int
    local_host: str
    local_port: int


class ProxyError(Exception):
    """A connection from a proxy that does not begin as it must."""


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return any(ip in network for network in trusted)


def parse(data: bytes) -> tuple[int, Peer | None] | None:
    """How long the header is and which addresses it names (None: the proxy itself); None while it is not all
    there."""
    if data.startswith(SIGNATURE_2):
        return parse_2(data)
    if data.startswith(PREFIX_1):
        return parse_1(data)
    if SIGNATURE_2.startswith(data) or PREFIX_1.startswith(data):
        return None
    raise ProxyError("no PROXY header")


def parse_1(data: bytes) -> tuple[int, Peer | None] | None:
    end = data.find(b"\r\n", 0, LINE_BYTES_MAX)
    if end < 0:
        if len(data) >= LINE_BYTES_MAX:
            raise ProxyError("a PROXY line that does not end")
        return None
    fields = data[:end].split(b" ")
    if fields[1] == b"UNKNOWN":
        return end + 2, None
    if len(fields) != 6 or fields[1] not in FAMILIES_1:
        raise ProxyError("a PROXY line that is none")
    address = FAMILIES_1[fields[1]]
    try:
        hosts = [str(address(field.decode("ascii"))) for field in fields[2:4]]
        ports = [port(field) for field in fields[4:6]]
    except ValueError as error:
        raise ProxyError(f"a PROXY line without addresses: {error}") from None
    return end + 2, Peer(hosts[0], ports[0], hosts[1], ports[1])


def port(field: bytes) -> int:
    """As the protocol writes it: decimal, without zeros before it."""
    if not field.isdigit() or len(field) > PORT_DIGITS_MAX or (field[0] == ord("0") and len(field) > 1):
        raise ValueError(f"{field!r} is no port")
    number = int(field)
    if number > PORT_MAX:
        raise ValueError(f"{number} is no port")
    return number


def parse_2(data: bytes) -> tuple[int, Peer | None] | None:
    if len(data) < HEADER_2_BYTES:
        return None
    command, family = data[12], data[13]
    size = HEADER_2_BYTES + struct.unpack_from(">H", data, 14)[0]
    if command not in (LOCAL, PROXIED) or size > HEADER_BYTES_MAX:
        raise ProxyError("a PROXY header that is none")
    if len(data) < size:
        return None
    if command == LOCAL or family not in FAMILIES:
        return size, None
    kind, width = FAMILIES[family]
    if size < HEADER_2_BYTES + 2 * width + 4:
        raise ProxyError("a PROXY header without addresses")
    start = HEADER_2_BYTES
    hosts = [socket.inet_ntop(kind, data[start + i * width : start + (i + 1) * width]) for i in (0, 1)]
    ports = struct.unpack_from(">HH", data, start + 2 * width)
    return size, Peer(hosts[0], ports[0], hosts[1], ports[1])


async def read_header(sock: socket.socket) -> Peer | None:
    """Take the header off the socket, and not a byte of what follows: that may be TLS."""
    header = b""
    while True:
        await readable(sock)
        data = sock.recv(HEADER_BYTES_MAX, socket.MSG_PEEK)
        if not data:
            raise ProxyError("closed before the PROXY header")
        found = parse(header + data)
        if found is not None:
            sock.recv(found[0] - len(header))
            return found[1]
        header += sock.recv(len(data))  # all of it is header, for there is more to come


async def readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def arrived() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(sock, arrived)
    try:
        await future
    finally:
        loop.remove_reader(sock)
