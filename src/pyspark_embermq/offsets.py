"""Offsets of streams: in options, in checkpoints, and as the ranges that tasks read.

An offset of the query is `{"<queue>": next}`: for each queue the offset of the first message not read yet,
queues in alphabetical order, because Spark compares offsets as text. What else a batch must find unchanged
when it is run again stands under the empty name, which no queue has:

    {"": {"partitions": 4, "streams": {"orders": "<id>"}, "first": {"orders": 1000}}, "orders": 1500}

into how many parts the batch is cut; which streams these are, so that one of the same name that was made anew
is not taken for them; and where queues begin that do not go on where the batch before ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark_embermq.errors import AMQPSourceError

Offsets = dict[str, int]
ABOUT = ""  # the name under which an offset has the rest

EARLIEST, LATEST = "earliest", "latest"
KAFKAS = {"-2": EARLIEST, "-1": LATEST}  # what these numbers mean in the offsets of its connector
OTHERS = "*"  # the queues that an option does not name


@dataclass(frozen=True)
class Bounds:
    """What a stream holds at this moment: the first offset that is there, and the one after the last."""

    first: int
    next: int
    id: str = ""  # of this very stream, where the broker tells


@dataclass(frozen=True)
class Range:
    """Offsets [start, end) of one queue: what one task reads."""

    queue: str
    start: int
    end: int


@dataclass(frozen=True)
class Place:
    """Where to start or end in one queue, as the user said it."""

    kind: str  # earliest, latest, offset, timestamp
    value: int = 0


def places_from(option: str, text: str, queues: Iterable[str]) -> dict[str, Place]:
    """earliest | latest | 42 | timestamp:1700000000000 | {"a": 42, "*": "latest"}, for each queue."""
    if not text.lstrip().startswith("{"):
        place = place_from(option, text)
        return dict.fromkeys(queues, place)
    try:
        given = json.loads(text)
    except ValueError as error:
        raise AMQPSourceError(f"option {option!r} is not JSON: {error}") from None
    others = given.pop(OTHERS, None)
    missing = sorted(set(queues) - set(given))
    if missing and others is None:
        named = ", ".join(missing)
        raise AMQPSourceError(f'option {option!r} says nothing of {named} (nor of "*", all others)')
    unknown = sorted(set(given) - set(queues))
    if unknown:
        raise AMQPSourceError(f"option {option!r} names {', '.join(unknown)}, which is not read")
    return {queue: place_from(option, given.get(queue, others)) for queue in queues}


def place_from(option: str, value: object) -> Place:
    text = str(value).strip()
    if text.lower() in (EARLIEST, LATEST):
        return Place(text.lower())
    if text in KAFKAS:
        return Place(KAFKAS[text])
    kind, _, number = text.rpartition(":")
    if kind.lower() in ("", "timestamp", "offset") and number.isdecimal():
        return Place(kind.lower() or "offset", int(number))
    kind, _, moment = text.partition(":")
    if kind.lower() == "timestamp":
        try:
            time = datetime.fromisoformat(moment.strip())
        except ValueError:
            raise AMQPSourceError(
                f"option {option!r} is {text!r}; expected timestamp:<milliseconds> or a time as in "
                "timestamp:2026-11-18T12:00:00Z"
            ) from None
        time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        return Place("timestamp", max(int(time.timestamp() * 1000), 0))
    raise AMQPSourceError(
        f"option {option!r} is {text!r}; expected earliest, latest, an offset, timestamp:<milliseconds>, "
        'or JSON with one of these per queue: {"orders": 42}'
    )


def places_in(offset: dict[str, Any]) -> Offsets:
    """The offsets of the queues."""
    return {queue: int(place) for queue, place in offset.items() if queue != ABOUT}


def about(offset: dict[str, Any]) -> dict[str, Any]:
    """The rest; nothing in checkpoints of older versions."""
    found: dict[str, Any] = offset.get(ABOUT, {})
    return found


def in_order(offsets: Offsets) -> Offsets:
    return dict(sorted(offsets.items()))


def limited(start: Offsets, end: Offsets, rows: int) -> Offsets:
    """The end of a batch of at most so many rows: each queue gets its share, by how much waits there."""
    waiting = {queue: end[queue] - start[queue] for queue in end}
    total = sum(waiting.values())
    if total <= rows:
        return in_order(end)
    reached: Offsets = {}
    left_rows, left_total = rows, total
    for queue in sorted(waiting):
        # Rounded up, so that a queue with little in it is not passed over for ever.
        share = -(-waiting[queue] * left_rows // left_total) if left_total else 0
        share = min(share, waiting[queue], left_rows)
        reached[queue] = start[queue] + share
        left_rows -= share
        left_total -= waiting[queue]
    return reached


def parts(start: Offsets, end: Offsets, count: int) -> list[Range]:
    """The ranges between two offsets, cut into at least `count` parts where there is enough to cut.

    A function of its arguments only: a batch that is run again reads the same parts.
    """
    start = {queue: min(start.get(queue, 0), end[queue]) for queue in end}
    total = sum(end[queue] - start[queue] for queue in end)
    if total == 0:
        return []
    found: list[Range] = []
    for queue in sorted(end):
        first, stop = start[queue], end[queue]
        if stop == first:
            continue
        pieces = min(-(-(stop - first) * count // total), stop - first)  # its share, rounded up
        for index in range(pieces):
            low = first + (stop - first) * index // pieces
            high = first + (stop - first) * (index + 1) // pieces
            found.append(Range(queue, low, high))
    return found
