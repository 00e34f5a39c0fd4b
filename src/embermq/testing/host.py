"""Hosts of an embedded broker: a thread of this process, or a process of its own."""

from __future__ import annotations

import asyncio
import multiprocessing.connection
import os
import signal
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass, fields
from typing import Any

from embermq.app.app import App
from embermq.app.serve import new_event_loop
from embermq.config import Config
from embermq.testing.broker_access import BrokerNotRunning, Inside, call

STOP_S_MAX = 10.0
CLOSE_TIMEOUT_S = 0.1  # a client in the thread that stops us cannot answer


@dataclass(frozen=True)
class Address:
    host: str
    amqp_port: int
    http_port: int


class Host(ABC):
    """One life of a broker: `start`, any number of `call`s, then `stop` or `kill`."""

    def __init__(self, config: Config, in_memory: bool) -> None:
        self.config = config
        self.in_memory = in_memory

    @abstractmethod
    def start(self) -> Address: ...

    @abstractmethod
    def call(self, operation: str, *arguments: Any) -> Any:
        """Do one of `Inside`'s operations."""

    @abstractmethod
    def stop(self) -> None:
        """Close all connections, then end."""

    @abstractmethod
    def kill(self) -> None:
        """End at once: clients are not told, and what was not written is lost."""


class ThreadHost(Host):
    """The broker on a loop of its own in a thread of this process."""

    def __init__(self, config: Config, in_memory: bool) -> None:
        super().__init__(config, in_memory)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.ended: asyncio.Event
        self.aborted = False
        self.inside: Inside
        self.ready: Future[Address] = Future()
        self.thread = threading.Thread(target=self.run, name="embermq", daemon=True)

    def start(self) -> Address:
        self.thread.start()
        return self.ready.result()

    def run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self.serve())
        except BaseException as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)

    async def serve(self) -> None:
        self.ended = asyncio.Event()
        app = App(self.config, self.in_memory)
        try:
            await app.start()
            self.inside = Inside(app)
            self.loop = asyncio.get_running_loop()
            self.ready.set_result(Address(self.config.bind, app.amqp_port, app.http_port))
            await self.ended.wait()
        finally:
            await (app.abort() if self.aborted else app.stop(CLOSE_TIMEOUT_S))

    def call(self, operation: str, *arguments: Any) -> Any:
        if self.loop is None or not self.thread.is_alive():
            raise BrokerNotRunning(f"the broker does not run: {operation} is not possible")
        return asyncio.run_coroutine_threadsafe(call(self.inside, operation, arguments), self.loop).result()

    def stop(self) -> None:
        if self.loop is not None and self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join()

    def kill(self) -> None:
        self.aborted = True
        self.stop()


class ProcessHost(Host):
    """The broker in a child process: crashes and kills are real there."""

    def __init__(self, config: Config, in_memory: bool) -> None:
        super().__init__(config, in_memory)
        self.process: subprocess.Popen[bytes] | None = None
        self.pipe: multiprocessing.connection.Connection
        self.lock = threading.Lock()

    def start(self) -> Address:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "embermq.testing.subprocess_main", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self.pipe = multiprocessing.connection.Connection(ours.detach())
        settings = {setting.name: getattr(self.config, setting.name) for setting in fields(self.config)}
        address: Address = self.ask("start", settings, self.in_memory)
        return address

    def call(self, operation: str, *arguments: Any) -> Any:
        return self.ask(operation, *arguments)

    def ask(self, operation: str, *arguments: Any) -> Any:
        if self.process is None or self.process.poll() is not None:
            raise BrokerNotRunning(f"the broker does not run: {operation} is not possible")
        with self.lock:
            try:
                self.pipe.send((operation, arguments))
                answer = self.pipe.recv()
            except (EOFError, OSError):
                raise BrokerNotRunning(f"the broker ended during {operation}") from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.pipe.close()  # the child stops at the end of its pipe
            try:
                self.process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.pipe.close()
