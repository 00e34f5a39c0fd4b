"""HTTP/1.1 on the broker's loop: h11 knows the protocol, this module owns the sockets and the bounds.

One request at a time per connection; what a client sends ahead waits in h11. Everything has a bound: the head
of a request, its body, the connections, the time that a connection may idle. So a flood of requests costs
some memory and some turns of the loop, never the message path.
"""

from __future__ import annotations

import asyncio
import email.utils
import http
import logging
from collections.abc import Awaitable, Callable
from typing import cast

import h11

from embermq.http.pace import Gate, Pace
from embermq.http.pages.refresh import SCRIPT_HASH
from embermq.http.request import Refusal, Response

log = logging.getLogger("embermq.http")

AMQP = b"AMQP"  # what every client of that begins with
HEAD_BYTES_MAX = 32 * 1024
BODY_BYTES_MAX = 32 * 1024 * 1024
BODIES_BYTES_MAX = 64 * 1024 * 1024  # of all connections together, while they are being received
CONNECTIONS_MAX = 256
IDLE_S_MAX = 60.0
WRITE_PIECE_BYTES = 32 * 1024  # the system copies it, and messages wait meanwhile

# method, target, headers, body, peer's address -> response
Answer = Callable[[str, str, dict[str, str], bytes, str], Awaitable[Response]]

SAFE_HEADERS = [
    (b"cache-control", b"no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; "
        b"script-src 'sha256-" + SCRIPT_HASH.encode() + b"'; connect-src 'self'",
    ),
]


class HTTPServer:
    def __init__(self, answer: Answer, loop: asyncio.AbstractEventLoop, gate: Gate) -> None:
        self.gate = gate
        self.answer = answer
        self.loop = loop
        self.protocols: set[HTTPProtocol] = set()
        self.bodies_bytes = 0

    def arrived(self, peer_address: str) -> HTTPProtocol:
        """What a listener calls for each connection; the address is told where a proxy told it."""
        return HTTPProtocol(self, peer_address)

    async def stop(self) -> None:
        for protocol in list(self.protocols):
            protocol.abort()
        await asyncio.sleep(0)


class HTTPProtocol(asyncio.Protocol):
    def __init__(self, server: HTTPServer, peer_address: str = "") -> None:
        self.server = server
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.conversation = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self.head: h11.Request | None = None
        self.body: list[bytes] = []
        self.body_bytes = 0
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.peer_address = peer_address
        self.writable = asyncio.Event()
        self.writable.set()

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("",)
        self.peer_address = self.peer_address or str(peer[0])
        self.server.protocols.add(self)
        if len(self.server.protocols) > CONNECTIONS_MAX:
            self.transport.abort()
            return
        self.watch()

    def data_received(self, data: bytes) -> None:
        try:
            if data.startswith(AMQP) and self.conversation.their_state is h11.IDLE:
                # A client at the wrong port says no more, and would wait for its answer until it gives up.
                raise h11.RemoteProtocolError("this port speaks HTTP; AMQP has another one")
            self.conversation.receive_data(data)
            self.work()
        except h11.RemoteProtocolError as error:
            self.refuse(error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.protocols.discard(self)
        self.drop_body()
        self.writable.set()
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None:
            self.task.cancel()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    # -- requests in

    def work(self) -> None:
        """Take the events that are there, until a request is whole."""
        while self.task is None:
            event = self.conversation.next_event()
            if event is h11.NEED_DATA:
                if self.conversation.they_are_waiting_for_100_continue:
                    self.send(h11.InformationalResponse(status_code=100, headers=[]))
                return
            if event is h11.PAUSED:
                self.transport.pause_reading()
                return
            if isinstance(event, h11.Request):
                self.head = event
                self.check_announced(event)
            elif isinstance(event, h11.Data):
                self.take(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self.unwatch()
                # Nothing more is read while this request is answered: h11 need not hold what is sent ahead.
                self.transport.pause_reading()
                self.task = self.server.loop.create_task(self.serve())
            else:
                return

    def check_announced(self, head: h11.Request) -> None:
        """A body that says itself that it is too large need not be read."""
        for name, value in head.headers:
            if name == b"content-length" and int(value) > BODY_BYTES_MAX:
                raise too_large()

    def take(self, data: bytes) -> None:
        self.body_bytes += len(data)
        self.server.bodies_bytes += len(data)
        if self.body_bytes > BODY_BYTES_MAX or self.server.bodies_bytes > BODIES_BYTES_MAX:
            raise too_large()
        self.body.append(data)

    def drop_body(self) -> None:
        self.server.bodies_bytes -= self.body_bytes
        self.body, self.body_bytes = [], 0

    async def serve(self) -> None:
        head = self.head
        assert head is not None
        pace = Pace(self.server.gate)
        await pace.step()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        method, target = head.method.decode("ascii"), head.target.decode("latin-1")
        body = b"".join(self.body)
        self.drop_body()
        try:
            response = await self.server.answer(method, target, headers, body, self.peer_address)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s %s: a fault of ours", method, target)
            response = Response.of({"error": "internal_error", "reason": "see the broker's log"}, 500)
        await pace.step()
        if self.transport.is_closing():
            return
        await self.respond(response, pace, with_body=method != "HEAD")
        self.next_request()

    def next_request(self) -> None:
        self.task = None
        if self.conversation.our_state is h11.MUST_CLOSE or self.conversation.their_state is h11.MUST_CLOSE:
            self.transport.close()
            return
        try:
            self.conversation.start_next_cycle()
            self.watch()
            self.transport.resume_reading()
            self.work()
        except h11.RemoteProtocolError as error:
            self.refuse(error)
        except h11.LocalProtocolError:
            self.transport.close()

    # -- responses out

    async def respond(self, response: Response, pace: Pace, with_body: bool = True) -> None:
        self.send(self.head_of(response))
        if with_body:
            for start in range(0, len(response.body), WRITE_PIECE_BYTES):
                self.send(h11.Data(data=response.body[start : start + WRITE_PIECE_BYTES]))
                await pace.step()
                if not self.writable.is_set():
                    await self.until_read()
                if self.transport.is_closing():
                    return
        self.send(h11.EndOfMessage())

    async def until_read(self) -> None:
        """Wait for a slow reader; one that does not read at all is left."""
        try:
            async with asyncio.timeout(IDLE_S_MAX):
                await self.writable.wait()
        except TimeoutError:
            self.abort()

    def head_of(self, response: Response) -> h11.Response:
        headers = [(b"server", b"EmberMQ"), (b"date", email.utils.formatdate(usegmt=True).encode())]
        headers += SAFE_HEADERS
        if response.body:
            headers.append((b"content-type", response.content_type.encode()))
        if response.status != 204:
            headers.append((b"content-length", str(len(response.body)).encode()))
        headers += [(name.encode(), value.encode("latin-1")) for name, value in response.headers]
        # Clients show the reason to people, and tests look for it ("401 Unauthorized").
        reason = http.HTTPStatus(response.status).phrase.encode()
        return h11.Response(status_code=response.status, headers=headers, reason=reason)

    def send(self, event: h11.Event) -> None:
        data = self.conversation.send(event)
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def refuse(self, error: h11.RemoteProtocolError) -> None:
        """What came is no HTTP, or too much of it: say so if that is still possible, and close."""
        if self.conversation.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = Refusal(error.error_status_hint, "bad_request", str(error)).response
            head = self.head_of(response)
            head = h11.Response(
                status_code=head.status_code, headers=[*head.headers, CLOSE], reason=head.reason
            )
            self.send(head)
            self.send(h11.Data(data=response.body))
            self.send(h11.EndOfMessage())
        self.transport.close()

    # -- time

    def watch(self) -> None:
        self.unwatch()
        self.timer = self.server.loop.call_later(IDLE_S_MAX, self.abort)

    def unwatch(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def abort(self) -> None:
        self.transport.abort()


CLOSE = (b"connection", b"close")


def too_large() -> h11.RemoteProtocolError:
    return h11.RemoteProtocolError("the body is too large", error_status_hint=413)
