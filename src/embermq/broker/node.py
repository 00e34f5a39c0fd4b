"""The name of this broker among others, in the form of RabbitMQ's node names."""

from __future__ import annotations

import socket


def node_name() -> str:
    return f"embermq@{socket.gethostname().partition('.')[0]}"
