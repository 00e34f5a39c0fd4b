"""Pipelines that are Python: a file with a function `start` that returns a streaming query.

Whatever goes wrong in it is told in a sentence that names the file and the line, and then as a traceback that
begins where the file does: its reader is the author.
"""

from __future__ import annotations

import importlib.util
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.pipelines.spark_errors import SPARK_ERRORS

# With the session, and whether to end when there is nothing more.
Start = Callable[[SparkSession, bool], StreamingQuery]


class ProgramFailed(AMQPSourceError):
    """An error that is not ours nor Spark's; `trace` is where its author looks next."""

    def __init__(self, sentence: str, trace: str = "") -> None:
        super().__init__(sentence)
        self.trace = trace


def load(path: Path, url: Callable[[], str]) -> Start:
    """The function `start(spark, once)` of a file, or `start(spark, once, url)`, which gets that as well."""
    with told(path):
        found = getattr(module_of(path), "start", None)
    if not callable(found):
        raise ProgramFailed(f"{path}: there is no function start(spark, once)")
    more = [url()] if len(inspect.signature(found).parameters) > 2 else []

    def start(spark: SparkSession, once: bool) -> StreamingQuery:
        with told(path):
            query = found(spark, once, *more)
        # Of Spark itself or of a Spark Connect: they have no class in common.
        if not hasattr(query, "awaitTermination"):
            raise ProgramFailed(
                f"{path}: start() has returned {query!r}; expected the streaming query, which "
                "writeStream...start() answers"
            )
        return query  # type: ignore[no-any-return]

    return start


def module_of(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location("embermq_pipeline", path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@contextmanager
def told(path: Path) -> Iterator[None]:
    try:
        yield
    except (*SPARK_ERRORS, AMQPSourceError):
        raise  # have sentences of their own
    except Exception as error:
        raise failure(path, error) from None


def failure(path: Path, error: Exception) -> ProgramFailed:
    frames = traceback.extract_tb(error.__traceback__)
    own = next((index for index, frame in enumerate(frames) if is_same(frame.filename, path)), len(frames))
    if isinstance(error, SyntaxError) and is_same(error.filename or "", path):
        where = f", line {error.lineno}"
        what = error.msg
    else:
        last = [frame for frame in frames if is_same(frame.filename, path)]
        where = f", line {last[-1].lineno}" if last else ""
        what = str(error)
    trace = traceback.TracebackException.from_exception(error)
    trace.stack = traceback.StackSummary.from_list(frames[own:])
    sentence = f"{path}{where}: {type(error).__name__}" + (f": {what}" if what else "")
    return ProgramFailed(sentence, "".join(trace.format()).rstrip())


def is_same(filename: str, path: Path) -> bool:
    return Path(filename).absolute() == path.absolute()
