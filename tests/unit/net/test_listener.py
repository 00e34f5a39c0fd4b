"""Sockets that listen: on which addresses, and with which options."""

from __future__ import annotations

import select
import socket

import pytest

from embermq.config import Config, ConfigError
from embermq.net.listener import open_sockets, set_options


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


def reaches(made: list[socket.socket], address: str, port: int) -> bool:
    """Does a connection to that address arrive at one of these? Another process may have the port there."""
    try:
        client = socket.create_connection((address, port), timeout=60)
    except OSError:
        return False
    with client:
        for sock in select.select(made, [], [], 1)[0]:
            sock.accept()[0].close()
            return True
    return False


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("127.0.0.1", {"127.0.0.1"}),
        ("0.0.0.0", {"127.0.0.1", "127.0.0.9"}),
        ("::1", {"::1"}),
        ("::", {"127.0.0.1", "127.0.0.9", "::1"}),
    ],
)
def test_addresses_to_listen_on(host: str, reached: set[str]) -> None:
    if ":" in host and not has_ipv6():
        pytest.skip("the system has no IPv6")
    made = open_sockets(host, 0)
    try:
        (port,) = {sock.getsockname()[1] for sock in made}
        for sock in made:
            sock.listen()
        assert {
            address for address in ("127.0.0.1", "127.0.0.9", "::1") if reaches(made, address, port)
        } == reached
    finally:
        for sock in made:
            sock.close()


def test_a_free_port_is_free_at_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system picks one at the first address; a client of somebody may have it at the second."""
    if not has_ipv6():
        pytest.skip("the system has no IPv6")
    taken: list[socket.socket] = []

    class Unlucky(socket.socket):
        def bind(self, address: tuple[object, ...]) -> None:  # type: ignore[override]
            super().bind(address)
            if self.family == socket.AF_INET6 and len(taken) < 3:
                other = socket.create_server(("127.0.0.1", self.getsockname()[1]))
                taken.append(other)

    monkeypatch.setattr("embermq.net.listener.socket.socket", Unlucky)
    made = open_sockets("::", 0)
    monkeypatch.undo()
    try:
        assert len(taken) == 3 and len({sock.getsockname()[1] for sock in made}) == 1 and len(made) == 2
    finally:
        for sock in [*made, *taken]:
            sock.close()


def test_an_empty_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="bind is ''; expected something"):
        Config(bind="")


def test_a_peer_that_takes_nothing_is_given_up_after_a_while() -> None:
    limits = Config().limits
    assert limits.tcp_user_timeout_s == 30
    with socket.socket() as listening, socket.socket() as client:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        set_options(listening, limits.tcp_keepalive_s, limits.tcp_user_timeout_s)
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
