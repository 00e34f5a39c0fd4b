"""A connection for blocking code: opened by `connect`, shared by as many threads as one likes."""

from __future__ import annotations

import logging
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from embermq.client.address import Settings, settings_of
from embermq.client.blocking.channel import Channel
from embermq.client.blocking.line import Line
from embermq.client.blocking.waiter import Waiter
from embermq.client.core.channel import ChannelCore
from embermq.client.core.engine import CLOSING, OPEN, Engine
from embermq.client.core.handles import ConnectionHandle
from embermq.client.core.message import Message
from embermq.client.core.request import Request
from embermq.client.errors import ClientError, ConnectionClosed, Timeout
from embermq.wire.frame import method_frame
from embermq.wire.methods import ChannelOpen, ConnectionClose, ConnectionUpdateSecret

log = logging.getLogger("embermq.client")

CLOSE_S_MAX = 10.0


def connect(url: str | Sequence[str] = "amqp://localhost", **options: Any) -> Connection:
    """Connect and wait until the broker has let us in.

    `url` may name several hosts or be a list of URLs; `options` are the fields of `Settings`, for example
    `heartbeat_s=30`, `tls=context`, `name="billing"`.
    """
    return Connection(settings_of(url, **options))


class Connection(ConnectionHandle):
    """An open connection. Use it in `with`, or call `close`.

    The attributes `on_...` are called in a thread of their own, one event after the other.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.on_blocked: Callable[[str], None] | None = None
        self.on_unblocked: Callable[[], None] | None = None
        self.on_lost: Callable[[ClientError], None] | None = None
        self.on_reconnected: Callable[[], None] | None = None
        self._process_id = os.getpid()
        self._channels: dict[ChannelCore, Channel] = {}
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._events_thread: threading.Thread | None = None
        self._first: Waiter | None = Waiter()
        self._line = Line(settings, self._changed)
        self._engine = Engine(settings, self)
        first = self._first
        self._line.start(self._engine)
        first.wait(None)
        first.result()

    # -- for everybody

    def channel(self, *, confirms: bool = True, prefetch: int | None = 1000) -> Channel:
        """Open a channel. With `confirms` every publish is answered for by the broker.

        `prefetch` is how many deliveries each consumer may have unsettled (None: no limit).
        """
        waiter = Waiter()
        with self._engine.lock:
            core = self._engine.open_channel(Request(ChannelOpen(), waiter), confirming=confirms)
            channel = self._channels[core] = Channel(self, core)
        self.wait(waiter, "channel.open")
        if prefetch is not None:
            channel.qos(prefetch)
        return channel

    def close(self) -> None:
        """Say goodbye and end the thread. Publishes without their confirm fail with ConnectionClosed."""
        self._end(politely=True)

    def _end(self, *, politely: bool) -> None:
        with self._engine.lock:
            if self._engine.state == OPEN and politely:
                self._engine.out.write(method_frame(0, ConnectionClose(200, "goodbye")))
                self._engine.state = CLOSING
            self._line.stopping.set()
            if self._engine.state != CLOSING:
                self._line.ended = ConnectionClosed("the connection was closed by its user")
        self._line.wake()
        if threading.current_thread() is not self._line.thread:
            self._line.thread.join(CLOSE_S_MAX)
        self._events.put(None)

    def update_secret(self, secret: str, reason: str = "") -> None:
        """Give the broker a new token before the old one expires (OAuth 2)."""
        waiter = Waiter()
        method = ConnectionUpdateSecret(secret.encode(), reason)
        with self._engine.lock:
            if self._engine.error is not None:
                raise self._engine.error
            self._engine.update_secret.append(Request(method, waiter))
            self._engine.out.write(method_frame(0, method))
        self.wait(waiter, method.NAME)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A broker that takes no publishes reads nothing, a goodbye neither: an error would wait for it.
        self._end(politely=kind is None or self.blocked_reason is None)

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed" if self.is_closed else "connecting"
        return f"<Connection to {self._line.endpoint}{self.settings.virtual_host!r}, {state}>"

    # -- for channels

    def call(self, core: ChannelCore, request: Request, timeout_s: float | None = None) -> Any:
        """Send a request and wait for its answer."""
        waiter = request.waiter = Waiter()
        with self._engine.lock:
            core.request(request)
        return self.wait(waiter, request.method.NAME, timeout_s)

    def tell(self, core: ChannelCore, request: Request) -> None:
        """Send a request whose answer nobody waits for."""
        request.waiter = Waiter()
        with self._engine.lock:
            core.request(request)
        self.flush()

    def wait(self, waiter: Waiter, what: str, timeout_s: float | None = None) -> Any:
        if os.getpid() != self._process_id:
            raise ConnectionClosed("a connection does not survive fork(): connect in the new process")
        limit_s = self.settings.call_timeout_s if timeout_s is None else timeout_s
        deadline_s = math.inf if limit_s is None else time.monotonic() + limit_s
        self._line.read_until(waiter.done, deadline_s)
        if not waiter.done():
            left_s = None if limit_s is None else deadline_s - time.monotonic()
            self._line.reader.sleep(lambda: waiter.wait(left_s))
        if not waiter.done():
            raise Timeout(
                f"{what} was not answered within {limit_s:g} s (connected: {self.is_open}, "
                f"blocked by the broker: {self.blocked_reason or 'no'})"
            )
        return waiter.result()

    def flush(self) -> None:
        """Send what waits in the buffer now."""
        self._line.flush()

    def read_until(self, done: Callable[[], bool], deadline_s: float) -> None:
        """Send what waits, and read until `done` or until it seems better to sleep."""
        self._line.read_until(done, deadline_s)

    def read_on(self) -> None:
        """Have the connection's own thread read from now on, until somebody waits again."""
        self._line.reader.hand_over()

    def sleep(self, wait: Callable[[], object]) -> None:
        """Wait for what another thread reads."""
        self._line.reader.sleep(wait)

    # -- the engine's shell

    def wake(self) -> None:
        self._line.nudge()

    def opened(self) -> None:
        self._line.opened()
        self._started(None)

    def ended(self, error: ClientError) -> None:
        self._line.ended = error
        self._line.reader.hand_over()  # whoever read it, the connection's thread acts upon it

    def happened(self, event: str, subject: object, detail: object) -> None:
        if event == "blocked" and self.on_blocked is not None:
            self._tell(self.on_blocked, detail)
        elif event == "unblocked" and self.on_unblocked is not None:
            self._tell(self.on_unblocked)
        elif event == "returned":
            assert isinstance(subject, ChannelCore)
            channel = self._channels.get(subject)
            if channel is not None and channel.on_return is not None:
                assert isinstance(detail, Message)
                self._tell(channel.on_return, detail)
        elif event == "channel_closed":
            assert isinstance(subject, ChannelCore)
            self._channels.pop(subject, None)

    def forget(self, core: ChannelCore) -> None:
        self._channels.pop(core, None)

    def _changed(self, what: str, detail: object) -> None:
        if what == "closed":
            assert isinstance(detail, ClientError)
            self._started(detail)
        elif what == "lost" and self.on_lost is not None:
            self._tell(self.on_lost, detail)
        elif what == "reconnected" and self.on_reconnected is not None:
            self._tell(self.on_reconnected)

    def _started(self, error: ClientError | None) -> None:
        """The answer to the constructor, once."""
        first, self._first = self._first, None
        if first is not None and error is None:
            first.set_result(None)
        elif first is not None and error is not None:
            first.set_exception(error)

    def _tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call the user in another thread than ours, which must go on reading."""
        if self._events_thread is None:
            self._events_thread = threading.Thread(
                target=self._tell_events, name="embermq-client-events", daemon=True
            )
            self._events_thread.start()
        self._events.put(lambda: callback(*arguments))

    def _tell_events(self) -> None:
        while (event := self._events.get()) is not None:
            try:
                event()
            except Exception:
                log.exception("a callback of the connection failed")
