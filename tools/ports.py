"""Ports for servers that cannot tell which one the system gave them."""

from __future__ import annotations

import random
import socket
from pathlib import Path

PORT_MIN = 15_700  # beyond RabbitMQ's own
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
