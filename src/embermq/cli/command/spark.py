"""Pipelines and queries run on Spark, after their checks: Spark takes a while to start."""

from __future__ import annotations

import argparse
import base64
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from embermq.cli.api import Api
from embermq.cli.command.messages import amqp_url
from embermq.cli.errors import DENIED, NOT_FOUND, REFUSED, UNREACHABLE, USAGE_ERROR, CommandFailed
from embermq.cli.output import Column, Output


def require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("pyarrow") is None:
        raise CommandFailed("this needs Spark: pip install 'embermq[spark]' (and Java 17)", USAGE_ERROR)


@contextmanager
def sentences(options: argparse.Namespace) -> Iterator[None]:
    """What goes wrong within becomes a sentence, and an exit code of docs/cli.md."""
    from pyspark_embermq.errors import AMQPSourceError, Denied, Missing, Unreachable
    from pyspark_embermq.pipelines.python_pipeline import ProgramFailed
    from pyspark_embermq.pipelines.session import log_of
    from pyspark_embermq.pipelines.spark_errors import SPARK_ERRORS, SparkFailed, WrongQuery, told

    try:
        yield
    except (*SPARK_ERRORS, AMQPSourceError) as error:
        problem = told(error)
        more = ""
        if isinstance(problem, SparkFailed):
            more = f" (Spark's log: {log_of(options.name)})"
        elif isinstance(problem, ProgramFailed) and problem.trace:
            more = f"\n\n{problem.trace}"
        codes = {Unreachable: UNREACHABLE, Denied: DENIED, Missing: NOT_FOUND, WrongQuery: USAGE_ERROR}
        raise CommandFailed(f"{problem}{more}", codes.get(type(problem), REFUSED)) from None


# -- embermq sql


def run_sql(api: Api, output: Output, options: argparse.Namespace) -> None:
    require_spark()
    from pyspark_embermq.pipelines import sql_tables as tables
    from pyspark_embermq.pipelines.session import spark_session

    options.name = "sql"
    url = amqp_url(api, options)
    with sentences(options):
        tables.check(options.query, url)
        frame = tables.query(spark_session(options.name, options.master), options.query, url)
        rows = [row.asDict(recursive=True) for row in frame.collect()]
    show(output, rows, frame.columns, "no rows")


def show(output: Output, rows: list[dict[str, Any]], names: list[str], nothing: str) -> None:
    columns: list[Column] = [(name, name) for name in names]
    output.table([{name: plain(row[name]) for name in names} for row in rows], columns, nothing)


def plain(value: object) -> object:
    """A value as JSON has it: times as text, bytes as text if they are some."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return value if isinstance(value, str | int | float | bool | None) else str(value)


# -- embermq pipeline run


def run_pipeline(api: Api, output: Output, options: argparse.Namespace) -> None:
    require_spark()
    from embermq.cli.command.ready_pipelines import READY, prepared
    from pyspark_embermq.pipelines.session import spark_session

    if options.once and options.continuous:
        raise CommandFailed("--once or --continuous, not both", USAGE_ERROR)
    if options.pipeline not in READY and not Path(options.pipeline).exists():
        raise CommandFailed(
            f"there is no file {options.pipeline}; ready-made are {', '.join(READY)}", NOT_FOUND
        )
    with sentences(options):
        run = prepared(api, output, options)
        run(spark_session(options.name, options.master))
