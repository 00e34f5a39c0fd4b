"""Ports for servers that cannot tell which one the system gave them, and whether AMQP is spoken there."""

from __future__ import annotations

import random
import socket
from pathlib import Path

PORT_MIN = 15_700  # beyond RabbitMQ's own
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CHOSEN_BY_SYSTEM = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on, and that the system gives to nobody.

    A port below those that the system hands out cannot be taken by a stranger's connection before the
    server that it is for has started.
    """
    port_max = int(CHOSEN_BY_SYSTEM.read_text().split()[0]) if CHOSEN_BY_SYSTEM.exists() else 32_768
    while True:
        port = random.SystemRandom().randrange(PORT_MIN, port_max)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def answers_handshake(host: str, port: int) -> bool:
    """Whether connection.start comes back after the protocol header."""
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(PROTOCOL_HEADER)
            head = b""
            while len(head) < 11:
                piece = connection.recv(11 - len(head))
                if not piece:
                    return False
                head += piece
    except OSError:
        return False
    return head[:3] == b"\x01\x00\x00" and head[7:] == b"\x00\x0a\x00\x0a"
