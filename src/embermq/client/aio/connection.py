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
from typing import Any, Unpack

from embermq.client.address import ConnectOptions, Endpoint, Settings, settings_of
from embermq.client.aio.channel import AsyncChannel
from embermq.client.aio.protocol import ClientProtocol
from embermq.client.calls import connection as calls
from embermq.client.calls.connection import ConnectionHandle
from embermq.client.calls.lives import Lives, live
from embermq.client.calls.with_block import AsyncWithBlock
from embermq.client.core.channel import ChannelCore
from embermq.client.core.engine import Engine
from embermq.client.core.heartbeat import Heartbeat
from embermq.client.core.request import Request
from embermq.client.errors import ClientError, ConnectionClosed
from embermq.client.failure_text import broken

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


class AsyncConnection(ConnectionHandle[AsyncChannel], Lives, AsyncWithBlock):
    """An open connection. Use it in `async with`, or await `close`.

    The attributes `on_...` may be functions or coroutine functions.
    """

    channel_type = AsyncChannel

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.on_blocked: Callback | None = None
        self.on_unblocked: Callback | None = None
        self.on_lost: Callback | None = None
        self.on_reconnected: Callback | None = None
        self.engine = Engine(settings, self)
        self._channels = {}
        self._protocol: ClientProtocol | None = None
        self._dialling: asyncio.Timeout | None = None
        self._ended: asyncio.Future[None] | None = None  # this transport is to be shut
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread_id = threading.get_ident()
        self.loop = asyncio.get_running_loop()
        self.first: asyncio.Future[None] = self.loop.create_future()
        self._life: asyncio.Task[None] | None = None
        self._stop: asyncio.Future[None] = self.loop.create_future()  # closed by its user
        CONNECTIONS.add(self)

    # -- for users

    async def start(self) -> None:
        self._life = self.loop.create_task(self._live(), name="embermq-client")
        try:
            await asyncio.shield(self.first)
        except asyncio.CancelledError:
            self.closed_by_user = True
            self._life.cancel()
            raise

    channel = calls.channel
    update_secret = calls.update_secret

    async def close(self) -> None:
        """Close the connection. Publishes without their confirm fail with ConnectionClosed."""
        await self._end(politely=True)

    async def _end(self, *, politely: bool) -> None:
        self.finish(politely)
        if not self._stop.done():
            self._stop.set_result(None)
        if self._dialling is not None and not self._dialling.expired():
            self._dialling.reschedule(0)
        self.flush()
        if self._life is not None and not self.is_closed and self._life is not asyncio.current_task():
            await asyncio.wait([self._life], timeout=CLOSE_S_MAX)
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    async def _leave(self, kind: type[BaseException] | None) -> None:
        # A broker that takes no publishes does not read connection.close either: an error would wait for it.
        await self._end(politely=kind is None or self.blocked_reason is None)

    # -- for channels

    def new_waiter(self) -> asyncio.Future[Any]:
        return self.loop.create_future()

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        function(*arguments)
        self.flush()

    async def call(self, core: ChannelCore, request: Request, timeout_s: float | None = None) -> Any:
        waiter = request.waiter = self.loop.create_future()
        core.request(request)
        try:
            return await self.wait(waiter, request.method.NAME, timeout_s)
        except BaseException:
            request.abandon()
            self.flush()
            raise

    def tell(self, core: ChannelCore, request: Request) -> None:
        waiter = request.waiter = self.loop.create_future()
        waiter.add_done_callback(lambda answered: answered.cancelled() or answered.exception())
        core.request(request)
        self.flush()

    async def wait(self, waiter: asyncio.Future[Any], what: str, timeout_s: float | None = None) -> Any:
        self.flush()
        if waiter.done():  # also in the child of a fork, which has no running loop
            return waiter.result()
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

    def background(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task that ends with the connection at the latest."""
        task = self.loop.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _leave_to_parent(self) -> None:
        self.closed_by_user = True
        self._protocol = None
        self.engine.leave_to_parent(
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

    def ended(self, error: ClientError) -> None:
        super().ended(error)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _tell_user(self, callback: Callback | None, *arguments: object) -> None:
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
            error = await live(self)
        except asyncio.CancelledError:
            if not self.closed_by_user and self.was_open:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            self.engine.lost(ConnectionClosed("the connection's task was cancelled"), final=True)
            raise
        self.engine.lost(error, final=True)
        if not self.first.done():
            self.first.set_exception(error)

    async def dial(self, endpoint: Endpoint) -> ClientProtocol:
        settings = self.settings
        try:
            async with asyncio.timeout(settings.connect_timeout_s) as self._dialling:
                transport, protocol = await self.loop.create_connection(
                    lambda: ClientProtocol(self.engine, self.loop),
                    endpoint.host,
                    endpoint.port,
                    ssl=settings.tls,
                    server_hostname=(settings.server_hostname or endpoint.host) if settings.tls else None,
                )
        finally:
            self._dialling = None
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return protocol

    async def pause(self, seconds: float) -> bool:
        await asyncio.wait([self._stop], timeout=seconds)
        return self.closed_by_user

    async def serve(self, transport: ClientProtocol) -> ClientError:
        """Keep the clock of the connection until its transport ends."""
        self._protocol = transport
        self._ended = self.loop.create_future()
        heartbeat = Heartbeat(self.engine, self.loop.time())
        while self.end is None:
            transport.flush()
            over: list[asyncio.Future[Any]] = [transport.over, self._ended]
            await asyncio.wait(over, timeout=heartbeat.tick_s, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done():
                break
            if transport.over.done():
                why = transport.over.result() or "closed by the other side"
                return broken(self.engine, self.endpoint, self.settings, why)
            error = heartbeat.tick(self.loop.time())
            if error is not None:
                transport.transport.abort()
                return error
        transport.flush()
        assert self.end is not None
        return self.end

    async def hang_up(self, transport: ClientProtocol) -> None:
        self._protocol = None
        await transport.end()


CONNECTIONS: weakref.WeakSet[AsyncConnection] = weakref.WeakSet()


def leave_all_to_parent() -> None:
    for connection in list(CONNECTIONS):
        connection._leave_to_parent()


os.register_at_fork(after_in_child=leave_all_to_parent)
