"""A broker without a process: its domain and its protocol on a disk that can fail, driven step by step.

Clients talk to it through no socket at all: what they send is fed to a connection, what it answers is theirs
to read. So everything between a publish and its confirm is the real thing, and a power cut can be put between
any two steps, even into the middle of a round of syncs.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable

from embermq.amqp.connection.connection import Connection
from embermq.amqp.connection.state import Pause
from embermq.amqp.connection.transport import Limits
from embermq.broker.broker import Broker
from embermq.broker.definitions import DiskDefinitionStore
from embermq.broker.restore import restore
from embermq.broker.storage import Storage
from embermq.broker.turn import Turn
from embermq.store.data_directory import DataDirectory
from tests.crash.client import REPLY_SECONDS_MAX, Client, Lost
from tests.support import sqlite_files
from tests.support.amqp_conversation import Transport
from tests.support.faulty_disk import FaultyFileSystem

# One thread of the broker may be paused, and an answer that does not depend on it still come.
PAUSED_REPLY_SECONDS_MAX = 0.03


class Machine:
    """Runs while somebody calls `step`; `crash` takes everything away but the disk."""

    def __init__(self, directory: str, sync: bool = True, ahead_s: float = 0.0) -> None:
        self.filesystem = FaultyFileSystem(directory)
        self.directory = directory
        sqlite_files.watch(directory, self.filesystem)
        self.loop = asyncio.new_event_loop()
        self.failure: Exception | None = None
        self.full: list[bool] = []  # what publishers were told about the disk
        self.paused = threading.Event()  # the commit thread waits between two syncs
        self.resumed = threading.Event()
        self.ahead_s = ahead_s  # of the real time
        self.turn = Turn(self.loop.call_soon, lambda: time.time() + self.ahead_s)
        mode = "always" if sync else "os"
        try:
            self.data = DataDirectory.open(directory, self.loop.call_soon_threadsafe, mode, self.filesystem)
        except BaseException:
            self.loop.close()
            sqlite_files.forget(directory)
            raise
        self.data.committer.sync_here(self.turn)
        definitions = DiskDefinitionStore(self.data.definitions, self.fail)
        self.storage = Storage(self.data, self.loop.call_later, self.fail)
        self.storage.on_full = self.full.append
        self.broker = Broker(self.turn, definitions, self.storage)
        if not restore(self.broker, definitions):
            self.broker.create_defaults()
        self.connections = 0

    def fail(self, reason: Exception) -> None:
        self.failure = self.failure or reason

    def step(self) -> None:
        """One pass of the loop."""
        self.loop.run_until_complete(asyncio.sleep(0))

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def client(self) -> MachineClient:
        self.connections += 1
        return MachineClient(self, self.connections)

    def pause_at_next_sync(self) -> None:
        """Stop the next thread that syncs something, messages or definitions, until `resume`."""
        self.resumed.clear()
        self.filesystem.before_sync = self.on_sync

    def on_sync(self) -> None:
        if threading.current_thread().name in ("store-commit", "store-definitions"):
            self.filesystem.before_sync = None
            self.paused.set()
            self.resumed.wait(REPLY_SECONDS_MAX)

    def resume(self) -> None:
        self.filesystem.before_sync = None
        self.paused.clear()
        self.resumed.set()

    def power_cut(self, target: str, chance: random.Random) -> None:
        """Write to `target` what the disk would have if the power failed now."""
        self.filesystem.power_cut(target, chance)

    def crash(self) -> None:
        self.resume()
        self.filesystem.space_left = None
        self.filesystem.failing_syncs = False
        self.data.close()
        self.loop.close()
        sqlite_files.forget(self.directory)


class MachineTransport(Transport):
    """What a connection asks of the room that owns its socket."""

    def __init__(self, machine: Machine, go_on: Callable[[], None]) -> None:
        super().__init__()
        self.machine = machine
        self.go_on = go_on

    def resume_reading(self) -> None:
        self.machine.loop.call_soon(self.go_on)

    def later(self, after_s: float, action: Callable[[], None]) -> None:
        self.machine.loop.call_later(after_s, action)


class MachineSocket:
    """The socket of a client: what is sent is fed to a connection, and the machine runs until it answers."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.transport = MachineTransport(machine, self.go_on)
        self.unread = bytearray()
        name = f"machine-client-{number}"
        self.connection = Connection(
            machine.broker, machine.turn, self.transport, Limits(), number, "127.0.0.1", name
        )

    def sendall(self, data: bytes) -> None:
        """On return all of it is done, unless it waits for the disk: what is sent next by others is later."""
        self.unread += data
        self.go_on()
        while self.connection.pauses & ~Pause.LOGIN and not self.connection.holds:
            self.machine.step()  # a turn was too short for all of it

    def go_on(self) -> None:
        if not self.connection.pauses:
            used = self.connection.feed(self.unread, len(self.unread))
            del self.unread[:used]

    def recv(self, size: int) -> bytes:
        began = time.monotonic()
        deadline = began + REPLY_SECONDS_MAX
        while not self.transport.sent:
            if self.machine.failure is not None:
                raise Lost("no answer will come now")
            if self.machine.paused.is_set() and time.monotonic() > began + PAUSED_REPLY_SECONDS_MAX:
                raise Lost("no answer came while a thread was paused")
            if self.transport.closed_after_s is not None:
                raise Lost("the connection was closed")
            assert time.monotonic() < deadline, "the broker does not answer"
            self.machine.step()
        received = bytes(self.transport.sent)
        self.transport.sent.clear()
        return received

    def settimeout(self, seconds: float) -> None:
        """`recv` has limits of its own."""

    def close(self) -> None:
        self.connection.lost()
        self.machine.step()


class MachineClient(Client):
    """The client of the other crash tests, without a network."""

    socket: MachineSocket

    def __init__(self, machine: Machine, number: int) -> None:
        super().__init__(0, connected=MachineSocket(machine, number))
        self.connection = self.socket.connection

    @property
    def unread(self) -> bytearray:
        """What was sent and is not read by the broker."""
        return self.socket.unread

    def has_answer(self) -> bool:
        return bool(self.raw.has_unread() or self.socket.transport.sent)
