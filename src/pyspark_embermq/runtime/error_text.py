"""Errors without tracebacks: our own exceptions reach the user of Spark as one sentence.

Spark's workers send an error to the driver with its traceback, and a person finds one line in forty. They
leave that out when a variable of their environment says so. It is set for the last moments of a worker whose
error is one of our sentences: a worker that has sent an error ends. All other errors keep their tracebacks.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from pyspark_embermq.errors import AMQPSourceError

HIDE = "SPARK_HIDE_TRACEBACK"
OF_WORKERS = "PYTHON_WORKER_FACTORY_"  # what the names of variables begin with that only workers have
# What Spark calls: methods of the source, of readers and of writers.
CALLED = (
    "__init__",
    "schema",
    "reader",
    "streamReader",
    "writer",
    "streamWriter",
    "partitions",
    "initialOffset",
    "latestOffset",
    "reportLatestOffset",
    "prepareForTriggerAvailableNow",
    "commit",
    "read",
    "write",
)
Class = TypeVar("Class", bound=type)


def with_plain_errors(kind: Class) -> Class:
    """A class that Spark calls: what its methods raise arrives as a sentence if it is one."""
    for name in CALLED:
        if name in vars(kind):
            wrap = plain_rows if name == "read" else plain
            setattr(kind, name, wrap(vars(kind)[name]))
    return kind


@contextmanager
def sentences_alone() -> Iterator[None]:
    try:
        yield
    except AMQPSourceError:
        if any(name.startswith(OF_WORKERS) for name in os.environ):
            os.environ[HIDE] = "1"
        raise


def plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(*arguments: Any, **named: Any) -> Any:
        with sentences_alone():
            return method(*arguments, **named)

    return called


def plain_rows(read: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Of a method that answers an iterator, which fails later."""

    @functools.wraps(read)
    def called(*arguments: Any, **named: Any) -> Iterator[Any]:
        with sentences_alone():
            yield from read(*arguments, **named)

    return called


@with_plain_errors
class Refusal(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that cannot read, and says why as soon as it is asked.

    Spark (4.3) has an error of its own in the place where it makes a reader: whatever is raised there, it
    complains of a local variable.
    """

    def __init__(self, why: AMQPSourceError) -> None:
        self.why = why

    def refuse(self) -> NoReturn:
        raise self.why

    def initialOffset(self) -> dict[str, Any]:
        self.refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self.refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self.refuse()

    def commit(self, end: dict[str, Any]) -> None:
        self.refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self.refuse()
