"""Errors of Spark for the user: one sentence out of pages of stack traces."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

from pyspark_embermq.errors import AMQPSourceError, DataLossError, Denied, Missing, Unreachable

# What goes wrong in Java is mostly translated by PySpark, but not always.
SPARK_ERRORS = (PySparkException, Py4JError)

# The last line of a traceback that our own code has ended with, wherever it ran.
OURS = re.compile(r"pyspark_embermq[\w.]*\.(\w+): (.*)")
# And that of a client when its broker went away in a place without a handler of ours.
LOST = re.compile(r"embermq\.client\.errors\.Connection(?:Lost|Closed|Failed): (.*)")
KINDS = {kind.__name__: kind for kind in (DataLossError, Denied, Missing, Unreachable)}
TRACEBACK = "Traceback (most recent call last):"
# What Spark puts around its sentences: [CLASS.OF_ERROR] ... SQLSTATE: 42703; line 1 pos 7;
AROUND = re.compile(r"\[[A-Z_0-9.]+\] |Query \[.*?\] terminated with exception: |\.? SQLSTATE: \w+|;$")


class WrongQuery(AMQPSourceError):
    """SQL that Spark does not understand, or that names no table of ours."""


class SparkFailed(AMQPSourceError):
    """Something that is not of our making: Spark's log has more of it."""


def told(error: Exception) -> AMQPSourceError:
    """An error as a sentence; of a kind of ours if it was one before it went through Spark."""
    if isinstance(error, AMQPSourceError):
        return error
    text = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
    ours = OURS.search(text or "")
    if ours is not None:
        return KINDS.get(ours[1], AMQPSourceError)(ours[2].strip())
    lost = LOST.search(text or "")
    if lost is not None:
        return Unreachable(lost[1].strip())
    kind = WrongQuery if isinstance(error, AnalysisException) else SparkFailed
    return kind(first_words(text or "") or type(error).__name__)


def first_words(text: str) -> str:
    """The first line that says something; of a failed piece of Python the error behind its traceback."""
    if TRACEBACK in text:
        for line in text.split(TRACEBACK, 1)[1].splitlines():
            if line and not line[0].isspace():
                return line.strip()
    for line in text.splitlines():
        words = AROUND.sub("", line.strip()).strip()
        if words:
            return words
    return ""
