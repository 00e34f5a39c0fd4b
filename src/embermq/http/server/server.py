"""HTTP/1.1 on the broker's loop: h11 knows the protocol, this module owns the sockets and the bounds.

One request at a time per connection, and nothing is read before it is needed: first the head, which names
the user and the route, then the body, of which a client that has not logged in may send next to nothing.
Everything has a bound: the head and the number of its headers, the body and the number of its chunks, the
time for each of them, the connections. What is read is parsed in steps between which messages pass. So a
flood of requests costs some memory and some turns of the loop, never the message path.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import http
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import cast

import h11

from embermq.http.console.refresh import SCRIPT_HASH
from embermq.http.server.connection_limit import Places
from embermq.http.server.cooperative import Steps, StepScheduler
from embermq.http.server.request import Incoming, Refusal, Response

log = logging.getLogger("embermq.http")

AMQP = b"AMQP"  # what every client of that begins with
FIRST_OF_TEXT = 0x21
HEAD_BYTES_MAX = 16 * 1024
HEAD_LINES_MAX = 100
CHUNKS_MAX = 20_000
BODIES_BYTES_MAX = 64 * 1024 * 1024  # of all connections together, while they are being received
STRANGERS_MAX = 128  # connections that have not logged in
CONNECTIONS_MAX = 256  # those that have

HEAD_S_MAX = 10.0  # from its first byte, or from the connection's beginning
BODY_S_MAX = 10.0  # and longer for large ones:
BODY_BYTES_PER_S_MIN = 64 * 1024
IDLE_S_MAX = 60.0  # between the requests of one that has logged in, or while an answer is not read
LINGER_S = 2.0  # for what is still on its way to us when we have said that we want no more of it
SMALL_BODY_BYTES = 4096  # is read although it is not wanted, so that the connection can go on
WRITE_PIECE_BYTES = 32 * 1024  # the system copies it, and messages wait meanwhile

END_OF_HEAD = re.compile(rb"\n\r?\n")

Answer = Callable[[Incoming], Awaitable[Response]]

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
CLOSE = (b"connection", b"close")


class HTTPServer:
    def __init__(self, answer: Answer, loop: asyncio.AbstractEventLoop, scheduler: StepScheduler) -> None:
        self.scheduler = scheduler
        self.answer = answer
        self.loop = loop
        self.protocols: set[HTTPProtocol] = set()
        self.login_throttle = Places(STRANGERS_MAX, interrupts=True)
        self.known = Places(CONNECTIONS_MAX)
        self.bodies_bytes = 0
        self.network_of: Callable[[str], str] = str  # what counts as one address; told by the listeners' room

    def arrived(self, peer_address: str) -> HTTPProtocol:
        """What a listener calls for each connection; the address is told where a proxy told it."""
        return HTTPProtocol(self, peer_address)

    def logged_in(self, protocol: HTTPProtocol) -> None:
        """It no longer competes with those that have not."""
        if protocol in self.known:
            self.known.used(protocol)
        elif self.known.enter(protocol):
            self.login_throttle.leave(protocol)

    def left(self, protocol: HTTPProtocol) -> None:
        self.protocols.discard(protocol)
        self.login_throttle.leave(protocol)
        self.known.leave(protocol)

    async def stop(self) -> None:
        for protocol in list(self.protocols):
            protocol.abort()
        await asyncio.sleep(0)


class HTTPProtocol(asyncio.Protocol):
    def __init__(self, server: HTTPServer, peer_address: str = "") -> None:
        self.server = server
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.conversation = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self.received = bytearray()  # and not parsed yet; one read of the socket at most
        self.arrived = asyncio.Event()
        self.discards = False
        self.body_bytes = 0
        self.task: asyncio.Task[None] | None = None
        self.peer_address = peer_address
        self.address = ""
        self.waits_for_client = False
        self.writable = asyncio.Event()
        self.writable.set()

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("",)
        self.peer_address = self.peer_address or str(peer[0])
        self.address = self.server.network_of(self.peer_address)
        if not self.server.login_throttle.enter(self):
            self.transport.abort()
            return
        self.server.protocols.add(self)
        self.task = self.server.loop.create_task(self.converse())

    def data_received(self, data: bytes) -> None:
        if self.discards:
            return
        # No more before this is parsed: a client that sends ahead fills the system's buffers, not ours.
        self.transport.pause_reading()
        self.received += data
        self.arrived.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.left(self)
        self.writable.set()
        task, self.task = self.task, None  # which keeps how it was cancelled, with frames that hold us
        if task is not None:
            task.cancel()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def abort(self) -> None:
        self.transport.abort()

    # -- one request after the other

    async def converse(self) -> None:
        try:
            while await self.exchange():
                self.next_conversation()
        except Gone:
            pass
        except h11.RemoteProtocolError as error:
            await self.refuse(error)
        except TimeoutError:
            await self.refuse(h11.RemoteProtocolError("the request took too long", error_status_hint=408))
        except Exception:
            log.exception("a connection of %s: a fault of ours", self.peer_address)
        finally:
            self.drop_body()
            if not self.transport.is_closing():
                self.transport.close()

    def next_conversation(self) -> None:
        """What was sent ahead is kept."""
        self.received[:0] = self.conversation.trailing_data[0]
        self.conversation = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)

    async def exchange(self) -> bool:
        """A request and its answer; False when that was the last one."""
        head = await self.read_head()
        steps = Steps(self.server.scheduler)
        await steps.next()
        incoming = Incoming(
            method=head.method.decode("ascii"),
            target=head.target.decode("latin-1"),
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
            peer_address=self.peer_address,
            read_body=lambda bytes_max: self.read_body(head, bytes_max, steps),
            on_login=lambda: self.server.logged_in(self),
            is_tls=self.transport.get_extra_info("ssl_object") is not None,
        )
        response = await self.answer_to(incoming)
        self.drop_body()
        has_all = await self.skip_body(head, steps)
        await steps.next()
        if self.transport.is_closing():
            return False
        await self.respond(response, steps, with_body=incoming.method != "HEAD", is_last=not has_all)
        if not has_all:
            await self.linger()
        return self.conversation.our_state is h11.DONE and self.conversation.their_state is h11.DONE

    async def answer_to(self, incoming: Incoming) -> Response:
        try:
            return await self.server.answer(incoming)
        except (h11.RemoteProtocolError, BodyTooLate, Gone):
            raise
        except Exception:
            log.exception("%s %s: a fault of ours", incoming.method, incoming.target)
            return Response.of({"error": "internal_error", "reason": "see the broker's log"}, 500)

    # -- requests in

    async def more(self) -> None:
        """Wait for something to be received."""
        if self.transport.is_closing():
            raise Gone
        self.arrived.clear()
        self.transport.resume_reading()
        self.waits_for_client = True
        try:
            await self.arrived.wait()
        finally:
            self.waits_for_client = False

    async def read_head(self) -> h11.Request:
        if not self.received:
            is_known = self in self.server.known
            try:
                async with asyncio.timeout(IDLE_S_MAX if is_known else HEAD_S_MAX):
                    await self.more()
            except TimeoutError:  # no client waits for an answer
                raise Gone from None
        searched = 0
        async with asyncio.timeout(HEAD_S_MAX):
            while (end := END_OF_HEAD.search(self.received, max(0, searched - 2))) is None:
                searched = len(self.received)
                if searched > HEAD_BYTES_MAX:
                    raise too_long_head()
                if self.received[0] < FIRST_OF_TEXT or self.received.startswith(AMQP):
                    break  # a client at the wrong port may say no more, and wait for its answer
                await self.more()
        stop = len(self.received) if end is None else end.end()
        data = bytes(self.received[:stop])
        del self.received[:stop]
        if data.startswith(AMQP):
            raise h11.RemoteProtocolError("this port speaks HTTP; AMQP has another one")
        if len(data) > HEAD_BYTES_MAX or data.count(b"\n") > HEAD_LINES_MAX:
            raise too_long_head()
        self.conversation.receive_data(data)
        head = self.conversation.next_event()
        if not isinstance(head, h11.Request):
            raise h11.RemoteProtocolError("this is no request of HTTP")
        return head

    async def read_body(self, head: h11.Request, bytes_max: int, steps: Steps) -> bytes:
        for name, value in head.headers:
            if name == b"content-length" and int(value) > bytes_max:
                raise too_large(bytes_max)  # it need not be read
        try:
            async with asyncio.timeout(BODY_S_MAX + bytes_max / BODY_BYTES_PER_S_MIN):
                return await self.body_until_end(bytes_max, steps)
        except TimeoutError:
            raise BodyTooLate from None

    async def body_until_end(self, bytes_max: int, steps: Steps) -> bytes:
        pieces: list[bytes] = []
        chunk_count = 0
        while True:
            event = self.conversation.next_event()
            if event is h11.NEED_DATA:
                if self.conversation.they_are_waiting_for_100_continue:
                    self.send(h11.InformationalResponse(status_code=100, headers=[]))
                if not self.received:
                    await self.more()
                self.conversation.receive_data(bytes(self.received))
                self.received.clear()
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                self.body_bytes += len(pieces[-1])
                self.server.bodies_bytes += len(pieces[-1])
                chunk_count += event.chunk_start
                if self.body_bytes > bytes_max:
                    raise too_large(bytes_max)
                if chunk_count > CHUNKS_MAX:
                    raise h11.RemoteProtocolError(f"a body has at most {CHUNKS_MAX} chunks", 413)
                if self.server.bodies_bytes > BODIES_BYTES_MAX:
                    raise h11.RemoteProtocolError("too many large bodies at once; try again", 503)
                await steps.pause()
            else:
                return b"".join(pieces)

    async def skip_body(self, head: h11.Request, steps: Steps) -> bool:
        """Of a request that was answered by its head. False: it is too large to wait for."""
        if self.conversation.their_state is not h11.SEND_BODY:
            return True
        if self.conversation.they_are_waiting_for_100_continue:
            return False
        try:
            await self.read_body(head, SMALL_BODY_BYTES, steps)
        except (h11.RemoteProtocolError, BodyTooLate):
            return False
        finally:
            self.drop_body()
        return True

    def drop_body(self) -> None:
        self.server.bodies_bytes -= self.body_bytes
        self.body_bytes = 0

    # -- responses out

    async def respond(self, response: Response, steps: Steps, *, with_body: bool, is_last: bool) -> None:
        self.send(self.head_of(response, is_last))
        if with_body:
            for start in range(0, len(response.body), WRITE_PIECE_BYTES):
                self.send(h11.Data(data=response.body[start : start + WRITE_PIECE_BYTES]))
                await steps.next()
                if not self.writable.is_set():
                    await self.until_read()
                if self.transport.is_closing():
                    return
            if response.endless is not None:
                await self.go_on_sending(response.endless)
        self.send(h11.EndOfMessage())

    async def go_on_sending(self, pieces: AsyncGenerator[bytes]) -> None:
        """Piece by piece. A client that does not read is left, and one that has gone is noticed."""
        self.discards = True
        self.received.clear()
        self.transport.resume_reading()
        self.waits_for_client = True
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if not self.writable.is_set():
                    self.abort()
                    raise Gone
                self.send(h11.Data(data=piece))

    async def until_read(self) -> None:
        """Wait for a slow reader; one that does not read at all is left."""
        self.waits_for_client = True
        try:
            async with asyncio.timeout(IDLE_S_MAX):
                await self.writable.wait()
        except TimeoutError:
            self.abort()
        finally:
            self.waits_for_client = False

    def head_of(self, response: Response, is_last: bool) -> h11.Response:
        headers = [(b"server", b"EmberMQ"), (b"date", email.utils.formatdate(usegmt=True).encode())]
        own = {name.encode() for name, _ in response.headers}
        headers += [header for header in SAFE_HEADERS if header[0] not in own]
        if response.body or response.endless is not None:
            headers.append((b"content-type", response.content_type.encode()))
        if response.endless is not None:
            headers.append(CLOSE)
        elif response.status not in (204, 304):
            headers.append((b"content-length", str(len(response.body)).encode()))
        headers += [(name.encode(), value.encode("latin-1")) for name, value in response.headers]
        if is_last and response.endless is None:
            headers.append(CLOSE)
        # Clients show the reason to people, and tests look for it ("401 Unauthorized").
        reason = http.HTTPStatus(response.status).phrase.encode()
        return h11.Response(status_code=response.status, headers=headers, reason=reason)

    def send(self, event: h11.Event) -> None:
        data = self.conversation.send(event)
        if data and not self.transport.is_closing():
            self.transport.write(data)

    async def refuse(self, error: h11.RemoteProtocolError) -> None:
        """What came is no HTTP, or too much of it: say so if that is still possible, and close."""
        if self.conversation.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = Refusal(error.error_status_hint, "bad_request", str(error)).response
            self.send(self.head_of(response, is_last=True))
            self.send(h11.Data(data=response.body))
            self.send(h11.EndOfMessage())
            await self.linger()

    async def linger(self) -> None:
        """A socket that is closed while there is something to read resets the connection, and the client
        would not get to read what was answered. So what still comes is thrown away for a while."""
        if self.transport.is_closing():
            return
        self.discards = True
        self.received.clear()
        self.transport.resume_reading()
        self.waits_for_client = True
        await asyncio.sleep(LINGER_S)  # connection_lost ends it


class Gone(Exception):
    """The client is no longer there, or has nothing to ask."""


class BodyTooLate(TimeoutError):
    """The client did not send what it announced."""


def too_long_head() -> h11.RemoteProtocolError:
    text = f"the head of a request has at most {HEAD_BYTES_MAX} bytes and {HEAD_LINES_MAX} lines"
    return h11.RemoteProtocolError(text, 431)


def too_large(bytes_max: int) -> h11.RemoteProtocolError:
    return h11.RemoteProtocolError(f"the body of this request has at most {bytes_max} bytes", 413)
