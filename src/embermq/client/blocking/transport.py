"""A socket that never blocks, plain or with TLS, for the one thread that has it. TLS runs in memory."""

from __future__ import annotations

import socket
import ssl
import time
from typing import cast

from embermq.client.address import Endpoint, Settings

TLS_READ_BYTES = 256 * 1024


class Transport:
    """Plain TCP."""

    holds_back = False  # bytes that came may wait inside, where select does not see them

    @property
    def unsent(self) -> bool:
        """Bytes that were taken wait inside; `send` with nothing tries again."""
        return False

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(False)

    def fileno(self) -> int:
        return self.sock.fileno()

    def receive_into(self, view: memoryview) -> int:
        """How many bytes came; 0 at the end. BlockingIOError when there are none now."""
        return self.sock.recv_into(view)

    def send(self, data: memoryview) -> int:
        """How many bytes the system took. BlockingIOError when it takes none now."""
        return self.sock.send(data)

    def shut(self) -> None:
        """Shut the socket down: a thread that reads from it sees the end."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.sock.close()


class SecureTransport(Transport):
    """TLS over TCP. What has been encrypted must be sent before anything else, hence `_unsent`."""

    holds_back = True

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, hostname: str, deadline_s: float
    ) -> None:
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
        try:
            return self._decrypt_into(view)
        except ssl.SSLWantReadError:
            data = self.sock.recv(TLS_READ_BYTES)
            if not data:
                return 0
            self._incoming.write(data)
        except ssl.SSLZeroReturnError:
            return 0
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
