"""Filters of a batch query, pushed into the source: offsets and times become ranges of streams, names of
queues choose what is read, batches without a wanted routing key or exchange are skipped before decoding.

All filters are given back to Spark, which applies them to what is left, so a pushed filter only has to be no
stricter than the query's. Spark (4.3) pushes filters to batch reads only, neither columns nor limits, and
refuses a reader that takes filters while `spark.sql.python.filterPushdown.enabled` is false, its default. A
source in Python is not told that setting; the worker that Spark runs shows it.

Spark (4.3) keeps what one query has pushed with the DataFrame that was loaded, and reads only that in every
later query of it, and in every other part of the same query. So pushing is an option, for a DataFrame that is
used once.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.decoding.received_columns import Arrivals

PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
# The broker's clock may be set back: what it takes then seems older than what it took before.
CLOCK_STEP_MS_MAX = 3_600_000
TEXTS = ("exchange", "routing_key")
Test = Callable[[Any], bool]


def is_enabled() -> bool:
    """Whether this process was started by Spark to push filters."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == PUSHDOWN_WORKER)


@dataclass
class Pushed:
    """What the filters of a query leave to be read."""

    first: int = 0  # offsets
    end: int | None = None
    first_ms: int | None = None  # when the broker took the message
    end_ms: int | None = None
    queues: frozenset[str] | None = None  # None: all
    texts: list[tuple[str, Test]] = field(default_factory=list)  # of a column, which is then not null

    @property
    def columns(self) -> set[str]:
        return {name for name, _ in self.texts}

    def reads(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues

    def narrowed(self, link: BrokerLink, queue: str, start: int, end: int) -> tuple[int, int]:
        """The part of a range of offsets in which the wanted messages are."""
        first, behind = max(start, self.first), end if self.end is None else min(end, self.end)
        if link.is_embermq and self.first_ms is not None:
            first = max(first, link.offset_at(queue, self.first_ms))
        if link.is_embermq and self.end_ms is not None:
            behind = min(behind, link.offset_at(queue, self.end_ms + CLOCK_STEP_MS_MAX))
        return min(first, end), max(min(behind, end), min(first, end))

    def leaves_out(self, arrived: Arrivals) -> bool:
        """Whether no message of these is wanted."""
        return any(
            not any(wanted(text) for text in distinct(getattr(arrived, name))) for name, wanted in self.texts
        )


NOTHING_PUSHED = Pushed()


def distinct(column: pa.Array) -> list[str]:
    """The different values; bytes that are not UTF-8 are kept apart."""
    found = column.cast(pa.binary()).unique().to_pylist()
    return [value.decode("utf-8", "surrogateescape") for value in found]


def pushed(filters: Iterable[Filter], prefix: str) -> Pushed:
    """What all of these leave. `prefix` is what the names of metadata columns begin with."""
    found = Pushed()
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) != 1 or not attribute[0].startswith(prefix):
            continue
        name = attribute[0].removeprefix(prefix)
        if name == "offset":
            push_offset(found, one)
        elif name == "ingest_timestamp":
            push_time(found, one)
        elif name == "queue" and isinstance(one, EqualTo | EqualNullSafe | In):
            names = frozenset(values_of(one))
            found.queues = names if found.queues is None else found.queues & names
        elif name in TEXTS and (wanted := text_test(one)) is not None:
            found.texts.append((name, wanted))
    return found


def values_of(one: Any) -> tuple[Any, ...]:
    return tuple(one.value) if isinstance(one, In) else (one.value,)


def push_offset(found: Pushed, one: Any) -> None:
    bounds = range_of(one, 1)
    if bounds is None:
        return
    first, end = bounds
    if first is not None:
        found.first = max(found.first, first)
    if end is not None:
        found.end = end if found.end is None else min(found.end, end)


def push_time(found: Pushed, one: Any) -> None:
    bounds = range_of(one, datetime.timedelta(milliseconds=1))
    if bounds is None:
        return
    first, end = (None if moment is None else milliseconds(moment) for moment in bounds)
    if first is not None:
        found.first_ms = first if found.first_ms is None else max(found.first_ms, first)
    if end is not None:
        end += 1  # it was rounded down
        found.end_ms = end if found.end_ms is None else min(found.end_ms, end)


def range_of(one: Any, step: Any) -> tuple[Any, Any] | None:
    """From the first value to the one behind the last; None of these: no limit. None: it says nothing."""
    if isinstance(one, EqualTo | EqualNullSafe | In):
        values = [value for value in values_of(one) if value is not None]
        return (min(values), max(values) + step) if values else None
    if isinstance(one, GreaterThan):
        return one.value, None
    if isinstance(one, GreaterThanOrEqual):
        return one.value, None
    if isinstance(one, LessThan):
        return None, one.value
    if isinstance(one, LessThanOrEqual):
        return None, one.value + step
    return None  # IsNotNull, Not and the like


def milliseconds(moment: datetime.datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    return max(int(aware.timestamp() * 1000), 0)


def text_test(one: Any) -> Test | None:
    if isinstance(one, EqualTo | EqualNullSafe | In):
        values = frozenset(values_of(one))
        return lambda text: text in values
    if isinstance(one, StringStartsWith):
        return lambda text: text.startswith(one.value)
    if isinstance(one, StringEndsWith):
        return lambda text: text.endswith(one.value)
    if isinstance(one, StringContains):
        return lambda text: one.value in text
    return None
