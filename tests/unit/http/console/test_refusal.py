"""A request that is refused leaves nothing behind, and needs no garbage collector for that."""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import ssl
from contextlib import suppress
from pathlib import Path

import h11
import pytest

from embermq.app.app import App
from embermq.config.settings import TLS
from embermq.errors import AMQPError
from embermq.http.server.request import Refusal, Request
from embermq.http.server.server import HTTPProtocol
from tests.support.certificates import Authority
from tests.unit.net.test_server import play

TIMES = 4  # each of them
HELD_MAX = 4  # of many more: threads (that hash passwords) know whom they told last


def request(line: str, login: str = "guest:guest", body: bytes = b"", more: str = "") -> bytes:
    authorization = f"Authorization: Basic {base64.b64encode(login.encode()).decode()}\r\n" if login else ""
    head = f"{line} HTTP/1.1\r\nHost: x\r\n{authorization}Content-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


REFUSED = {
    "no login": (401, request("GET /api/overview", login="")),
    "a wrong password": (401, request("GET /api/overview", login="guest:wrong")),
    "nothing there": (404, request("GET /api/queues/%2F/none")),
    "no such path": (404, request("GET /api/none")),
    "a page": (404, request("GET /queues/none", more="Accept: text/html\r\n")),
    "no JSON": (400, request("PUT /api/queues/%2F/q", body=b"{")),
    "a reserved name": (401, request("PUT /api/queues/%2F/amq.q", body=b"{}")),
    "AMQP refuses it": (400, request("PUT /api/queues/%2F/q", body=b'{"arguments":{"x-max-length":-1}}')),
    "another site": (403, request("PUT /api/queues/%2F/q", body=b"{}", more="Origin: http://other\r\n")),
    "too many fields": (400, request("GET /api/overview?" + "a=1&" * 200)),
    "a method that there is not": (405, request("DELETE /api/overview")),
    "a long head": (431, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 200 + b"\r\n"),
    "a large body": (413, request("PUT /api/queues/%2F/q").replace(b"Length: 0", b"Length: 99999999")),
    "no HTTP": (400, b"AMQP\x00\x00\x09\x01"),
}


def alive() -> int:
    kinds = Refusal | AMQPError | h11.RemoteProtocolError | Request | HTTPProtocol
    return sum(isinstance(each, kinds) for each in gc.get_objects())


async def status_of(port: int, sent: bytes, context: ssl.SSLContext | None) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(sent)
    line = await reader.readline()
    writer.close()
    with suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
    return int(line.split()[1])


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_refused_request_is_freed_at_once(
    tmp_path: Path, tls: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "embermq")  # what pytest keeps of a log are errors with their frames
    certificate = Authority(tmp_path).issue("server")
    context = ssl._create_unverified_context() if tls else None

    async def scenario(app: App) -> None:
        port = app.listeners.port("https") if tls else app.http_port
        gc.collect()
        before = alive()
        gc.disable()
        try:
            for what, (status, sent) in REFUSED.items():
                for _ in range(TIMES):
                    assert await status_of(port, sent, context) == status, what
            for _ in range(400):  # until the last tasks have let go
                if not app.management.server.protocols and alive() <= before + HELD_MAX:
                    break
                await asyncio.sleep(0.05)
            assert alive() - before <= HELD_MAX
        finally:
            gc.enable()

    play(tmp_path, scenario, tls=TLS(str(certificate), amqp_port=0, http_port=0))
