"""A connection for blocking code: opened by `connect`, shared by as many threads as one likes."""

from __future__ import annotations

import logging
import queue
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from embermq.client.address import ConnectOptions, Endpoint, Settings, settings_of
from embermq.client.blocking.channel import Channel
from embermq.client.blocking.io_thread import IOThread
from embermq.client.blocking.waiter import Waiter
from embermq.client.calls.connection import ConnectionHandle
from embermq.client.core.channel import ChannelCore
from embermq.client.core.engine import Engine
from embermq.client.core.message import Message
from embermq.client.core.request import Request
from embermq.client.errors import ClientError
from embermq.wire.frame import method_frame
from embermq.wire.methods import ChannelClose, ChannelOpen, ConnectionUpdateSecret

log = logging.getLogger("embermq.client")

CLOSE_S_MAX = 10.0


def connect(url: str | Sequence[str] = "amqp://localhost", **options: Unpack[ConnectOptions]) -> Connection:
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
        self.closed_by_user = False
        self._channels: dict[ChannelCore, weakref.ref[Channel]] = {}
        self._events = Events()
        # The thread of the connection does not keep its user's half alive: a forgotten one is noticed.
        ourselves = weakref.ref(self)

        def on_event(event: str, subject: object, detail: object) -> None:
            connection = ourselves()
            if connection is not None:
                connection._happened(event, subject, detail)

        self._io_thread = IOThread(settings, on_event)
        self._engine: Engine = self._io_thread.engine
        try:
            self._io_thread.first.wait(None)
            self._io_thread.first.result()
        except BaseException:
            self.closed_by_user = True
            self._io_thread.commands.post(self._io_thread.finish, False)
            raise

    # -- for users

    def channel(self, *, confirms: bool = True, prefetch: int | None = 1000) -> Channel:
        """Open a channel. With `confirms` every publish is answered for by the broker.

        `prefetch` is how many deliveries each consumer may have unsettled (None: no limit).
        """
        waiter = Waiter()
        opening: list[ChannelCore] = []
        request = Request(ChannelOpen(), waiter)

        def begin() -> None:
            try:
                opening.append(self._engine.open_channel(request, confirming=confirms))
            except ClientError as error:
                waiter.set_exception(error)

        def give_up() -> None:
            for core in opening:
                core.request(Request(ChannelClose(200, "not wanted any more")))

        try:
            self._io_thread.commands.post(begin)
            self.wait(waiter, "channel.open")
            channel = Channel(self, opening[0])
            self._channels[opening[0]] = weakref.ref(channel)
            if prefetch is not None:
                channel.qos(prefetch)
            return channel
        except BaseException:
            self._io_thread.commands.post(give_up)
            raise

    def close(self) -> None:
        """Close it and end its thread. Publishes without their confirm fail with ConnectionClosed."""
        self._end(politely=True)

    def abort(self) -> None:
        """End at once, without connection.close: for a broker that would not read it, as during an alarm."""
        self._end(politely=False)

    def _end(self, *, politely: bool) -> None:
        self.closed_by_user = True
        if self.is_closed:
            return
        try:
            self._io_thread.commands.post(self._io_thread.finish, politely)
        except (ClientError, OSError):
            pass  # it has ended meanwhile, and cannot be woken any more
        if threading.current_thread() is not self._io_thread.thread:
            self._io_thread.thread.join(CLOSE_S_MAX)
        self._events.stop()

    def __del__(self) -> None:
        if not getattr(self, "closed_by_user", True) and not self.is_closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._io_thread.commands.post(self._io_thread.finish, True)
            self._events.stop()

    def update_secret(self, secret: str, reason: str = "") -> None:
        """Give the broker a new token before the old one expires (OAuth 2)."""
        waiter = Waiter()
        method = ConnectionUpdateSecret(secret.encode(), reason)

        def begin() -> None:
            if self._engine.error is not None:
                waiter.set_exception(self._engine.error)
                return
            self._engine.update_secret.append(Request(method, waiter))
            self._engine.buffer.write(method_frame(0, method))

        self._io_thread.commands.post(begin)
        self.wait(waiter, method.NAME)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A broker that takes no publishes does not read connection.close either: an error would wait for it.
        self._end(politely=kind is None or self.blocked_reason is None)

    def _place(self) -> Endpoint | None:
        return self._io_thread.endpoint

    # -- for channels

    def call(self, core: ChannelCore, request: Request, timeout_s: float | None = None) -> Any:
        """Send a request and wait for its answer. If the wait is interrupted, what was done is undone."""
        waiter = request.waiter = Waiter()
        try:
            self._io_thread.commands.post(core.request, request)
            return self.wait(waiter, request.method.NAME, timeout_s)
        except BaseException as error:
            if not waiter.done() or not isinstance(error, ClientError):
                self._io_thread.commands.queue.append((request.abandon, ()))
            raise

    def tell(self, core: ChannelCore, request: Request) -> None:
        """Send a request without waiting for its answer."""
        request.waiter = Waiter()
        self._io_thread.commands.post(core.request, request)

    def wait(self, waiter: Waiter, what: str, timeout_s: float | None = None) -> Any:
        limit_s = self.settings.call_timeout_s if timeout_s is None else timeout_s
        if not waiter.wait(limit_s):
            raise self.no_answer(what, limit_s)
        return waiter.result()

    def when_room(self, waiter: Waiter) -> None:
        """For the thread of the connection: tell the waiter when there is little left to send."""
        self._io_thread.await_room(waiter)

    def flush(self) -> None:
        """Wait until what was published and settled is given to the system, or there is no connection."""
        waiter = Waiter()
        self._io_thread.commands.post(self._io_thread.await_room, waiter)
        self.wait(waiter, "what was sent")

    # -- users' callbacks

    def _happened(self, event: str, subject: object, detail: object) -> None:
        """Called by the thread of the connection, which must go on."""
        if event == "blocked":
            self._events.tell(self.on_blocked, detail)
        elif event == "unblocked":
            self._events.tell(self.on_unblocked)
        elif event == "lost":
            self._events.tell(self.on_lost, detail)
        elif event == "reconnected":
            self._events.tell(self.on_reconnected)
        elif event == "returned":
            assert isinstance(subject, ChannelCore)
            assert isinstance(detail, Message)
            known = self._channels.get(subject)
            channel = known() if known is not None else None
            if channel is not None:
                self._events.tell(channel.on_return, detail)
        elif event == "channel_closed":
            assert isinstance(subject, ChannelCore)
            self.forget(subject)
        elif event == "closed":
            self._events.stop()

    def forget(self, core: ChannelCore) -> None:
        self._channels.pop(core, None)


class Events:
    """A thread that calls the user, one event after the other; it begins with the first."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def tell(self, callback: Callable[..., None] | None, *arguments: Any) -> None:
        if callback is not None:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="embermq-client-events", daemon=True)
                self._thread.start()
            self._queue.put(lambda: callback(*arguments))

    def stop(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                event()
            except Exception:
                log.exception("a callback of the connection failed")
