"""Crowds that connect and say nothing, at every port: others are let in, and nothing is used up.

The broker here waits ten minutes for a login, so that whoever is let in is let in beside the crowd.
"""

from __future__ import annotations

import base64
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pika
import pytest

from embermq.net.descriptors import raise_file_limit
from tests.access.secured import Secured
from tests.hostile.conftest import wait_until
from tests.hostile.peers import HANDSHAKE, Peer, healthy_round_trip, unique
from tools.brokers import EmberBroker

PROXY = "127.0.0.2"
CROWD = tuple(f"127.0.1.{number}" for number in range(1, 5))
FRESH = "127.0.9.9"
PATIENCE = {"EMBERMQ_LIMITS_HANDSHAKE_S": "600"}
AUTHORIZATION = base64.b64encode(b"guest:guest").decode()
REQUEST = (
    f"GET /api/overview HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {AUTHORIZATION}\r\n\r\n".encode()
)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    raise_file_limit()  # of the tests, which are the crowd
    made = Secured(tmp_path_factory.mktemp("tls"))
    made.broker._env |= {**PATIENCE, "EMBERMQ_PROXY_TRUSTED": f"{PROXY}/32"}
    return made


@pytest.fixture(scope="module")
def victim(secured: Secured) -> Iterator[EmberBroker]:
    with secured.broker as broker:
        yield broker


def connected(port: int, address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 60, source_address=(address, 0))


@contextmanager
def crowd(port: int, addresses: tuple[str, ...], each: int, said: bytes = b"") -> Iterator[None]:
    """So many connections from each address, all open at once."""
    with ExitStack() as stack:
        for address in addresses:
            for _ in range(each):
                sock = stack.enter_context(connected(port, address))
                sock.sendall(said)
        yield


def greeting(secured: Secured, port: int, tls: bool, said: bytes) -> bytes:
    """What an address that is new gets for its first words."""
    with connected(port, FRESH) as plain:
        if not tls:
            plain.sendall(said)
            return plain.recv(12)
        context = ssl.create_default_context(cafile=str(secured.authority.file))
        with context.wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(said)
            return sock.recv(12)


@pytest.mark.parametrize("at", ["amqp", "amqps", "https"])
def test_a_silent_crowd_keeps_no_other_address_out(victim: EmberBroker, secured: Secured, at: str) -> None:
    port = {"amqp": victim.port, "amqps": secured.amqps, "https": secured.https}[at]
    with crowd(port, CROWD, 400):
        assert greeting(secured, victim.port, False, b"AMQP\0\0\x09\x01")[:1] == b"\x01"
        assert greeting(secured, secured.amqps, True, b"AMQP\0\0\x09\x01")[:1] == b"\x01"
        assert greeting(secured, secured.https, True, REQUEST) == b"HTTP/1.1 200"
        assert greeting(secured, victim.http_port, False, REQUEST) == b"HTTP/1.1 200"
        healthy_round_trip(victim)


def test_a_crowd_from_one_address_leaves_room_for_all_others(victim: EmberBroker, secured: Secured) -> None:
    with crowd(secured.https, CROWD[:1], 3000):
        assert greeting(secured, secured.https, True, REQUEST) == b"HTTP/1.1 200"
        healthy_round_trip(victim)


def test_unfinished_headers_of_proxies_cost_nothing(victim: EmberBroker, secured: Secured) -> None:
    with crowd(victim.port, (PROXY,), 1000, b"PROXY TCP4 192.0.2."):
        assert greeting(secured, victim.port, False, b"AMQP\0\0\x09\x01")[:1] == b"\x01"
        wait_until(lambda: spent_in_a_second(victim) < 0.3)  # a core, when they were looked at all the time


def spent_in_a_second(broker: EmberBroker) -> float:
    before = broker.cpu_seconds()
    time.sleep(1)
    return broker.cpu_seconds() - before


class FewFiles(EmberBroker):
    """A broker that the system grants 1,024 files and no more."""

    def command(self) -> list[str]:
        return ["/bin/sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh", *super().command()]


def test_strangers_do_not_use_up_the_files(victim: EmberBroker) -> None:
    with FewFiles(env=PATIENCE) as broker, Peer(broker) as peer:
        peer.open()
        with crowd(broker.port, CROWD, 600):
            for _ in range(20):  # files of their own, and syncs of new files
                peer.declare(unique(), durable=True)
            healthy_round_trip(broker)
            with connected(broker.port, FRESH) as fresh:
                fresh.sendall(b"AMQP\0\0\x09\x01")
                assert fresh.recv(1) == b"\x01"
            log = broker.log_path.read_text(errors="replace")
            assert "1024 files may be open" in log and "oo many open files" not in log, log


def test_clients_that_log_in_leave_files_to_the_store(victim: EmberBroker) -> None:
    """As many connections as are let in, and more queues than files are left for: syncs and alarms go on."""
    queues = [unique() for _ in range(200)]
    with FewFiles(env=PATIENCE) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for queue in queues:
                channel.queue_declare(queue, durable=True)
            with crowd(broker.port, CROWD, 300, HANDSHAKE):
                for queue in queues:
                    channel.basic_publish("", queue, b"kept", pika.BasicProperties(delivery_mode=2))
                assert all(channel.basic_get(queue, auto_ack=True)[2] == b"kept" for queue in queues)
        log = broker.log_path.read_text(errors="replace")
        assert "oo many open files" not in log, log


def test_the_soft_limit_of_files_is_raised(victim: EmberBroker) -> None:
    class Soft(EmberBroker):
        def command(self) -> list[str]:
            return ["/bin/sh", "-c", 'ulimit -Sn 500; ulimit -Hn 3000; exec "$@"', "sh", *super().command()]

    with Soft() as broker:
        assert "3000 files may be open at a time (raised from 500)" in broker.log_path.read_text()
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            assert connection.is_open
