"""A connection for blocking code: opened by `connect`, shared by as many threads as one likes."""

from __future__ import annotations

import logging
import queue
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from embermq.client.address import ConnectOptions, Endpoint, Settings, settings_of
from embermq.client.blocking.channel import Channel
from embermq.client.blocking.io_thread import IOThread
from embermq.client.blocking.waiter import Waiter
from embermq.client.calls import connection as calls
from embermq.client.calls.connection import ConnectionHandle
from embermq.client.calls.once import blocking
from embermq.client.calls.with_block import WithBlock
from embermq.client.core.channel import ChannelCore
from embermq.client.core.request import Request
from embermq.client.errors import ClientError

log = logging.getLogger("embermq.client")

CLOSE_S_MAX = 10.0


def connect(url: str | Sequence[str] = "amqp://localhost", **options: Unpack[ConnectOptions]) -> Connection:
    """Connect and wait until the broker has let us in.

    `url` may name several hosts or be a list of URLs; `options` are the fields of `Settings`, for example
    `heartbeat_s=30`, `tls=context`, `name="billing"`.
    """
    return Connection(settings_of(url, **options))


class Connection(ConnectionHandle[Channel], WithBlock):
    """An open connection. Use it in `with`, or call `close`.

    The attributes `on_...` are called in a thread of their own, one event after the other.
    """

    channel_type = Channel

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.on_blocked: Callable[[str], None] | None = None
        self.on_unblocked: Callable[[], None] | None = None
        self.on_lost: Callable[[ClientError], None] | None = None
        self.on_reconnected: Callable[[], None] | None = None
        self.closed_by_user = False
        self._channels = {}
        self._events = Events()
        # The thread of the connection does not keep its user's half alive: a forgotten one is noticed.
        ourselves = weakref.ref(self)

        def on_event(event: str, subject: object, detail: object) -> None:
            connection = ourselves()
            if connection is None:
                return
            if event == "closed":
                connection._events.stop()
            else:
                connection.happened(event, subject, detail)

        self._io_thread = IOThread(settings, on_event)
        self.engine = self._io_thread.engine
        try:
            self._io_thread.first.wait(None)
            self._io_thread.first.result()
        except BaseException:
            self.closed_by_user = True
            self._io_thread.commands.post(self._io_thread.finish, False)
            raise

    # -- for users

    channel = blocking(calls.channel)
    update_secret = blocking(calls.update_secret)

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

    def _leave(self, kind: type[BaseException] | None) -> None:
        # A broker that takes no publishes does not read connection.close either: an error would wait for it.
        self._end(politely=kind is None or self.blocked_reason is None)

    def _place(self) -> Endpoint | None:
        return self._io_thread.endpoint

    # -- for channels

    def new_waiter(self) -> Waiter:
        return Waiter()

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        self._io_thread.commands.post(function, *arguments)

    def call(self, core: ChannelCore, request: Request, timeout_s: float | None = None) -> Any:
        waiter = request.waiter = Waiter()
        try:
            self._io_thread.commands.post(core.request, request)
            return self.wait(waiter, request.method.NAME, timeout_s)
        except BaseException as error:
            if not waiter.done() or not isinstance(error, ClientError):
                self._io_thread.commands.queue.append((request.abandon, ()))
            raise

    def tell(self, core: ChannelCore, request: Request) -> None:
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

    def _tell_user(self, callback: Callable[..., None] | None, *arguments: object) -> None:
        self._events.tell(callback, *arguments)


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
