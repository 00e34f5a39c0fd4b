"""A broker's domain on a real data directory; callbacks of the store's threads run when a test says so."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Self

from embermq.broker.broker import Broker
from embermq.broker.definitions import DiskDefinitionStore
from embermq.broker.restore import restore
from embermq.broker.storage import Storage
from embermq.broker.vhost import VirtualHost
from embermq.store.data_directory import DataDirectory
from tests.support.domain import Loop


class StoredBroker:
    """Opens what the directory holds, as the application does at its start."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.loop = Loop()
        self.calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[object, ...]]] = queue.SimpleQueue()
        self.failures: list[Exception] = []
        self.data = DataDirectory.open(
            str(directory), lambda call, *arguments: self.calls.put((call, arguments)), "os"
        )
        self.definitions = DiskDefinitionStore(self.data.definitions, self.failures.append)
        self.storage = Storage(self.data, lambda _, call: self.calls.put((call, ())), self.failures.append)
        self.broker = Broker(self.loop.turn, self.definitions, self.storage)
        self.restored = restore(self.broker, self.definitions)
        if not self.restored:
            self.broker.create_defaults()

    @property
    def vhost(self) -> VirtualHost:
        return self.broker.vhosts["/"]

    def wait_until_safe(self) -> None:
        """Run the turn and what the store's threads report, until a sync has covered everything."""
        self.loop.run()
        done: list[bool] = []
        self.storage.when_safe(lambda: done.append(True), with_acks=True)
        while not done:
            call, arguments = self.calls.get(timeout=60)
            call(*arguments)
        assert self.failures == []

    def stop(self, cleanly: bool = True) -> None:
        if cleanly:
            self.broker.note_stop()
        self.loop.run()
        self.data.close()

    def restarted(self, cleanly: bool = True) -> StoredBroker:
        self.stop(cleanly)
        return StoredBroker(self.directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
