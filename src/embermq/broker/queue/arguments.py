"""Arguments of declarations: which are known, which values they take, and how two declarations compare.

Texts are RabbitMQ's, including its Erlang-flavoured reasons: people search for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from decimal import Decimal
from typing import TypeGuard

from embermq.broker.selector.selector import Selector
from embermq.broker.selector.token import SelectorError
from embermq.errors import PreconditionFailed
from embermq.wire.table import Timestamp

INT32_MAX = 2**31 - 1
NO_LIMIT = -1
SHORTSTR_BYTES_MAX = 255
SHOWN_CHARACTERS = 40  # of a name that is too long
DEDUPLICATION_COUNT_MAX = 100_000_000
INTEGER_MAX = 2**63 - 1  # AMQP has no larger one, JSON has
TTL_MS_MAX = 315_360_000_000  # ten years, RabbitMQ's limit
BACKOFF_MIN, BACKOFF_MAX = 1, 1000

Check = Callable[[object], "str | None"]


def type_name(value: object) -> str:
    """RabbitMQ's word for the type of a field value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Timestamp):
        return "timestamp"
    if isinstance(value, int):
        return "signedint" if -INT32_MAX - 1 <= value <= INT32_MAX else "long"
    if value is None:
        return "void"
    names: dict[type, str] = {
        str: "longstr",
        float: "double",
        dict: "table",
        list: "array",
        bytes: "binary",
        Decimal: "decimal",
    }
    return names.get(type(value), type(value).__name__)


def shown(value: object) -> str:
    """A value as RabbitMQ's texts have it: strings as they are, everything else as Erlang writes it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else term(value)


def term(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "undefined"
    if isinstance(value, Timestamp):
        return str(int(value))
    if isinstance(value, str):
        return f'<<"{value}">>' if value else "<<>>"
    if isinstance(value, list):
        return "[" + ",".join(f"{{{type_name(item)},{term(item)}}}" for item in value) + "]"
    if isinstance(value, dict):
        fields = (f"{{{term(name)},{type_name(item)},{term(item)}}}" for name, item in value.items())
        return "[" + ",".join(fields) + "]"
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        return f"{{{-int(exponent)},{int(''.join(map(str, digits)))}}}"
    return str(value)


def atom(name: str) -> str:
    """As Erlang writes it: in quotes where it is not a plain word."""
    return name if re.fullmatch("[a-z][A-Za-z0-9_@]*", name) else f"'{name}'"


def integer(minimum: int = 0, maximum: int = INTEGER_MAX, too_large: str = "value_too_large") -> Check:
    def check(value: object) -> str | None:
        if isinstance(value, bool | Timestamp) or not isinstance(value, int):
            return f'"expected integer, got {type_name(value)}"'
        if value < 0:
            return f"{{value_negative,{value}}}"
        if value < minimum:
            return f"{{value_zero,{value}}}"
        if value > maximum:
            return f"{{{too_large},{value}}}"
        return None

    return check


def text(reason: str | None = None, allowed: tuple[str, ...] = ()) -> Check:
    def check(value: object) -> str | None:
        if not isinstance(value, str):
            return f"{{unacceptable_type,{type_name(value)}}}"
        if allowed and value not in allowed:
            return reason.format(value) if reason else f"{{invalid_value,{value}}}"
        return None

    return check


def boolean(value: object) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{type_name(value)}}}"


def queue_version(value: object) -> str | None:
    problem = integer()(value)
    if problem is None and value not in (1, 2):
        return f"\"unsupported queue version '{value}'\""
    return problem


def delivery_limit(value: object) -> str | None:
    """-1 is no limit."""
    return None if value == NO_LIMIT else integer()(value)


def backoff(value: object) -> str | None:
    """A factor by which something grows, or stays."""
    if isinstance(value, bool | Timestamp) or not isinstance(value, int | float | Decimal):
        return f'"expected number, got {type_name(value)}"'
    return None if BACKOFF_MIN <= value <= BACKOFF_MAX else f"{{value_out_of_range,{value}}}"


def is_name(value: object) -> TypeGuard[str]:
    """Can it be the name of something, or a routing key? Empty ones are for the caller to judge."""
    try:
        return isinstance(value, str) and len(value.encode("utf-8", "surrogateescape")) <= SHORTSTR_BYTES_MAX
    except UnicodeEncodeError:  # half a character, which JSON can say
        return False


def amqp_name(value: object) -> str | None:
    """Of something that may be looked for on the wire, where names are short strings."""
    problem = text()(value)
    if problem is None and not is_name(value):
        return f'"not text of at most {SHORTSTR_BYTES_MAX} bytes"'
    return problem


def short_text(value: object) -> str | None:
    """A name that is not empty."""
    return "{invalid_length,0}" if value == "" else amqp_name(value)


def require_name(kind: str, value: str) -> None:
    if not is_name(value):
        begin = value[:SHOWN_CHARACTERS].encode("utf-8", "replace").decode()
        raise PreconditionFailed(f"{kind} '{begin}...' is not text of at most {SHORTSTR_BYTES_MAX} bytes")


DEDUPLICATION_ARGUMENTS: dict[str, Check] = {
    "x-deduplication": boolean,
    "x-deduplication-header": short_text,
    "x-deduplication-window": integer(minimum=1, maximum=TTL_MS_MAX),
    "x-deduplication-count": integer(minimum=1, maximum=DEDUPLICATION_COUNT_MAX),
}
# In RabbitMQ's order: of several mistakes the first is told.
QUEUE_ARGUMENTS: dict[str, Check] = {
    "x-queue-type": text("\"unsupported queue type '{}'\"", ("classic", "quorum", "stream")),
    "x-expires": integer(minimum=1, maximum=TTL_MS_MAX),
    "x-message-ttl": integer(maximum=TTL_MS_MAX),
    "x-dead-letter-exchange": amqp_name,
    "x-dead-letter-routing-key": amqp_name,
    "x-dead-letter-strategy": text("invalid_dlx_strategy", ("at-most-once", "at-least-once")),
    "x-max-length": integer(),
    "x-max-length-bytes": integer(),
    "x-max-in-memory-length": integer(),
    "x-max-in-memory-bytes": integer(),
    "x-max-priority": integer(maximum=255, too_large="max_value_exceeded"),
    "x-overflow": text("invalid_overflow", ("drop-head", "reject-publish", "reject-publish-dlx")),
    "x-queue-mode": text("\"unsupported queue mode '{}'\"", ("default", "lazy")),
    "x-queue-version": queue_version,
    "x-single-active-consumer": boolean,
    "x-quorum-initial-group-size": integer(minimum=1),
    "x-quorum-target-group-size": integer(minimum=1),
    "x-initial-cluster-size": integer(minimum=1),
    "x-queue-leader-locator": text(
        "invalid_queue_locator_arg", ("client-local", "balanced", "least-leaders", "random")
    ),
    "x-queue-master-locator": text("invalid_locator", ("min-masters", "client-local", "random")),
    "x-delivery-limit": delivery_limit,
    "x-consumer-timeout": integer(),
    # Our own.
    **DEDUPLICATION_ARGUMENTS,
    "x-retry-delay": integer(minimum=1, maximum=TTL_MS_MAX),
    "x-retry-backoff": backoff,
    "x-retry-max-delay": integer(minimum=1, maximum=TTL_MS_MAX),
    "x-template": amqp_name,
    "x-namespace": amqp_name,
}
ONLY_STREAMS = ("x-max-age", "x-stream-max-segment-size-bytes")
# What has to do with clusters, or with RabbitMQ's memory, is checked and without effect; on queues of a type
# that has nothing of the kind it is refused.
SELECTOR_ARGUMENTS = ("x-selector", "x-filter-jms-selector")

NOT_FOR = {
    "classic": (
        *ONLY_STREAMS,
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-quorum-initial-group-size",
        "x-quorum-target-group-size",
        "x-initial-cluster-size",
    ),
    "quorum": (
        *ONLY_STREAMS,
        "x-initial-cluster-size",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-master-locator",
    ),
}

# An equal declaration must repeat all arguments that the type knows but these; others may come and go.
NOT_COMPARED = ("x-consumer-timeout",)
# Of several differences the first is told: RabbitMQ's order for each type, then what it does not have there.
COMPARED_FIRST = {
    "classic": (
        *("x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key"),
        *("x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode"),
        *("x-queue-version", "x-single-active-consumer", "x-queue-type", "x-queue-master-locator"),
    ),
    "quorum": (
        *("x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-expires"),
        *("x-max-length", "x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes"),
        *("x-overflow", "x-single-active-consumer", "x-queue-type", "x-quorum-initial-group-size"),
        *("x-delivery-limit", "x-message-ttl", "x-queue-leader-locator"),
    ),
    "stream": (
        *("x-max-length-bytes", "x-queue-type", "x-max-age", "x-stream-max-segment-size-bytes"),
        *("x-initial-cluster-size", "x-queue-leader-locator"),
    ),
}
DEFAULTS = {"x-queue-type": "classic"}  # the same as without the argument
COMPARED_EXCHANGE_ARGUMENTS = ("alternate-exchange", "x-delayed-type", *DEDUPLICATION_ARGUMENTS)


def check_queue_arguments(
    what: str, arguments: Mapping[str, object], durable: bool, exclusive: bool, auto_delete: bool
) -> None:
    """`what` is how the text names the queue: "queue 'orders' in vhost '/'"."""
    if "x-dead-letter-exchange" in arguments and not isinstance(arguments["x-dead-letter-exchange"], str):
        found = type_name(arguments["x-dead-letter-exchange"])
        raise PreconditionFailed(f"invalid type '{found}' for arg 'x-dead-letter-exchange' in {what}")
    kind = str(arguments.get("x-queue-type", "classic"))
    refused = NOT_FOR.get(kind, ())
    for name, check in QUEUE_ARGUMENTS.items():
        if name not in arguments or name in refused:
            continue
        problem = check(arguments[name])
        if name == "x-dead-letter-routing-key" and not problem and "x-dead-letter-exchange" not in arguments:
            problem = "routing_key_but_no_dlx_defined"
        if problem is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {what}: {problem}")
    refuse_arguments(what, arguments, refused, kind)
    if kind == "quorum":
        require_lasting(what, durable, exclusive, auto_delete)


def refuse_arguments(
    what: str, arguments: Mapping[str, object], refused: Container[str], kind: object
) -> None:
    for name in arguments:
        if name in refused:
            raise PreconditionFailed(f"invalid arg '{name}' for {what} of queue type rabbit_{kind}_queue")


def check_consumer_arguments(what: str, arguments: Mapping[str, object], kind: str) -> None:
    """Of a consumer of a queue that is no stream."""
    priority = arguments.get("x-priority", 0)
    if isinstance(priority, bool | Timestamp) or not isinstance(priority, int):
        raise PreconditionFailed(
            f"invalid arg 'x-priority' for {what}: \"expected integer, got {type_name(priority)}\""
        )
    problem = boolean(arguments.get("x-cancel-on-ha-failover", False))
    if problem is not None:
        raise PreconditionFailed(f"invalid arg 'x-cancel-on-ha-failover' for {what}: {problem}")
    refuse_arguments(what, arguments, ("x-stream-offset",), kind)


def selector_from(what: str, arguments: Mapping[str, object]) -> Selector | None:
    """Which messages a consumer wants, by EmberMQ's name for it, Qpid's, or in a table of filters (AMQP 0-9);
    None: all."""
    filters = arguments.get("filter")
    for given in (arguments, filters if isinstance(filters, dict) else {}):
        for name in SELECTOR_ARGUMENTS:
            selector = given.get(name)
            if selector is None or selector == "":
                continue
            if not isinstance(selector, str):
                problem = f"expected a selector, got {type_name(selector)}"
                raise PreconditionFailed(f"invalid arg '{name}' for {what}: {problem}")
            try:
                return Selector(selector)
            except SelectorError as error:
                raise PreconditionFailed(f"invalid arg '{name}' for {what}: {error.detail}") from error
    return None


def require_lasting(what: str, durable: bool, exclusive: bool, auto_delete: bool) -> None:
    """Quorum queues and streams are there to stay."""
    refused = [("auto-delete", auto_delete), ("exclusive-owner", exclusive), ("non-durable", not durable)]
    for quality, present in refused:
        if present:
            raise PreconditionFailed(f"invalid property '{quality}' for {what}")


def check_exchange_arguments(what: str, arguments: Mapping[str, object]) -> None:
    alternate = arguments.get("alternate-exchange", "")
    if not isinstance(alternate, str):
        raise PreconditionFailed(
            f"invalid type '{type_name(alternate)}' for arg 'alternate-exchange' in {what}"
        )
    problem = amqp_name(alternate)
    if problem is not None:
        raise PreconditionFailed(f"invalid arg 'alternate-exchange' for {what}: {problem}")
    for name, check in DEDUPLICATION_ARGUMENTS.items():
        problem = check(arguments[name]) if name in arguments else None
        if problem is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {what}: {problem}")


def check_delayed_type(value: object, known: Container[str]) -> None:
    """RabbitMQ's text, without its two slips of the pen."""
    if not isinstance(value, str) or value not in known:
        raise PreconditionFailed("Invalid argument, 'x-delayed-type' must be an existing exchange type")


def same(one: object, other: object) -> bool:
    """Erlang's idea of it: 10 is not 10.0, and 1 is not true."""
    return one == other and all(isinstance(one, kind) == isinstance(other, kind) for kind in (bool, float))


def require_equal(what: str, name: str, received: object, current: object) -> None:
    """One attribute of a declaration against the thing that exists."""
    if not same(received, current):
        raise PreconditionFailed(
            f"inequivalent arg '{name}' for {what}: received '{shown(received)}' "
            f"but current is '{shown(current)}'"
        )


def require_equal_arguments(
    what: str, names: tuple[str, ...], received: Mapping[str, object], current: Mapping[str, object]
) -> None:
    for name in names:
        unsaid = DEFAULTS.get(name)
        if same(received.get(name, unsaid), current.get(name, unsaid)):
            if unsaid is not None or (name in received) == (name in current):
                continue
        if name in received and name in current:
            require_equal(what, name, received[name], current[name])
        raise PreconditionFailed(
            f"inequivalent arg '{name}' for {what}: received {described(name, received)} "
            f"but current is {described(name, current)}"
        )


def described(name: str, arguments: Mapping[str, object]) -> str:
    if name not in arguments:
        return "none"
    return f"the value '{shown(arguments[name])}' of type '{type_name(arguments[name])}'"
