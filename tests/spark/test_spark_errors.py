"""One sentence for a person out of what Spark says."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

from pyspark_embermq.errors import AMQPSourceError, Missing, Unreachable
from pyspark_embermq.pipelines.spark_errors import SparkFailed, WrongQuery, told

IN_A_TASK = """[STREAM_FAILED] Query [id = 1a, runId = 2b] terminated with exception: Job aborted:
Traceback (most recent call last):
  File "/x/broker_link.py", line 204, in connected
    raise sentence(options, error) from error
pyspark_embermq.errors.Unreachable: the broker at amqp://host:5672 cannot be reached: refused
 SQLSTATE: 38000
\tat org.apache.spark.sql.Something(Something.scala:1)
"""
IN_A_FUNCTION = """[PYTHON_EXCEPTION] An exception was thrown: Traceback (most recent call last):
  File "/home/me/orders.py", line 3, in total
    return int(text)
ValueError: invalid literal for int() with base 10: 'x'
 SQLSTATE: 38000
"""
MISSPELT = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x` cannot be resolved. Did you mean one of "
    "these? [`body`]. SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n+- SubqueryAlias"
)


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (AMQPSourceError("as it is"), AMQPSourceError, "as it is"),
        (
            StreamingQueryException(IN_A_TASK),
            Unreachable,
            "the broker at amqp://host:5672 cannot be reached: refused",
        ),
        (PySparkException("pyspark_embermq.errors.Missing: no queue 'q'"), Missing, "no queue 'q'"),
        (PySparkException("pyspark_embermq.errors.AMQPSourceError: no"), AMQPSourceError, "no"),
        (PySparkException("x\nembermq.client.errors.ConnectionLost: broke"), Unreachable, "broke"),
        (
            PySparkException(IN_A_FUNCTION),
            SparkFailed,
            "ValueError: invalid literal for int() with base 10: 'x'",
        ),
        (
            AnalysisException(MISSPELT),
            WrongQuery,
            "A column with name `x` cannot be resolved. Did you mean one of these? [`body`]; line 1 pos 7",
        ),
        (
            AnalysisException(
                "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1)"
            ),
            WrongQuery,
            "Syntax error at or near 'selec' (line 1)",
        ),
        (PySparkException(""), SparkFailed, "PySparkException"),
    ],
)
def test_what_is_told(error: Exception, kind: type[Exception], sentence: str) -> None:
    problem = told(error)
    assert (type(problem), str(problem)) == (kind, sentence)
