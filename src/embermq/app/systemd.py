"""systemd: socket activation (LISTEN_FDS) and readiness notification (sd_notify).

LISTEN_FDS, LISTEN_FDNAMES   descriptors from 3 on, named amqp, amqps, http, https in the .socket file
NOTIFY_SOCKET                READY=1 when we listen, STOPPING=1 when we drain, RELOADING=1 in between
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Mapping, MutableMapping

FIRST_DESCRIPTOR = 3
PROTOCOLS = {"amqp": "amqp", "amqps": "amqp/ssl", "http": "http", "https": "https"}
UNNAMED = ("amqp", "http", "amqps", "https")


def inherited_sockets(environment: MutableMapping[str, str]) -> dict[str, list[socket.socket]]:
    """By protocol; without names the first is for AMQP, the second for HTTP, then the same with TLS.

    OSError for what is no TCP socket that listens.
    """
    found: dict[str, list[socket.socket]] = {}
    if environment.pop("LISTEN_PID", "") != str(os.getpid()):
        return found
    count = int(environment.pop("LISTEN_FDS", "0"))
    names = environment.pop("LISTEN_FDNAMES", "").split(":")
    for number in range(count):
        name = names[number] if number < len(names) and names[number] in PROTOCOLS else ""
        name = name or UNNAMED[min(number, len(UNNAMED) - 1)]
        sock = socket.socket(fileno=FIRST_DESCRIPTOR + number)
        sock.set_inheritable(False)
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
            raise refusal(name, "expected one of TCP (ListenStream= with a port)")
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise refusal(name, "expected one that listens (Accept=no)")
        found.setdefault(PROTOCOLS[name], []).append(sock)
    return found


def refusal(name: str, expected: str) -> OSError:
    return OSError(errno.EINVAL, f"cannot listen on the socket that systemd passed for {name}: {expected}")


def notify(environment: Mapping[str, str], *states: str) -> None:
    """`notify(os.environ, "READY=1")`; nothing happens without systemd."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address[0] == "@":  # the abstract namespace
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        try:
            sock.connect(address)
            sock.sendall("\n".join(states).encode())
        except OSError:
            pass  # the listener is gone


def reload_states() -> tuple[str, str]:
    return "RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}"
