"""Arguments of streams: what declarations may say, and where and what a consumer wants to read.

Texts are RabbitMQ's where it has one. Where it fails with INTERNAL_ERROR (an offset 'foo', an age 'h') we
refuse in the same words as for its other mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from embermq.broker.queue.arguments import (
    COMPARED_FIRST,
    NOT_COMPARED,
    NOT_FOR,
    QUEUE_ARGUMENTS,
    Check,
    amqp_name,
    boolean,
    check_queue_arguments,
    integer,
    refuse_arguments,
    require_equal_arguments,
    require_lasting,
    text,
    type_name,
)
from embermq.errors import PreconditionFailed
from embermq.wire.table import Timestamp

STREAM = "stream"
SEGMENT_BYTES_DEFAULT = 64 * 1024 * 1024
SEGMENT_BYTES_MIN = 64 * 1024  # smaller values become this: every segment costs a file
SEGMENT_BYTES_MAX = 3_000_000_000  # RabbitMQ's limit
OFFSET_MAX = 2**63 - 1
NAME_BYTES_MAX = 255  # of a consumer

SECONDS = {"Y": 365 * 86400, "M": 30 * 86400, "D": 86400, "h": 3600, "m": 60, "s": 1}
INTERVAL_MS_MAX = 2**62  # for ever; with the time of day added, it is still a number of C
INTERVAL = re.compile("([0-9]{1,12})([YMDhms])")


def interval_ms(value: object) -> int | None:
    """`7D`, `1h`: a number and Y, M, D, h, m or s; None for anything else."""
    match = INTERVAL.fullmatch(value) if isinstance(value, str) else None
    return min(int(match[1]) * SECONDS[match[2]] * 1000, INTERVAL_MS_MAX) if match else None


def max_age(value: object) -> str | None:
    problem = text()(value)
    if problem is None and not interval_ms(value):
        return "invalid_max_age"
    return problem


STREAM_ARGUMENTS: dict[str, Check] = {
    "x-queue-type": text(),
    "x-max-length-bytes": integer(),
    "x-max-age": max_age,
    "x-stream-max-segment-size-bytes": integer(),
    "x-stream-filter-size-bytes": integer(),
    "x-single-active-consumer": boolean,
    "x-initial-cluster-size": integer(minimum=1),
    "x-queue-leader-locator": QUEUE_ARGUMENTS["x-queue-leader-locator"],
    "x-consumer-timeout": integer(),
    "x-template": amqp_name,
    "x-namespace": amqp_name,
}
NOT_FOR_STREAMS = frozenset(QUEUE_ARGUMENTS) - frozenset(STREAM_ARGUMENTS)


def compared(kind: str, known: Iterable[str]) -> tuple[str, ...]:
    passed_over = (*NOT_COMPARED, *NOT_FOR.get(kind, ()))
    return tuple(name for name in dict.fromkeys((*COMPARED_FIRST[kind], *known)) if name not in passed_over)


COMPARED = {
    "classic": compared("classic", QUEUE_ARGUMENTS),
    "quorum": compared("quorum", QUEUE_ARGUMENTS),
    STREAM: compared(STREAM, STREAM_ARGUMENTS),
}


def check_declaration(
    what: str, arguments: Mapping[str, object], durable: bool, exclusive: bool, auto_delete: bool
) -> None:
    """The declaration of a queue of any type."""
    if arguments.get("x-queue-type") == STREAM:
        check_stream_arguments(what, arguments)
        require_lasting(what, durable, exclusive, auto_delete)
    else:
        check_queue_arguments(what, arguments, durable, exclusive, auto_delete)


def check_stream_arguments(what: str, arguments: Mapping[str, object]) -> None:
    for name, check in STREAM_ARGUMENTS.items():
        problem = check(arguments[name]) if name in arguments else None
        if problem is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {what}: {problem}")
    refuse_arguments(what, arguments, NOT_FOR_STREAMS, STREAM)
    size = arguments.get("x-stream-max-segment-size-bytes", 0)
    if isinstance(size, int) and size > SEGMENT_BYTES_MAX:
        raise PreconditionFailed("Exceeded max value for x-stream-max-segment-size-bytes")


def require_equal_declaration(
    what: str, received: Mapping[str, object], current: Mapping[str, object]
) -> None:
    """A second declaration says the same as the first, as far as it matters."""
    require_equal_arguments(what, COMPARED[str(current.get("x-queue-type", "classic"))], received, current)


@dataclass(frozen=True)
class Retention:
    """How much of a stream is kept; None: all."""

    bytes_max: int | None
    age_ms_max: int | None
    segment_bytes: int

    @property
    def limited(self) -> bool:
        return self.bytes_max is not None or self.age_ms_max is not None


def retention_from(arguments: Mapping[str, object]) -> Retention:
    """Of a queue's effective arguments; what a policy says wrongly is passed over."""
    bytes_max, segment = (
        arguments.get("x-max-length-bytes"),
        arguments.get("x-stream-max-segment-size-bytes"),
    )
    segment_bytes = segment if isinstance(segment, int) and segment > 0 else SEGMENT_BYTES_DEFAULT
    return Retention(
        bytes_max if isinstance(bytes_max, int) else None,
        interval_ms(arguments.get("x-max-age")) or None,
        max(segment_bytes, SEGMENT_BYTES_MIN),
    )


@dataclass(frozen=True)
class Place:
    """Where a consumer begins: by a name (first, last, next), an offset, or a time."""

    name: str = "next"
    offset: int = 0
    timestamp_ms: int = 0


def place_from(what: str, value: object, now_ms: int) -> Place:
    """The meaning of `x-stream-offset`."""
    if isinstance(value, Timestamp):
        return Place("timestamp", timestamp_ms=int(value) * 1000)
    if isinstance(value, int) and not isinstance(value, bool):
        return Place("offset", offset=max(value, 0))
    if isinstance(value, str) and value in ("first", "last", "next"):
        return Place(value)
    back_ms = interval_ms(value)
    if back_ms is None:
        shown = f'<<"{value}">>' if isinstance(value, str) else str(value).lower()
        raise PreconditionFailed(
            f"invalid arg 'x-stream-offset' for {what}: "
            f"{{invalid_stream_offset_arg,{{{type_name(value)},{shown}}}}}"
        )
    return Place("timestamp", timestamp_ms=max(now_ms - back_ms, 0))


def check_group(what: str, arguments: Mapping[str, object]) -> None:
    """`x-stream-consumer` is a name, `x-single-active-consumer` yes or no."""
    name, single = arguments.get("x-stream-consumer", "x"), arguments.get("x-single-active-consumer", True)
    problem = text()(name)
    if problem is None and not 0 < len(str(name).encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX:
        problem = "invalid_consumer_name"
    if problem is not None:
        raise PreconditionFailed(f"invalid arg 'x-stream-consumer' for {what}: {problem}")
    problem = boolean(single)
    if problem is not None:
        raise PreconditionFailed(f"invalid arg 'x-single-active-consumer' for {what}: {problem}")


def check_forms(what: str, arguments: Mapping[str, object]) -> None:
    """`x-stream-timestamps` and `x-stream-blocks` are yes or no."""
    for name in ("x-stream-timestamps", "x-stream-blocks"):
        problem = boolean(arguments.get(name, False))
        if problem is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {what}: {problem}")


def end_from(what: str, value: object) -> int | None:
    """The meaning of `x-stream-end-offset`: the first offset that is not wanted any more."""
    if value is None:
        return None
    problem = integer()(value)
    if problem is not None:
        raise PreconditionFailed(f"invalid arg 'x-stream-end-offset' for {what}: {problem}")
    assert isinstance(value, int)
    return min(value, OFFSET_MAX)
