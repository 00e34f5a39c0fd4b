"""Celery workers as subprocesses, an application that talks to them, and the stage door."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import kombu.pools
import pytest
from celery import Celery

from tests.interop.celery_application.tasks import make_app
from tools.brokers import Broker

REPOSITORY = Path(__file__).resolve().parents[3]


class Worker:
    """A `celery worker` process; `wait_ready` returns when it consumes."""

    def __init__(self, broker: Broker, queue: str, pool: str = "prefork", prefetch: int = 4) -> None:
        self.queue = queue
        self.name = f"{pool}-{uuid.uuid4().hex[:6]}@interop"
        command = [sys.executable, "-m", "celery", "-A", "tests.interop.celery_application.tasks", "worker"]
        options = ["-n", self.name, "-P", pool, "-c", "1", "-l", "ERROR", "-E", "--without-gossip"]
        environment = {
            "INTEROP_CELERY_BROKER": broker.url,
            "INTEROP_CELERY_QUEUE": queue,
            "INTEROP_CELERY_PREFETCH": str(prefetch),
            "C_FORCE_ROOT": "yes",
        }
        self.process = subprocess.Popen(
            [*command, *options],
            cwd=REPOSITORY,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_ready(self) -> Worker:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == "READY":
                return self
        raise AssertionError(f"the Celery worker ended with {self.process.wait()} before it was ready")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()


class StageDoor:
    """Where tasks knock when they run, and wait until they are let on."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(60)
        self.port: int = self._listener.getsockname()[1]

    def answer(self) -> socket.socket:
        line, _ = self._listener.accept()
        assert line.recv(16) == b"running"
        return line

    def close(self) -> None:
        self._listener.close()


@contextmanager
def application(broker: Broker, queue: str) -> Iterator[Celery]:
    """The client's side of Celery. Its own `close` forgets the connection on which results come."""
    with make_app(broker.url, queue) as app:
        yield app
        app.backend.result_consumer.stop()


def let_go_on(line: socket.socket) -> None:
    with line:
        line.sendall(b"go on")


@pytest.fixture
def stage_door() -> Iterator[StageDoor]:
    door = StageDoor()
    yield door
    door.close()


@pytest.fixture(scope="package", autouse=True)
def _pools() -> Iterator[None]:
    """Celery's connections for sending are in pools that all its applications share."""
    yield
    kombu.pools.reset()


@pytest.fixture(scope="package")
def worker(broker: Broker) -> Iterator[Worker]:
    """The worker that most tests share: prefork, one child, prefetching four."""
    worker = Worker(broker, f"interop.celery.{uuid.uuid4().hex}")
    yield worker.wait_ready()
    worker.close()


@pytest.fixture(scope="package")
def app(worker: Worker, broker: Broker) -> Iterator[Celery]:
    """The client's side; tasks are called by name, as a caller in another project would."""
    with application(broker, worker.queue) as app:
        yield app


@pytest.fixture
def start_worker() -> Iterator[Callable[..., Worker]]:
    """Starts workers of one's own, which end with the test."""
    with ExitStack() as stack:

        def start(*arguments: object, **options: object) -> Worker:
            worker = Worker(*arguments, **options)
            stack.callback(worker.close)
            return worker.wait_ready()

        yield start
