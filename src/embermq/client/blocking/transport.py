"""A socket that blocks nobody who does not want it, plain or with TLS, which several threads may use.

TLS runs in memory (ssl.MemoryBIO) under a lock: OpenSSL does not allow reading and writing one connection
from two threads at once, and this way neither ever waits for the network while it holds the lock.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from typing import cast

from embermq.client.address import Endpoint, Settings

TLS_READ_BYTES = 256 * 1024
AWAIT_MS = 20
TIME = struct.Struct("@ll")  # seconds and microseconds, as the system has them


class Transport:
    """Plain TCP."""

    holds_back = False  # bytes that came may wait inside, where select does not see them
    can_wait = True  # `await_into` is there

    @property
    def unsent(self) -> bool:
        """Bytes that were taken wait inside; `send` with nothing tries again."""
        return False

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        if self.can_wait:
            # Blocking, but for a moment only: whoever waits for an answer needs one system call, not two.
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIME.pack(0, AWAIT_MS * 1000))
        else:
            sock.setblocking(False)

    def fileno(self) -> int:
        return self.sock.fileno()

    def receive_into(self, view: memoryview) -> int:
        """How many bytes came; 0 at the end. BlockingIOError when there are none now."""
        return self.sock.recv_into(view, 0, socket.MSG_DONTWAIT)

    def await_into(self, view: memoryview) -> int:
        """The same, but it waits for a moment (`AWAIT_MS`) before it says that there are none."""
        return self.sock.recv_into(view)

    def send(self, data: memoryview) -> int:
        """How many bytes the system took. BlockingIOError when it takes none now."""
        return self.sock.send(data, socket.MSG_DONTWAIT)

    def shut(self) -> None:
        """Make whoever reads see the end."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.sock.close()


class SecureTransport(Transport):
    """TLS over TCP. What has been encrypted must be sent before anything else, hence `_unsent`."""

    holds_back = True
    can_wait = False  # not while holding the lock

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, hostname: str, deadline_s: float
    ) -> None:
        self._lock = threading.Lock()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)
        self._unsent = b""
        self._shake_hands(sock, deadline_s)
        super().__init__(sock)

    def _shake_hands(self, sock: socket.socket, deadline_s: float) -> None:
        while True:
            sock.settimeout(max(deadline_s - time.monotonic(), 0.001))
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                sock.sendall(self._outgoing.read())
                data = sock.recv(TLS_READ_BYTES)
                if not data:
                    raise ConnectionResetError("closed during the TLS handshake") from None
                self._incoming.write(data)
            else:
                sock.sendall(self._outgoing.read())
                return

    def receive_into(self, view: memoryview) -> int:
        with self._lock:
            try:
                return self._decrypt_into(view)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLZeroReturnError:
                return 0
        data = self.sock.recv(TLS_READ_BYTES)
        with self._lock:
            if not data:
                return 0
            self._incoming.write(data)
            try:
                return self._decrypt_into(view)
            except ssl.SSLWantReadError:
                raise BlockingIOError from None
            except ssl.SSLZeroReturnError:
                return 0

    def _decrypt_into(self, view: memoryview) -> int:
        # typeshed knows only the form that answers bytes.
        return cast(int, self._tls.read(len(view), cast(bytearray, view)))

    def send(self, data: memoryview) -> int:
        with self._lock:
            self._push()
            if not data:
                return 0
            size = self._tls.write(data)
            self._unsent = self._outgoing.read()
            try:
                self._push()
            except BlockingIOError:
                pass  # taken: the rest goes first next time
            return size

    @property
    def unsent(self) -> bool:
        return bool(self._unsent)

    def _push(self) -> None:
        while self._unsent:
            sent = self.sock.send(self._unsent)
            self._unsent = self._unsent[sent:]


def open_transport(endpoint: Endpoint, settings: Settings) -> Transport:
    """Connect, and shake hands when there is TLS; OSError (ssl.SSLError is one) when that fails."""
    deadline_s = time.monotonic() + settings.connect_timeout_s
    sock = socket.create_connection((endpoint.host, endpoint.port), timeout=settings.connect_timeout_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if settings.tls is None:
            return Transport(sock)
        return SecureTransport(sock, settings.tls, settings.server_hostname or endpoint.host, deadline_s)
    except BaseException:
        sock.close()
        raise
