"""Limits of users and virtual hosts: their numbers of connections, channels and queues."""

from __future__ import annotations

NO_LIMIT = -1  # RabbitMQ's word for it; any negative number will do


def changed_limits(limits: dict[str, int], name: str, value: int | None) -> dict[str, int]:
    rest = {known: number for known, number in limits.items() if known != name}
    return rest if value is None else {**rest, name: value}


def limit_reached(limits: dict[str, int], name: str, count: int) -> int | None:
    """The limit where one more would be too many; None where there is room."""
    limit = limits.get(name, NO_LIMIT)
    return limit if 0 <= limit <= count else None
