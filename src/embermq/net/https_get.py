"""HTTPS GET of one small document, blocking: to be called on a thread.

It must come over TLS from a server whose certificate is believed (the settings allow other addresses only on
this machine). All of it has to be there before a deadline, from the first packet to the last byte, and its
size is bounded. A redirection is not followed: the settings say where the document is.
"""

from __future__ import annotations

import socket
import ssl
import time
from urllib.parse import urlsplit

import h11

PIECE_BYTES = 64 * 1024
OK = 200
PORTS = {"http": 80, "https": 443}


class FetchError(Exception):
    """It did not come, or not as it must."""


def fetch(url: str, bytes_max: int, seconds_max: float, authorities: str = "") -> bytes:
    """`authorities` is a file with certificates to believe instead of the system's."""
    deadline = time.monotonic() + seconds_max
    try:
        with connected(url, authorities, deadline) as sock:
            return asked(sock, url, bytes_max, deadline)
    except TimeoutError:
        raise FetchError(f"{url}: it takes longer than {seconds_max:g} s") from None
    except (OSError, h11.RemoteProtocolError, ValueError) as error:
        raise FetchError(f"{url}: {str(error) or type(error).__name__}") from None


def connected(url: str, authorities: str, deadline: float) -> socket.socket:
    parts = urlsplit(url)
    assert parts.hostname is not None
    context = ssl.create_default_context(cafile=authorities or None) if parts.scheme == "https" else None
    problem = OSError("it has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(
        parts.hostname, parts.port or PORTS[parts.scheme], type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            wait_until(deadline, sock)
            sock.connect(address)
            wait_until(deadline, sock)
            return sock if context is None else context.wrap_socket(sock, server_hostname=parts.hostname)
        except OSError as error:
            sock.close()
            problem = error
    raise problem


def wait_until(deadline: float, sock: socket.socket) -> None:
    """The next call may take what is left of the time."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    sock.settimeout(left_s)


def asked(sock: socket.socket, url: str, bytes_max: int, deadline: float) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = [("Host", parts.netloc), ("Accept", "application/json"), ("User-Agent", "EmberMQ")]
    wire = h11.Connection(h11.CLIENT)
    request = h11.Request(method="GET", target=target, headers=[*headers, ("Connection", "close")])
    wait_until(deadline, sock)
    sock.sendall((wire.send(request) or b"") + (wire.send(h11.EndOfMessage()) or b""))
    data = bytearray()
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wait_until(deadline, sock)
            wire.receive_data(sock.recv(PIECE_BYTES))
        elif isinstance(event, h11.Response) and event.status_code != OK:
            raise FetchError(
                f"{url}: the answer is {event.status_code} {event.reason.decode('latin-1')}"[:300]
            )
        elif isinstance(event, h11.Data):
            data += event.data
            if len(data) > bytes_max:
                raise FetchError(f"{url}: more than {bytes_max:,} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return bytes(data)
