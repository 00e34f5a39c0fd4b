"""The PROXY protocol: from trusted addresses, and from nobody else."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from embermq.net.proxy_protocol import SIGNATURE_2, Peer, ProxyError, is_trusted, networks, parse
from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER, method_frame
from tests.access.tenant import ask, make_user
from tests.hostile.peers import Peer as RawPeer
from tests.support.pika_client import eventually
from tools.brokers import EmberBroker

V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 50001 5672\r\n"
V2 = SIGNATURE_2 + b"\x21\x11" + struct.pack(">H", 12 + 5) + bytes([192, 0, 2, 7, 198, 51, 100, 1])
V2 += struct.pack(">HH", 50001, 5672) + b"\x04\x00\x02ab"
CLIENT = Peer("192.0.2.7", 50001, "198.51.100.1", 5672)


@pytest.fixture(scope="module")
def behind() -> Iterator[EmberBroker]:
    """A broker that takes one address of this machine for a proxy."""
    with EmberBroker(env={"EMBERMQ_PROXY_TRUSTED": "127.0.0.2/32, ::1"}) as broker:
        make_user(broker, "anna")
        yield broker


def from_proxy(broker: EmberBroker, beginning: bytes) -> socket.socket:
    sock = socket.create_connection((broker.host, broker.port), 10, source_address=("127.0.0.2", 0))
    sock.sendall(beginning)
    return sock


def login(user: str) -> bytes:
    start = methods.ConnectionStartOk(
        client_properties={"capabilities": {"authentication_failure_close": True}},
        mechanism="PLAIN",
        response=f"\0{user}\0{user}".encode(),
        locale="en_US",
    )
    tune = methods.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0)
    opening = [start, tune, methods.ConnectionOpen(virtual_host="/")]
    return PROTOCOL_HEADER + b"".join(method_frame(0, method) for method in opening)


def everything(sock: socket.socket) -> bytes:
    got = b""
    try:
        while data := sock.recv(4096):
            got += data
            if method_frame(0, methods.ConnectionOpenOk()) in got:
                break
    except ConnectionError:
        pass
    return got


@pytest.mark.parametrize("header", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize("cuts", [False, True])
def test_the_client_behind_a_proxy_is_the_client(behind: EmberBroker, header: bytes, cuts: bool) -> None:
    if cuts:
        sock = from_proxy(behind, header[:9])
        sock.sendall(header[9:20])
        sock.sendall(header[20:])
        sock.sendall(login("anna"))
    else:
        sock = from_proxy(behind, header + login("anna"))
    with sock:
        assert method_frame(0, methods.ConnectionOpenOk()) in everything(sock)
        names = [each["name"] for each in ask(behind, "GET", "connections").json]
        assert names == ["192.0.2.7:50001 -> 198.51.100.1:5672"]
    eventually(lambda: ask(behind, "GET", "connections").json == [])


def test_guest_is_not_local_because_the_proxy_is(behind: EmberBroker) -> None:
    with from_proxy(behind, V1 + login("guest")) as sock:
        assert b"ACCESS_REFUSED - Login was refused" in everything(sock)
    with from_proxy(behind, b"PROXY UNKNOWN\r\n" + login("guest")) as sock:  # the proxy itself
        assert method_frame(0, methods.ConnectionOpenOk()) in everything(sock)
    with from_proxy(behind, V1.replace(b"192.0.2.7", b"127.0.0.1") + login("guest")) as sock:
        assert method_frame(0, methods.ConnectionOpenOk()) in everything(sock)


@pytest.mark.parametrize(
    "beginning", [login("anna"), b"PROXY nonsense\r\n", b"PROXY TCP4 " + b"9" * 200, b"GET / "]
)
def test_a_proxy_that_does_not_say_who_it_brings_is_refused(behind: EmberBroker, beginning: bytes) -> None:
    with from_proxy(behind, beginning) as sock:
        assert everything(sock) == b""


def test_others_may_not_say_who_they_are(behind: EmberBroker) -> None:
    with socket.create_connection((behind.host, behind.port), 10) as sock:
        sock.sendall(V1 + login("guest"))
        assert everything(sock) == PROTOCOL_HEADER, "that is no AMQP"
    with RawPeer(behind) as peer:
        peer.open()


@pytest.mark.parametrize("header", [V1, V2], ids=["v1", "v2"])
def test_headers_are_read_when_they_are_whole(header: bytes) -> None:
    assert [parse(header[:end]) for end in range(1, len(header))] == [None] * (len(header) - 1)
    assert parse(header + b"AMQP") == (len(header), CLIENT)


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x01",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 70000 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 -1 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 000001999999 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 01 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2  1\r\n",
        b"PROXY TCP6 192.0.2.1 192.0.2.2 1 1\r\n",
        b"PROXY TCP4 ::1 ::2 1 1\r\n",
        b"PROXY TCP4 ::ffff:192.0.2.1 192.0.2.2 1 1\r\n",
        b"PROXY TCP4 example.org 192.0.2.2 1 1\r\n",
        b"PROXY TCP4 192.0.2.1\r\n",
        SIGNATURE_2 + b"\x31\x11\x00\x0c" + bytes(12),
        SIGNATURE_2 + b"\x21\x11\x00\x04" + bytes(4),
        SIGNATURE_2 + b"\x21\x11\xff\xff" + bytes(12),
    ],
)
def test_headers_that_are_none(header: bytes) -> None:
    with pytest.raises(ProxyError):
        parse(header)


def test_six_and_local() -> None:
    addresses = bytes(15) + b"\x01" + bytes(15) + b"\x02" + struct.pack(">HH", 1, 2)
    six = SIGNATURE_2 + b"\x21\x21" + struct.pack(">H", 36) + addresses
    assert parse(six) == (52, Peer("::1", 1, "::2", 2))
    assert parse(SIGNATURE_2 + b"\x20\x00\x00\x00") == (16, None)
    assert parse(b"PROXY TCP6 ::1 ::2 1 2\r\n") == (24, Peer("::1", 1, "::2", 2))


def test_trust() -> None:
    trusted = networks(["10.0.0.0/8", "192.0.2.1", "fe80::/10"])
    assert all(
        is_trusted(address, trusted)
        for address in ("10.1.2.3", "192.0.2.1", "::ffff:10.0.0.1", "fe80::1%eth0")
    )
    assert not any(is_trusted(address, trusted) for address in ("11.0.0.1", "192.0.2.2", "::1", "", "proxy"))
