"""A proxy between client and broker, in a thread: with TLS, or deaf when the test says so."""

from __future__ import annotations

import asyncio
import ssl
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """`port` is where it listens; `deaf` stops all forwarding; `cut` ends every connection."""

    def __init__(self, target_port: int, tls: ssl.SSLContext | None = None) -> None:
        self.deaf = False
        self.accepted = 0
        self.port = 0
        self._target_port = target_port
        self._tls = tls
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))

    async def _run(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        self._cut()
        await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        pair = {writer, broker_writer}
        self._writers |= pair
        try:
            await asyncio.wait(
                [
                    asyncio.create_task(self._pump(reader, broker_writer)),
                    asyncio.create_task(self._pump(broker_reader, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._writers -= pair
            for one in pair:
                one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if not self.deaf:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._cut)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        self._loop.close()
