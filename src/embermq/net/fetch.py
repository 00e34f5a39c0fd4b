"""One small document from an address that the settings name. Blocks: for a thread.

It must come over TLS from somebody whose certificate is believed (the settings allow other addresses only on
this machine). All of it has to be there in time, whatever the pieces do, and there is an end to its size. A
redirection is not followed: the settings say where the document is.
"""

from __future__ import annotations

import http.client
import ssl
import time
from urllib.parse import urlsplit

PIECE_BYTES = 64 * 1024
OK = 200


class FetchError(Exception):
    """It did not come, or not as it must."""


def fetch(url: str, bytes_max: int, seconds_max: float, authorities: str = "") -> bytes:
    """`authorities` is a file with certificates to believe instead of the system's."""
    deadline = time.monotonic() + seconds_max
    connection: http.client.HTTPConnection | None = None
    try:
        connection = connection_to(url, seconds_max, authorities)
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"Accept": "application/json", "User-Agent": "EmberMQ"})
        response = connection.getresponse()
        if response.status != OK:
            raise FetchError(f"{url}: the answer is {response.status} {response.reason}"[:300])
        data = bytearray()
        while piece := response.read1(PIECE_BYTES):
            data += piece
            if len(data) > bytes_max:
                raise FetchError(f"{url}: more than {bytes_max:,} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError("it takes too long")
        return bytes(data)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchError(f"{url}: {str(error) or type(error).__name__}") from None
    finally:
        if connection is not None:
            connection.close()


def connection_to(url: str, seconds_max: float, authorities: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds_max)
    context = ssl.create_default_context(cafile=authorities or None)
    return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=seconds_max, context=context)
