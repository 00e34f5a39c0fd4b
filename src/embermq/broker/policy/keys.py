"""The keys of policies: one line for each.

A key stands in for an argument of a declaration, and holds beside what was declared:

    lowest        the lower value of argument, policy and operator policy: limits
    declared      what was declared holds; else the policy

The complaints are RabbitMQ's, values written as Erlang writes them: people search for these texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from embermq.broker.queue.arguments import QUEUE_ARGUMENTS, is_name
from embermq.broker.stream.arguments import SEGMENT_BYTES_MAX, STREAM, interval_ms, max_age

CLASSIC, QUORUM, EXCHANGE = "classic", "quorum", "exchange"
QUEUES = frozenset({CLASSIC, QUORUM})
EVERY_QUEUE = frozenset({CLASSIC, QUORUM, STREAM})
ANYTHING = frozenset({CLASSIC, QUORUM, STREAM, EXCHANGE})
QUEUES_AND_EXCHANGES = frozenset({CLASSIC, QUORUM, EXCHANGE})
ONLY_CLASSIC, ONLY_STREAM = frozenset({CLASSIC}), frozenset({STREAM})

NUMBER_MAX = 2**62  # JSON has larger ones; this, with the time of day added, is still a number of C

Check = Callable[[object], bool]
Merge = Callable[[object, object], object]


def whole(minimum: int = 0, maximum: int = NUMBER_MAX) -> Check:
    def check(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return minimum <= value <= maximum

    return check


def one_of(*allowed: object) -> Check:
    return lambda value: any(value == known and type(value) is type(known) for known in allowed)


def is_max_age(value: object) -> bool:
    return max_age(value) is None


def as_declared(argument: str) -> Check:
    """The same values as for the argument of a declaration."""

    def check(value: object) -> bool:
        known = QUEUE_ARGUMENTS.get(argument)
        return known is None or known(value) is None

    return check


def declared(argument: object, policy: object) -> object:
    return argument


def lowest(argument: object, policy: object) -> object:
    assert isinstance(argument, int) and isinstance(policy, int)
    return min(argument, policy)


def lowest_limit(argument: object, policy: object) -> object:
    """A negative number is no limit."""
    assert isinstance(argument, int) and isinstance(policy, int)
    return min(argument, policy) if min(argument, policy) >= 0 else max(argument, policy)


def youngest(argument: object, policy: object) -> object:
    """Of two ages such as 7D and 36h."""

    return min(argument, policy, key=lambda age: interval_ms(age) or 0)


class Key(NamedTuple):
    name: str
    check: Check
    complaint: str
    merge: Merge = declared
    for_operator: bool = False
    holds_for: frozenset[str] = QUEUES  # a policy that says more than a thing understands is not for it

    @property
    def argument(self) -> str:
        return self.name if self.name == "alternate-exchange" else f"x-{self.name}"


# fmt: off
TABLE = (
    Key("message-ttl", whole(), "{} is not a valid message TTL", lowest, True),
    Key("expires", whole(1), "{} is not a valid queue expiry", lowest, True),
    Key("max-length", whole(), "{} is not a valid maximum length", lowest, True),
    Key("max-length-bytes", whole(), "{} is not a valid maximum length in bytes", lowest, True, EVERY_QUEUE),
    Key("max-in-memory-length", whole(), "{} is not a valid maximum memory in bytes", lowest, True),
    Key("max-in-memory-bytes", whole(), "{} is not a valid maximum memory in bytes", lowest, True),
    Key("delivery-limit", whole(-1), "{} is not a valid delivery limit", lowest_limit, True),
    Key("consumer-timeout", whole(), "{} is not a valid consumer timeout", lowest, True, EVERY_QUEUE),
    Key("overflow", one_of("drop-head", "reject-publish", "reject-publish-dlx"),
        "{} is not a valid overflow value"),
    Key("dead-letter-exchange", is_name, "{} is not a valid dead letter exchange name"),
    Key("dead-letter-routing-key", is_name, "{} is not a valid dead letter routing key"),
    Key("dead-letter-strategy", one_of("at-most-once", "at-least-once"),
        "{} is not a valid dead letter strategy"),
    Key("alternate-exchange", is_name, "{} is not a valid alternate exchange name", holds_for=ANYTHING),
    Key("max-age", is_max_age, "{} is not a valid max age", youngest, holds_for=ONLY_STREAM),
    Key("stream-max-segment-size-bytes", whole(0, SEGMENT_BYTES_MAX),
        "{} is not a valid segment size", holds_for=ONLY_STREAM),

    # Ours.
    Key("deduplication", one_of(True, False), "{} is not a valid deduplication value",
        holds_for=QUEUES_AND_EXCHANGES),
    Key("deduplication-header", as_declared("x-deduplication-header"),
        "{} is not a valid deduplication header", holds_for=QUEUES_AND_EXCHANGES),
    Key("deduplication-window", as_declared("x-deduplication-window"),
        "{} is not a valid deduplication window", holds_for=QUEUES_AND_EXCHANGES),
    Key("deduplication-count", as_declared("x-deduplication-count"),
        "{} is not a valid deduplication count", holds_for=QUEUES_AND_EXCHANGES),
    Key("retry-delay", as_declared("x-retry-delay"), "{} is not a valid retry delay"),
    Key("retry-backoff", as_declared("x-retry-backoff"), "{} is not a valid retry backoff"),
    Key("retry-max-delay", as_declared("x-retry-max-delay"), "{} is not a valid maximum retry delay"),

    # What RabbitMQ does with more than one node, and how its queues are built: taken, and without effect.
    Key("queue-mode", one_of("default", "lazy"), "{} is not a valid queue-mode value",
        holds_for=ONLY_CLASSIC),
    Key("queue-version", one_of(1, 2), "{} is not a valid queue-version value"),
    Key("queue-master-locator", one_of("min-masters", "client-local", "random"),
        "{} invalid queue-master-locator value", holds_for=ONLY_CLASSIC),
    Key("queue-leader-locator", one_of("client-local", "random", "least-leaders", "balanced"),
        "{} is not a valid queue leader locator value", holds_for=EVERY_QUEUE),
    Key("initial-cluster-size", whole(), "{} is not a valid cluster size", holds_for=ONLY_STREAM),
    Key("target-group-size", whole(1), "{} is not a valid target count", holds_for=QUEUES, for_operator=True),
    Key("ha-mode", one_of("all", "exactly", "nodes"), "{} is not a valid ha-mode value",
        for_operator=True, holds_for=ONLY_CLASSIC),
    Key("ha-params", lambda value: isinstance(value, int | list), "ha-params is invalid: {}",
        for_operator=True, holds_for=ONLY_CLASSIC),
    Key("ha-sync-mode", one_of("manual", "automatic"),
        "ha-sync-mode must be \"manual\" or \"automatic\", got {}",
        for_operator=True, holds_for=ONLY_CLASSIC),
    Key("ha-sync-batch-size", whole(1), "ha-sync-batch-size must be an integer greater than 0, got {}",
        holds_for=ONLY_CLASSIC),
    Key("ha-promote-on-shutdown", one_of("always", "when-synced"),
        "ha-promote-on-shutdown must be \"always\" or \"when-synced\", got {}",
        holds_for=ONLY_CLASSIC),
    Key("ha-promote-on-failure", one_of("always", "when-synced"),
        "ha-promote-on-failure must be \"always\" or \"when-synced\", got {}",
        holds_for=ONLY_CLASSIC),
    Key("federation-upstream", is_name, "{} is not a valid federation upstream name", holds_for=ANYTHING),
    Key("federation-upstream-set", is_name, "{} is not a valid federation upstream set name",
        holds_for=ANYTHING),
)
# fmt: on
KEYS = {key.name: key for key in TABLE}


def in_erlang(value: object) -> str:
    """A value as RabbitMQ's complaints write it."""
    if isinstance(value, str):
        return f'<<"{value}">>' if value else "<<>>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{','.join(in_erlang(item) for item in value)}]"
    if isinstance(value, dict):
        return f"#{{{','.join(f'{in_erlang(k)} => {in_erlang(v)}' for k, v in value.items())}}}"
    return "null" if value is None else str(value)


def problem_with(definition: object, for_operator: bool) -> str | None:
    """What is wrong with what a policy says; None when nothing is."""
    if not isinstance(definition, dict):
        return f"definition must be a dictionary: {in_erlang(definition)}"
    if not definition:
        return "no policy provided"
    unknown = {}
    for name, value in definition.items():
        key = KEYS.get(name)
        if key is None or (for_operator and not key.for_operator):
            unknown[name] = value
        elif not key.check(value):
            return key.complaint.format(in_erlang(value))
    if unknown:
        shown = ",".join(f"{{{in_erlang(name)},{in_erlang(value)}}}" for name, value in unknown.items())
        return f"[{shown}] are not recognised policy settings"
    if "ha-mode" not in definition and any(name.startswith("ha-") for name in definition):
        return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
    return None
