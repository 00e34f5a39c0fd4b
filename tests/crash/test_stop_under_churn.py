"""SIGTERM while clients come and go: the broker says goodbye, writes everything and ends with 0.

`--cycles N` says how often (N // 6 times); every stop meets other connections half-way.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pytest

from embermq.wire import methods
from embermq.wire.frame import method_frame
from tests.hostile.conftest import FAULTS
from tests.hostile.peers import HANDSHAKE
from tools.brokers import EmberBroker

CLIENTS = 6
CYCLES_PER_STOP = 6
WHOLE = HANDSHAKE + method_frame(1, methods.ChannelOpen())
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close by a reset


def come_and_go(broker: EmberBroker, seed: int, stop: threading.Event, comers: threading.Semaphore) -> None:
    """Connect, say something or nothing, and leave by FIN or by a reset, again and again."""
    chance = random.Random(seed)
    while not stop.is_set():
        socks = [socket.socket() for _ in range(chance.randint(1, 20))]
        for sock in socks:
            sock.settimeout(5)
            try:
                sock.connect((broker.host, broker.port))
                said = chance.choice([0, 0, chance.randrange(len(WHOLE)), len(WHOLE)])
                sock.sendall(WHOLE[:said])
                if chance.random() < 0.5:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                comers.release()
            except OSError:
                if stop.wait(0.001):
                    break
        for sock in socks:
            sock.close()


@contextmanager
def churn(broker: EmberBroker, seed: int) -> Iterator[threading.Semaphore]:
    stop, comers = threading.Event(), threading.Semaphore(0)
    threads = [
        threading.Thread(target=come_and_go, args=(broker, seed * CLIENTS + number, stop, comers))
        for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield comers
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_stopped_while_clients_come_and_go(pytestconfig: pytest.Config) -> None:
    confirmed = 0
    with EmberBroker() as broker:
        for number in range(max(1, pytestconfig.getoption("--cycles") // CYCLES_PER_STOP)):
            with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                found = channel.queue_declare("kept", durable=True).method.message_count
                assert found == confirmed, f"stop {number} has lost or doubled messages"
                channel.basic_publish("", "kept", b"", pika.BasicProperties(delivery_mode=2))
                confirmed += 1
            with churn(broker, number) as comers:
                for _ in range(300):
                    assert comers.acquire(timeout=60)
                assert broker.stop() == 0, broker.log_tail()
            found_fault = FAULTS.search(broker.log_path.read_text(errors="replace"))
            assert found_fault is None, broker.log_tail()
            broker.start()
