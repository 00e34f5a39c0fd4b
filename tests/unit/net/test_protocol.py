"""A connection that is lost leaves nothing behind, and needs no garbage collector for that."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from embermq.amqp.connection.connection import Connection
from embermq.app.app import App
from embermq.config.settings import TLS
from embermq.net.protocol import AMQPProtocol
from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER
from tests.support.amqp_conversation import HANDSHAKE, frames_of, publish, start_ok
from tests.support.certificates import Authority
from tests.unit.net.test_server import play

OPENED = HANDSHAKE + frames_of([methods.ChannelOpen()], 1)
CONSUMING = [methods.QueueDeclare(queue="q"), methods.BasicConsume(queue="q")]
HELD_MAX = 4  # of 72: threads (that sync, that hash passwords) know whom they told last
BEGINNINGS = {
    "nothing": b"",
    "header": PROTOCOL_HEADER,
    "no AMQP": b"GET / HTTP/1.1\r\n\r\n",
    "half a login": PROTOCOL_HEADER + frames_of([start_ok()])[:-9],
    "a wrong password": PROTOCOL_HEADER + frames_of([start_ok(response=b"\0guest\0wrong")]),
    "open": OPENED,
    "a frame that is none": OPENED + bytes(100),
    "messages": OPENED + frames_of(CONSUMING, 1) + publish("q", b"x" * 1000) * 10,
    "close": OPENED + frames_of([methods.ConnectionClose(200, "", 0, 0)]),
}


def alive() -> int:
    return sum(isinstance(each, AMQPProtocol | Connection) for each in gc.get_objects())


async def come_and_go(port: int, beginning: bytes, reset: bool, context: ssl.SSLContext | None) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(beginning)
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(0.02):
            while await reader.read(4096):
                pass
    if reset:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    writer.close()
    with suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_lost_connection_is_freed_at_once(
    tmp_path: Path, tls: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "embermq")  # what pytest keeps of a log are errors with their frames
    monkeypatch.setattr("embermq.net.protocol.LINGER_S_MAX", 0.1)
    monkeypatch.setattr("embermq.amqp.connection.connection.LAST_WORDS_S", 0.1)
    monkeypatch.setattr("embermq.amqp.connection.connection.FRAME_ERROR_PAUSE_S", 0.1)
    certificate = Authority(tmp_path).issue("server")
    context = ssl._create_unverified_context() if tls else None

    async def scenario(app: App) -> None:
        gc.collect()
        before = alive()
        gc.disable()
        try:
            for beginning in BEGINNINGS.values():
                port = app.listeners.port("amqp/ssl") if tls else app.amqp_port
                await asyncio.gather(
                    *(come_and_go(port, beginning, number % 2 == 0, context) for number in range(4))
                )
            while app.server.protocols or alive() > before + HELD_MAX:
                await asyncio.sleep(0.05)  # until the last timers have let go; `play` has a limit
        finally:
            gc.enable()

    play(tmp_path, scenario, tls=TLS(str(certificate), amqp_port=0, http_port=0))
