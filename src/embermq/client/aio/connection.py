"""A connection for coroutines: `connection = await connect_async(url)`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from embermq.client.address import ConnectOptions, Endpoint, Settings, settings_of
from embermq.client.aio.channel import AsyncChannel
from embermq.client.aio.protocol import ClientProtocol
from embermq.client.calls.connection import ConnectionHandle
from embermq.client.core.channel import ChannelCore
from embermq.client.core.engine import CLOSING, OPEN, Engine
from embermq.client.core.heartbeat import Heartbeat
from embermq.client.core.message import Message
from embermq.client.core.request import Request
from embermq.client.errors import ClientError, ConnectionClosed
from embermq.client.failure_text import broken, not_connected
from embermq.client.retry_plan import Attempts, is_passing
from embermq.wire.frame import method_frame
from embermq.wire.methods import ChannelClose, ChannelOpen, ConnectionClose, ConnectionUpdateSecret

log = logging.getLogger("embermq.client")

CLOSE_S_MAX = 10.0
Callback = Callable[..., Coroutine[Any, Any, None] | None]


def connect_async(
    url: str | Sequence[str] = "amqp://localhost", **options: Unpack[ConnectOptions]
) -> Connecting:
    """Connect and wait until the broker has let us in; arguments as of `connect`.

    Await it, or use it in `async with`.
    """
    return Connecting(settings_of(url, **options))


class Connecting(Coroutine[Any, Any, "AsyncConnection"]):
    """`connection = await connect_async(url)`, or `async with connect_async(url) as connection:`."""

    def __init__(self, settings: Settings) -> None:
        self._coroutine = self._connect(settings)
        self._connection: AsyncConnection | None = None

    async def _connect(self, settings: Settings) -> AsyncConnection:
        connection = AsyncConnection(settings)
        await connection.start()
        return connection

    def __await__(self) -> Generator[Any, Any, AsyncConnection]:
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    async def __aenter__(self) -> AsyncConnection:
        self._connection = await self._coroutine
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._connection is not None
        await self._connection.__aexit__(kind, error, trace)


class AsyncConnection(ConnectionHandle):
    """An open connection. Use it in `async with`, or await `close`.

    The attributes `on_...` may be functions or coroutine functions.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.on_blocked: Callback | None = None
        self.on_unblocked: Callback | None = None
        self.on_lost: Callback | None = None
        self.on_reconnected: Callback | None = None
        self.endpoint: Endpoint | None = None
        self._engine = Engine(settings, self)
        self._channels: dict[ChannelCore, AsyncChannel] = {}
        self._protocol: ClientProtocol | None = None
        self._ended: asyncio.Future[ClientError] | None = None  # of this transport
        self._reached_open = False
        self._was_open = False
        self.closed_by_user = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread_id = threading.get_ident()
        self.loop = asyncio.get_running_loop()
        self._first: asyncio.Future[None] = self.loop.create_future()
        self._life: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        CONNECTIONS.add(self)

    # -- for users

    async def start(self) -> None:
        self._life = self.loop.create_task(self._live(), name="embermq-client")
        try:
            await asyncio.shield(self._first)
        except asyncio.CancelledError:
            self._life.cancel()
            raise

    async def channel(self, *, confirms: bool = True, prefetch: int | None = 1000) -> AsyncChannel:
        """Open a channel. With `confirms` every publish is answered for by the broker.

        `prefetch` is how many deliveries each consumer may have unsettled (None: no limit).
        """
        waiter = self.loop.create_future()
        request = Request(ChannelOpen(), waiter)
        core = self._engine.open_channel(request, confirming=confirms)
        channel = self._channels[core] = AsyncChannel(self, core)
        try:
            await self.wait(waiter, request.method.NAME)
            if prefetch is not None:
                await channel.qos(prefetch)
        except BaseException:
            core.request(Request(ChannelClose(200, "not wanted any more")))
            self.forget(core)
            self.flush()
            raise
        return channel

    async def close(self) -> None:
        """Close the connection. Publishes without their confirm fail with ConnectionClosed."""
        await self._end(politely=True)

    async def _end(self, *, politely: bool) -> None:
        self.closed_by_user = True
        self._stop.set()
        if self._engine.state == OPEN and politely:
            self._engine.buffer.write(method_frame(0, ConnectionClose(200, "goodbye")))
            self._engine.state = CLOSING
            self.flush()
        elif self._engine.state != CLOSING:
            self.ended(ConnectionClosed("the connection was closed by its user"))
        if self._life is not None and self._life is not asyncio.current_task():
            await asyncio.wait([self._life], timeout=CLOSE_S_MAX)
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    async def update_secret(self, secret: str, reason: str = "") -> None:
        """Give the broker a new token before the old one expires (OAuth 2)."""
        if self._engine.error is not None:
            raise self._engine.error
        waiter = self.loop.create_future()
        method = ConnectionUpdateSecret(secret.encode(), reason)
        self._engine.update_secret.append(Request(method, waiter))
        self._engine.buffer.write(method_frame(0, method))
        await self.wait(waiter, method.NAME)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A broker that takes no publishes does not read connection.close either: an error would wait for it.
        await self._end(politely=kind is None or self.blocked_reason is None)

    # -- for channels

    async def call(self, core: ChannelCore, request: Request, timeout_s: float | None = None) -> Any:
        """Send a request and wait for its answer."""
        waiter = request.waiter = self.loop.create_future()
        core.request(request)
        try:
            return await self.wait(waiter, request.method.NAME, timeout_s)
        except BaseException:
            request.abandon()
            self.flush()
            raise

    def tell(self, core: ChannelCore, request: Request) -> None:
        """Send a request without waiting for its answer."""
        waiter = request.waiter = self.loop.create_future()
        waiter.add_done_callback(lambda answered: answered.cancelled() or answered.exception())
        core.request(request)
        self.flush()

    async def wait(self, waiter: asyncio.Future[Any], what: str, timeout_s: float | None = None) -> Any:
        self.flush()
        limit_s = self.settings.call_timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await waiter
        except TimeoutError:
            if not waiter.cancelled():
                raise
            raise self.no_answer(what, limit_s) from None

    def flush(self) -> None:
        """Send what waits in the buffer now."""
        if self._protocol is not None:
            self._protocol.flush()

    def forget(self, core: ChannelCore) -> None:
        self._channels.pop(core, None)

    def background(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task that ends with the connection at the latest."""
        task = self.loop.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _leave_to_parent(self) -> None:
        self.closed_by_user = True
        self._protocol = None
        self._engine.leave_to_parent(
            ConnectionClosed("a connection does not survive fork(): connect in the new process")
        )

    def _place(self) -> Endpoint | None:
        return self.endpoint

    # -- the engine's shell

    def wake(self) -> None:
        if threading.get_ident() == self._thread_id:
            self.loop.call_soon(self.flush)
        else:  # a message is being settled in another thread
            self.loop.call_soon_threadsafe(self.flush)

    def opened(self) -> None:
        again, self._was_open = self._was_open, True
        self._reached_open = True
        if not self._first.done():
            self._first.set_result(None)
        if again:
            log.info("connection to %s is back, everything is restored", self.endpoint)
            self._tell(self.on_reconnected)

    def ended(self, error: ClientError) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(error)

    def happened(self, event: str, subject: object, detail: object) -> None:
        if event == "blocked":
            self._tell(self.on_blocked, detail)
        elif event == "unblocked":
            self._tell(self.on_unblocked)
        elif event == "returned":
            assert isinstance(subject, ChannelCore)
            assert isinstance(detail, Message)
            channel = self._channels.get(subject)
            if channel is not None:
                self._tell(channel.on_return, detail)
        elif event == "channel_closed":
            assert isinstance(subject, ChannelCore)
            self._channels.pop(subject, None)

    def _tell(self, callback: Callback | None, *arguments: object) -> None:
        if callback is not None:
            self.background(self._call_back(callback, *arguments), "embermq-callback")

    async def _call_back(self, callback: Callback, *arguments: object) -> None:
        try:
            result = callback(*arguments)
            if result is not None:
                await result
        except Exception:
            log.exception("a callback of the connection failed")

    # -- lives of the connection

    async def _live(self) -> None:
        try:
            error = await self._lives()
        except asyncio.CancelledError:
            if not self.closed_by_user and self._was_open:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._engine.lost(ConnectionClosed("the connection's task was cancelled"), final=True)
            raise
        except Exception as fault:
            log.exception("the client's task failed")
            error = ConnectionClosed(f"a fault in the client: {type(fault).__name__}: {fault}")
        self._engine.lost(error, final=True)
        if not self._first.done():
            self._first.set_exception(error)

    async def _lives(self) -> ClientError:
        """Connect again and again, until there is no point in it; why there is none."""
        attempts = Attempts(self.settings)
        while True:
            self._reached_open = False
            began_s = self.loop.time()
            error = await self._connect_and_serve(attempts.endpoint)
            if self.closed_by_user:
                return error
            lived_s = self.loop.time() - began_s
            pause_s = attempts.pause_after(error, was_open=self._reached_open, lived_s=lived_s)
            if pause_s is None:
                return error
            try:
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()
            except TimeoutError:
                continue
            return ConnectionClosed("the connection was closed by its user")

    async def _connect_and_serve(self, endpoint: Endpoint) -> ClientError:
        settings, engine = self.settings, self._engine
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                transport, protocol = await self.loop.create_connection(
                    lambda: ClientProtocol(engine, self.loop),
                    endpoint.host,
                    endpoint.port,
                    ssl=settings.tls,
                    server_hostname=(settings.server_hostname or endpoint.host) if settings.tls else None,
                )
        except OSError as failure:  # TimeoutError is one
            return not_connected(endpoint, settings, failure)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.endpoint = endpoint
        self._protocol = protocol
        self._ended = self.loop.create_future()
        try:
            engine.start()
            protocol.flush()
            error = await self._serve(protocol)
        finally:
            self._protocol = None
            await protocol.end()
        engine.lost(error, final=False)
        if self._reached_open and is_passing(error) and not self.closed_by_user:
            log.warning("connection to %s lost: %s", endpoint, error)
            self._tell(self.on_lost, error)
        return error

    async def _serve(self, protocol: ClientProtocol) -> ClientError:
        """Keep the clock of the connection until its transport ends."""
        heartbeat = Heartbeat(self._engine, self.loop.time())
        assert self._ended is not None
        while True:
            over: list[asyncio.Future[Any]] = [protocol.over, self._ended]
            await asyncio.wait(over, timeout=heartbeat.tick_s, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done():
                protocol.flush()
                return self._ended.result()
            if protocol.over.done():
                why = protocol.over.result() or "closed by the other side"
                return broken(self._engine, self.endpoint, self.settings, why)
            error = heartbeat.tick(self.loop.time())
            protocol.flush()
            if error is not None:
                protocol.transport.abort()
                return error


CONNECTIONS: weakref.WeakSet[AsyncConnection] = weakref.WeakSet()


def leave_all_to_parent() -> None:
    for connection in list(CONNECTIONS):
        connection._leave_to_parent()


os.register_at_fork(after_in_child=leave_all_to_parent)
