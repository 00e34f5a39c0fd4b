"""A socket that listens: with TLS or without, for clients themselves or for the proxies before them.

Both may change while it listens (other certificates, other proxies): accepting begins anew on the same
socket, and connections that are there stay. Options of a listening socket pass to those that it accepts.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from embermq.net.proxy import Network, Peer, ProxyError, is_trusted, read_header

log = logging.getLogger("embermq.net")

BACKLOG = 1024
ACCEPTS_PER_TURN_MAX = 100
ARRIVING_MAX = 1000  # connections whose proxy has not said yet who it is
NO_FILES_PAUSE_S = 1.0
KEEPALIVE_PROBES = 3

# Makes the protocol for a connection; the peer is told where a proxy told it.
Factory = Callable[[Peer | None], asyncio.BaseProtocol]


@dataclass(frozen=True)
class Manner:
    """How connections are accepted."""

    context: ssl.SSLContext | None = None
    trusted: tuple[Network, ...] = ()
    handshake_s: float = 10.0


def open_sockets(host: str, port: int) -> list[socket.socket]:
    """One for each address of the host, all with the same port."""
    flags = socket.AI_PASSIVE
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    made: list[socket.socket] = []
    try:
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
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
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
    def __init__(self, protocol: str, sock: socket.socket, factory: Factory) -> None:
        self.protocol = protocol  # "amqp", "https": for people
        self.socket = sock
        self.factory = factory
        self.manner = Manner()
        self.server: asyncio.Server | None = None
        self.arriving: set[asyncio.Task[None]] = set()
        self.reading = False

    @property
    def address(self) -> tuple[str, int]:
        name = self.socket.getsockname()
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else (str(name), 0)

    async def accept(self, manner: Manner) -> None:
        """Begin, or go on in another manner; there is no moment at which nobody listens."""
        before, self.manner = self.server, manner
        self.stop_reading()
        if manner.trusted:
            self.server = None
            self.socket.setblocking(False)
            self.socket.listen(BACKLOG)
            self.start_reading()
        else:
            self.server = await asyncio.get_running_loop().create_server(
                lambda: self.factory(None),
                sock=self.socket.dup(),
                backlog=BACKLOG,
                ssl=manner.context,
                ssl_handshake_timeout=manner.handshake_s if manner.context is not None else None,
            )
        if before is not None:
            before.close()

    def close(self) -> None:
        self.stop_reading()
        if self.server is not None:
            self.server.close()
        for task in self.arriving:
            task.cancel()
        self.socket.close()

    # -- behind proxies

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
                    asyncio.get_running_loop().call_later(NO_FILES_PAUSE_S, self.start_reading)
                return
            if len(self.arriving) >= ARRIVING_MAX:
                sock.close()
                continue
            sock.setblocking(False)
            task = asyncio.get_running_loop().create_task(self.take(sock, str(address[0])))
            self.arriving.add(task)
            task.add_done_callback(self.arriving.discard)

    async def take(self, sock: socket.socket, address: str) -> None:
        """One connection: who is it, and then the protocol."""
        manner, peer = self.manner, None
        try:
            if is_trusted(address, manner.trusted):
                async with asyncio.timeout(manner.handshake_s):
                    peer = await read_header(sock)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self.factory(peer),
                sock,
                ssl=manner.context,
                ssl_handshake_timeout=manner.handshake_s if manner.context is not None else None,
            )
        except (ProxyError, OSError, TimeoutError) as error:
            why = str(error) or "it took too long"
            log.warning("%s: a connection to %s failed: %s", address, self.protocol, why)
            with contextlib.suppress(OSError):
                sock.close()


def close_all(listeners: Sequence[Listener]) -> None:
    for listener in listeners:
        listener.close()
