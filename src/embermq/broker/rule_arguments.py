"""Which queues have rules: those whose arguments ask for something beyond first in, first out."""

from __future__ import annotations

ARGUMENTS = frozenset(
    {
        "x-message-ttl",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-dead-letter-exchange",
        "x-max-priority",
        "x-single-active-consumer",
        "x-delivery-limit",
        "x-retry-delay",
        "x-deduplication",
    }
)


def has_rules(arguments: dict[str, object]) -> bool:
    if arguments.get("x-queue-type") == "stream":
        return False
    return not ARGUMENTS.isdisjoint(arguments) or arguments.get("x-queue-type") == "quorum"
