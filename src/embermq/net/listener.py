"""A listening socket: with TLS or without, for clients or for proxies in front of them.

Both may change while it listens (other certificates, other proxies): that counts for new connections,
the others stay. Options of a listening socket pass to those that it accepts.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from embermq.deadline import Deadline
from embermq.net.login_admission import LoginAdmission, Place
from embermq.net.proxy_protocol import Network, Peer, ProxyError, is_trusted, read_header, readable

log = logging.getLogger("embermq.net")

BACKLOG = 4096  # connections not accepted yet; the system may allow less
ACCEPTS_PER_TURN_MAX = 16  # each is some 0.2 ms of work soon after
NO_FILES_PAUSE_S = 1.0
KEEPALIVE_PROBES = 3
HANDSHAKE_S_MIN = 0.1  # for a client whose turn has come when its time was nearly over
FREE_PORT_ATTEMPTS = 20  # to find one that is free at every address

# Makes the protocol for a connection: the peer where a proxy told it, and its place in the login admission.
Factory = Callable[[Peer | None, Place], asyncio.BaseProtocol]


@dataclass(frozen=True)
class ListenerOptions:
    """How connections are accepted."""

    context: ssl.SSLContext | None = None
    trusted: tuple[Network, ...] = ()
    handshake_s: float = 10.0


def open_sockets(host: str, port: int) -> list[socket.socket]:
    """One for each address of the host, all with the same port; for `::` one of IPv4, too."""
    for _ in range(0 if port else FREE_PORT_ATTEMPTS):
        try:
            return open_at(host, 0)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:  # free at the first address is not free at all of them
                raise
    return open_at(host, port)


def open_at(host: str, port: int) -> list[socket.socket]:
    made: list[socket.socket] = []
    try:
        infos = [
            info
            for each in ((host, "0.0.0.0") if host == "::" else (host,))
            for info in socket.getaddrinfo(each, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ]
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            sock = socket.socket(family, kind, protocol)
            made.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port, *address[2:]))
            port = port or sock.getsockname()[1]
    except OSError as error:
        for sock in made:
            sock.close()
        reason = (error.strerror or str(error)).lower()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from None
    return made


def set_options(sock: socket.socket, keepalive_s: int, user_timeout_s: int) -> None:
    """For peers that vanish without a word; accepted sockets inherit it."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    if keepalive_s:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keepalive_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, keepalive_s // KEEPALIVE_PROBES))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
    if user_timeout_s and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_s * 1000)


class Listener:
    """Accepts by itself, not by asyncio's server: that would accept all connections, however many there are.

    Every connection needs a place (`login_admission`) before anything is done for it: one of its proxy's
    address while the header of that is read, and one of its own address from then on.
    """

    def __init__(
        self,
        protocol: str,
        sock: socket.socket,
        factory: Factory,
        admission: LoginAdmission,
        logs_in: bool = True,
    ) -> None:
        self.protocol = protocol  # "amqp", "https": for people
        self.socket = sock
        self.factory = factory
        self.admission = admission
        self.logs_in = logs_in  # the protocol leaves its place with the login; else the end of TLS does
        self.options = ListenerOptions()
        self.handshakes: set[asyncio.Task[None]] = set()  # headers of proxies, TLS
        self.connecting: set[asyncio.Task[None]] = set()
        self.reading = False
        self.pause: Deadline | None = None  # for want of descriptors

    @property
    def address(self) -> tuple[str, int]:
        name = self.socket.getsockname()
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else (str(name), 0)

    def accept(self, options: ListenerOptions) -> None:
        """Begin, or go on with other options; there is no moment without a listening socket."""
        self.options = options
        self.socket.setblocking(False)
        self.socket.listen(BACKLOG)
        self.start_reading()

    async def close(self) -> None:
        """Accept no more, and wait until what was accepted is the protocol's or closed."""
        self.stop_reading()
        if self.pause is not None:
            self.pause.cancel()
        self.socket.close()
        for _ in range(2):  # a task or a transport that has not begun cannot be cancelled in good order
            await asyncio.sleep(0)
        for task in self.handshakes:
            task.cancel()
        # Not cancelled: uvloop would close the transport without telling the protocol that it has had.
        under_way = self.handshakes | self.connecting
        if under_way:
            await asyncio.wait(under_way)

    def start_reading(self) -> None:
        if not self.reading and self.socket.fileno() >= 0:
            self.reading = True
            asyncio.get_running_loop().add_reader(self.socket, self.on_arrival)

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            asyncio.get_running_loop().remove_reader(self.socket)

    def on_arrival(self) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX):
            try:
                sock, address = self.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("cannot accept connections: %s", error)
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self.stop_reading()
                    self.pause = Deadline(asyncio.get_running_loop().call_later, self.start_reading)
                    self.pause.set(NO_FILES_PAUSE_S)
                return
            sock.setblocking(False)
            host = str(address[0]) if isinstance(address, tuple) else ""
            if is_trusted(host, self.options.trusted):
                self.admission.arrive(sock, host, partial(self.hear_proxy, host))
            else:
                self.admit(sock, host, None)

    def hear_proxy(self, host: str, sock: socket.socket, place: Place) -> None:
        """Whose connection is it?"""
        self.begin(self.handshakes, self.read_header(sock, place, host), sock, host)

    async def read_header(self, sock: socket.socket, place: Place, host: str) -> None:
        try:
            async with asyncio.timeout(self.options.handshake_s):
                peer = await read_header(sock)
        finally:
            place.leave()
        self.admit(sock, host if peer is None else peer.host, peer)

    def admit(self, sock: socket.socket, host: str, peer: Peer | None) -> None:
        self.admission.arrive(sock, host, partial(self.connect, host, peer))

    def connect(self, host: str, peer: Peer | None, sock: socket.socket, place: Place) -> None:
        tasks = self.connecting if self.options.context is None else self.handshakes
        self.begin(tasks, self.make_transport(sock, peer, place), sock, host)

    async def make_transport(self, sock: socket.socket, peer: Peer | None, place: Place) -> None:
        """Give it to the protocol, after TLS where there is TLS."""
        options, loop = self.options, asyncio.get_running_loop()
        left_s = None
        try:
            if options.context is not None:
                until = loop.time() + options.handshake_s
                async with asyncio.timeout_at(until):
                    await self.handshake_turn(sock)
                left_s = max(HANDSHAKE_S_MIN, until - loop.time())
            await loop.connect_accepted_socket(
                lambda: self.factory(peer, place), sock, ssl=options.context, ssl_handshake_timeout=left_s
            )
        except BaseException:
            place.leave()
            raise
        if not self.logs_in:
            place.leave()

    async def handshake_turn(self, sock: socket.socket) -> None:
        """Until the client has begun with TLS, and then one by one.

        Our part of a handshake takes a millisecond or more, so there is one in a pass of the loop, and
        messages have their turn in between.
        """
        await readable(sock)
        async with self.admission.handshaking:
            await asyncio.sleep(0)

    def begin(
        self,
        tasks: set[asyncio.Task[None]],
        work: Coroutine[Any, Any, None],
        sock: socket.socket,
        host: str,
    ) -> None:
        task = asyncio.get_running_loop().create_task(self.attempt(work, sock, host))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def attempt(self, work: Coroutine[Any, Any, None], sock: socket.socket, host: str) -> None:
        try:
            await work
        except BaseException as error:
            with contextlib.suppress(OSError):
                sock.close()
            if not isinstance(error, (ProxyError, OSError, TimeoutError)):
                raise
            why = str(error) or "it took too long"
            log.warning("%s: a connection to %s failed: %s", host, self.protocol, why)


async def close_all(listeners: Sequence[Listener]) -> None:
    await asyncio.gather(*(listener.close() for listener in listeners))
