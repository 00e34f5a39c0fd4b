"""`EmbeddedBroker`: a real broker for a test, and handles to inspect it and to make it fail."""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from embermq.config import Config
from embermq.config.rule import unknown
from embermq.testing.broker_access import DEFAULT_VHOST, BrokerNotRunning, MessageView, QueueView
from embermq.testing.host import Address, Host, ProcessHost, ThreadHost
from embermq.testing.ports import HeldPorts

WAIT_S = 10.0
LOOK_S = 0.005


def numbers_of(view: QueueView | None) -> str:
    if view is None:
        return "there is no such queue"
    return f"ready={view.ready}, unacked={view.unacked}, consumers={view.consumers}"


class EmbeddedBroker:
    """A broker on a free port of this machine, from `start` to `stop` (or for a `with` block).

    - `EmbeddedBroker()`: in a thread of this process, in memory. (The first stream, if there is any, has a
      temporary directory made for it, which goes when the broker stops.)
    - `persistent=True`: in a temporary directory, so that `restart` and `kill` find its data again;
      `data_dir=...`: in that one, which stays.
    - `process=True`: in a process of its own. A kill is then a real SIGKILL.
    - Further keywords are the broker's settings (docs/configuration.md): `heartbeat=2`, `frame_max=8192`.
    """

    def __init__(
        self,
        *,
        data_dir: str | Path | None = None,
        persistent: bool = False,
        process: bool = False,
        **settings: Any,
    ) -> None:
        self.persistent = persistent or data_dir is not None
        self.process = process
        for name in settings.keys() - Config.__dataclass_fields__.keys():
            raise unknown(name, Config.__dataclass_fields__)
        self.settings = {"bind": "127.0.0.1", "amqp_port": 0, "http_port": 0, **settings}
        self.given_dir = None if data_dir is None else Path(data_dir)
        self.temporary_dir: Path | None = None
        self.host: Host | None = None
        self.address: Address | None = None
        self._held = HeldPorts()

    # -- its life

    def start(self) -> Self:
        """Start; again after a stop or a kill, on the same ports and with the data it kept."""
        if self.host is not None:
            return self
        config = Config(**self.settings_with_data())
        host = (ProcessHost if self.process else ThreadHost)(config, not self.persistent)
        try:
            self.address = host.start()
        except BaseException:
            host.stop()
            raise
        self.host = host
        self._held.release()
        # The same ports next time: clients under test reconnect to where they were.
        self.settings["amqp_port"], self.settings["http_port"] = (
            self.address.amqp_port,
            self.address.http_port,
        )
        return self

    def settings_with_data(self) -> dict[str, Any]:
        directory = self.given_dir or self.temporary_dir
        if directory is None:
            # One in memory makes it if it gets a stream to keep, and removes it when it stops.
            directory = self.temporary_dir = Path(tempfile.gettempdir(), f"embermq-test-{uuid.uuid4().hex}")
        return {**self.settings, "data_dir": directory}

    def stop(self) -> None:
        """Stop as on SIGTERM: clients are told, everything is written."""
        if self.host is not None:
            self.host.stop()
            self._ended()

    def kill(self) -> None:
        """Stop as on SIGKILL: clients are not told, and only what was confirmed is sure to be kept."""
        self.running.kill()
        self._ended()

    def _ended(self) -> None:
        self.host = None
        if self.address is not None:
            self._held.hold(self.address.host, self.address.amqp_port, self.address.http_port)
        if not self.persistent:
            self.remove_temporary_dir()

    def restart(self) -> None:
        """Stop and start again, on the same ports."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove the temporary directory."""
        self.stop()
        self._held.release()
        self.remove_temporary_dir()

    def remove_temporary_dir(self) -> None:
        if self.temporary_dir is not None:
            shutil.rmtree(self.temporary_dir, ignore_errors=True)
            self.temporary_dir = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- where it is

    @property
    def running(self) -> Host:
        if self.host is None:
            raise BrokerNotRunning("the broker does not run: start() it, or use `with`")
        return self.host

    @property
    def location(self) -> Address:
        """The ports stay known while the broker is down: clients under test keep trying there."""
        if self.address is None:
            raise BrokerNotRunning("the broker has no port before its first start")
        return self.address

    @property
    def port(self) -> int:
        return self.location.amqp_port

    @property
    def url(self) -> str:
        """amqp://guest:guest@127.0.0.1:PORT/%2f"""
        return self.url_of(DEFAULT_VHOST)

    def url_of(self, vhost: str) -> str:
        return f"amqp://guest:guest@{self.location.host}:{self.location.amqp_port}/{quote(vhost, safe='')}"

    @property
    def http_url(self) -> str:
        return f"http://{self.location.host}:{self.location.http_port}"

    # -- looking inside

    def messages(self, queue: str, vhost: str = DEFAULT_VHOST, limit: int = 1000) -> list[MessageView]:
        """The messages that wait in a queue, oldest first, left where they are."""
        found: list[MessageView] = self.running.call("messages", queue, vhost, limit)
        return found

    def queue(self, name: str, vhost: str = DEFAULT_VHOST) -> QueueView | None:
        """How many messages and consumers a queue has; None when there is no such queue."""
        found: QueueView | None = self.running.call("queue", name, vhost)
        return found

    def queues(self, vhost: str = DEFAULT_VHOST) -> list[str]:
        """The names of all queues."""
        found: list[str] = self.running.call("queues", vhost)
        return found

    def connection_count(self) -> int:
        found: int = self.running.call("connection_count")
        return found

    def wait_until(self, condition: Callable[[], object], what: str, timeout: float = WAIT_S) -> None:
        """Look until the condition holds; a TimeoutError that says what did not come true."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout:g} s still not so: {what}")
            time.sleep(LOOK_S)

    def wait_until_empty(self, queue: str, vhost: str = DEFAULT_VHOST, timeout: float = WAIT_S) -> None:
        """Wait until nothing is left in a queue, neither waiting nor out with a consumer."""
        self._wait_for_queue(queue, vhost, timeout, "is empty", lambda view: view is None or view.is_empty)

    def wait_for_messages(
        self, queue: str, count: int = 1, vhost: str = DEFAULT_VHOST, timeout: float = WAIT_S
    ) -> list[MessageView]:
        """Wait until so many messages wait in a queue; the messages."""
        wanted = f"has {count} message{'' if count == 1 else 's'}"
        self._wait_for_queue(queue, vhost, timeout, wanted, lambda view: view and view.ready >= count)
        return self.messages(queue, vhost)

    def wait_for_consumers(
        self, queue: str, count: int = 1, vhost: str = DEFAULT_VHOST, timeout: float = WAIT_S
    ) -> None:
        """Wait until so many consumers listen to a queue."""
        wanted = f"has {count} consumer{'' if count == 1 else 's'}"
        self._wait_for_queue(queue, vhost, timeout, wanted, lambda view: view and view.consumers >= count)

    def _wait_for_queue(
        self, name: str, vhost: str, timeout: float, wanted: str, holds: Callable[[QueueView | None], object]
    ) -> None:
        view: QueueView | None = None

        def looks_right() -> object:
            nonlocal view
            view = self.queue(name, vhost)
            return holds(view)

        try:
            self.wait_until(looks_right, f"queue '{name}' {wanted}", timeout)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; now: {numbers_of(view)}") from None

    # -- worlds of their own

    @contextmanager
    def vhost(self, name: str | None = None) -> Iterator[str]:
        """A virtual host for one test, with nothing in it; its name. It goes with everything in it."""
        name = name or f"test-{uuid.uuid4().hex[:12]}"
        self.running.call("add_vhost", name)
        try:
            yield name
        finally:
            if self.host is not None:
                self.host.call("delete_vhost", name)

    def purge(self, queue: str, vhost: str = DEFAULT_VHOST) -> int:
        purged: int = self.running.call("purge", queue, vhost)
        return purged

    # -- hurting it

    def fail_next_connections(self, count: int) -> None:
        """The next so many connections are reset as soon as they are made."""
        self.running.call("fail_next_connections", count)

    def close_connections(self, reason: str = "a test asked for it") -> int:
        """Close all connections as an operator would (320 CONNECTION_FORCED); how many there were."""
        count: int = self.running.call("close_connections", reason)
        return count

    def drop_connections(self) -> int:
        """Cut all connections as a broken network would; how many there were."""
        count: int = self.running.call("drop_connections")
        return count

    @contextmanager
    def paused_deliveries(self) -> Iterator[None]:
        """Consumers get nothing, while everything else goes on."""
        self.running.call("pause_deliveries")
        try:
            yield
        finally:
            if self.host is not None:
                self.host.call("resume_deliveries")

    @contextmanager
    def blocked_publishers(self) -> Iterator[None]:
        """As when memory or disk run out: publishers get connection.blocked and are not read from."""
        self.running.call("set_alarm", True)
        try:
            yield
        finally:
            if self.host is not None:
                self.host.call("set_alarm", False)
