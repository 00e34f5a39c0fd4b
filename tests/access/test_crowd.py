"""Many clients at once: all of them log in, none costs much, and one more is served as if it were alone."""

from __future__ import annotations

import resource
import select
import socket
import time
from collections.abc import Iterator

import pytest

from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER, method_frame
from tests.access.tenant import ask, connect
from tests.support.pika_client import eventually
from tools.brokers import EmberBroker

BYTES_PER_CONNECTION_MAX = 60 * 1024
TOGETHER = 1000  # more than may log in at a time: they stand in line
OPENED = method_frame(1, methods.ChannelOpenOk())
HANDSHAKE = PROTOCOL_HEADER + b"".join(
    [
        method_frame(0, methods.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")),
        method_frame(0, methods.ConnectionTuneOk(10, 131072, 0)),
        method_frame(0, methods.ConnectionOpen(virtual_host="/")),
        method_frame(1, methods.ChannelOpen()),
    ]
)


@pytest.fixture
def crowd_size(request: pytest.FixtureRequest) -> Iterator[int]:
    """As many as were asked for; the limit of open files is raised for them, here and in the broker."""
    size: int = request.config.getoption("--connections")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = size + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"the system allows {hard} open files, {needed} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield size
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def arrive(broker: EmberBroker, count: int) -> list[socket.socket]:
    """Connections with an open channel."""
    made = [socket.create_connection((broker.host, broker.port), 30) for _ in range(count)]
    for sock in made:
        sock.sendall(HANDSHAKE)
    heard = dict.fromkeys(made, b"")
    waiting = select.epoll()
    numbers = {sock.fileno(): sock for sock in made}
    for number in numbers:
        waiting.register(number, select.EPOLLIN)
    left = set(made)
    deadline = time.monotonic() + 60
    while left:
        assert time.monotonic() < deadline, f"{len(left)} of {count} were not let in"
        for number, _ in waiting.poll(1):
            sock = numbers[number]
            data = sock.recv(65536)
            assert data, f"shown out after {heard[sock]!r}"
            heard[sock] += data
            if OPENED in heard[sock]:
                left.discard(sock)
    waiting.close()
    return made


def test_a_crowd_is_let_in_and_served(crowd_size: int) -> None:
    with EmberBroker(log_level="warning") as broker:
        connect(broker, "guest").close()
        rss, cpu, began = broker.rss_bytes(), broker.cpu_seconds(), time.monotonic()
        crowd: list[socket.socket] = []
        try:
            while len(crowd) < crowd_size:
                crowd += arrive(broker, min(TOGETHER, crowd_size - len(crowd)))
            took, cpu = time.monotonic() - began, broker.cpu_seconds() - cpu
            each = (broker.rss_bytes() - rss) / crowd_size
            print(
                f"\n{crowd_size} connections with a channel each: {crowd_size / took:.0f}/s, "
                f"{cpu / crowd_size * 1e6:.0f} us of CPU and {each / 1024:.1f} KiB each"
            )
            assert each < BYTES_PER_CONNECTION_MAX
            shown = ask(broker, "GET", "overview").json["object_totals"]
            assert (shown["connections"], shown["channels"]) == (crowd_size, crowd_size)
            with connect(broker, "guest") as one_more:
                channel = one_more.channel()
                channel.queue_declare("crowded", exclusive=True)
                channel.basic_publish("", "crowded", b"through")
                assert eventually(lambda: channel.basic_get("crowded", auto_ack=True)[2]) == b"through"
        finally:
            for sock in crowd:
                sock.close()
        eventually(lambda: ask(broker, "GET", "overview").json["object_totals"]["connections"] == 0)
