"""`embermq pipeline` and `embermq sql`: data pipelines on Spark, and questions to queues and streams."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from embermq.cli.api import Api
from embermq.cli.commands import VHOST, Commands, add_command, argument
from embermq.cli.failure import NOT_FOUND, USAGE_ERROR, CommandFailed
from embermq.cli.messages import AMQP_URL, amqp_url
from embermq.cli.output import Column, Output

STATES: list[Column] = [
    ("name", "name"),
    ("state", "state"),
    ("pid", "pid"),
    ("batches", "batches"),
    ("rows", "rows"),
    ("rows/s", "rows_per_second"),
    ("lag", "lag"),
    ("reason", "reason"),
]
MASTER = argument(
    "--master", metavar="URL", help="where Spark runs (local[*]); for example spark://host:7077"
)
# The ready-made ones, and what each needs to be told.
READY = {
    "archive": ("path",),
    "compact": ("path",),
    "replay": ("path", "exchange"),
    "dead-letters": ("queue",),
    "traffic": ("queue", "path"),
    "route": ("queue", "exchange", "sql", "checkpoint"),
}


def add_sql(commands: Commands) -> None:
    add_command(
        commands,
        "sql",
        run_sql,
        "ask queues, streams and archives with SQL: select ... from queue('orders')",
        argument("query", metavar="SQL", help="tables are queue('Q'), stream('S') and archive('PATH')"),
        VHOST,
        AMQP_URL,
        MASTER,
    )


def add_pipeline(commands: Commands) -> None:
    parser = commands.add_parser(
        "pipeline",
        help="data pipelines on Spark: run, list, status, stop",
        description="Data pipelines on Spark (pip install embermq[spark]).",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(
        actions,
        "run",
        run_pipeline,
        f"run a pipeline: a TOML or Python file, or one of {', '.join(READY)}",
        argument("pipeline", metavar="FILE|NAME"),
        argument("--once", action="store_true", help="end when everything that is there has been done"),
        argument("--continuous", action="store_true", help="go on until it is stopped (that is the default)"),
        argument("--name", metavar="N", help="the name for list, status and stop, if there are several"),
        argument("--queue", metavar="Q", help="the queue or stream that is read"),
        argument("--exchange", metavar="X", help="archive: what is read; replay, route: where messages go"),
        argument("--path", metavar="DIR", help="where the archive, table or page is"),
        argument("--checkpoint", metavar="DIR", help="where the query keeps its place (PATH/_checkpoint)"),
        argument("--where", metavar="SQL", default="true", help="replay: which messages"),
        argument("--since", metavar="TIME", default="", help="replay: from then on (UTC)"),
        argument("--until", metavar="TIME", default="", help="replay: before that (UTC)"),
        argument("--key", metavar="K", default="", help="replay: routing keys, by pattern: eu.# or *.paid"),
        argument("--rate", metavar="N", type=int, default=0, help="replay: messages per second (no limit)"),
        argument("--window", metavar="T", default="1 minute", help="traffic: length of a window (1 minute)"),
        argument("--late", metavar="T", default="1 minute", help="traffic: how late messages may be"),
        argument("--sql", metavar="SQL", help="route: select ... from source; columns as in docs/spark.md"),
        argument("--schema", metavar="S", help="route: the fields of JSON bodies, as 'id int, total double'"),
        VHOST,
        AMQP_URL,
        MASTER,
    )
    for name, run, about in (
        ("list", list_pipelines, "the pipelines that have run on this machine"),
        ("status", show_pipeline, "how a pipeline is; exit code 1 when it failed or died"),
        ("stop", stop_pipeline, "let a pipeline end after its batch"),
    ):
        action = actions.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        if name != "list":
            action.add_argument("name", metavar="NAME")
        action.add_argument("--json", action="store_true", help="print JSON, for scripts")
        action.set_defaults(run=run)


def require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("pyarrow") is None:
        raise CommandFailed("this needs Spark: pip install 'embermq[spark]' (and Java 17)", USAGE_ERROR)


def run_sql(api: Api, output: Output, options: argparse.Namespace) -> None:
    require_spark()
    from pyspark_embermq.errors import AMQPSourceError
    from pyspark_embermq.pipelines.running import SPARK_ERRORS, sentence_of
    from pyspark_embermq.pipelines.session import spark_session
    from pyspark_embermq.pipelines.tables import query

    url = amqp_url(api, options)
    try:
        spark = spark_session("embermq sql", options.master)
        rows = [row.asDict(recursive=True) for row in query(spark, options.query, url).collect()]
    except AMQPSourceError as error:
        raise CommandFailed(str(error), USAGE_ERROR) from None
    except SPARK_ERRORS as error:
        raise CommandFailed(sentence_of(error)) from None
    columns: list[Column] = [(name, name) for name in (rows[0] if rows else ())]
    if output.as_json:
        output.json([{name: plain(value) for name, value in row.items()} for row in rows])
    else:
        output.table(rows, columns, "no rows")


def plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | dict | list | None) else str(value)


def run_pipeline(api: Api, output: Output, options: argparse.Namespace) -> None:
    require_spark()
    from pyspark_embermq.errors import AMQPSourceError
    from pyspark_embermq.pipelines.running import SPARK_ERRORS, sentence_of
    from pyspark_embermq.pipelines.session import spark_session

    if options.pipeline not in READY and not Path(options.pipeline).exists():
        raise CommandFailed(
            f"there is no file {options.pipeline}; ready-made are {', '.join(READY)}", NOT_FOUND
        )
    try:
        check(options)  # before Spark starts, which takes a while
        spark = spark_session(f"embermq {Path(options.pipeline).stem}", options.master)
        if options.pipeline in READY:
            run_ready(spark, api, output, options)
        else:
            run_file(spark, api, output, options)
    except AMQPSourceError as error:
        raise CommandFailed(str(error)) from None
    except SPARK_ERRORS as error:
        raise CommandFailed(sentence_of(error)) from None


def check(options: argparse.Namespace) -> None:
    from pyspark_embermq.pipelines import spec

    if options.once and options.continuous:
        raise CommandFailed("--once or --continuous, not both", USAGE_ERROR)
    for name in READY.get(options.pipeline, ()):
        needed(options, name)
    if options.pipeline not in READY and Path(options.pipeline).suffix != ".py":
        spec.load(Path(options.pipeline))


def run_file(spark: Any, api: Api, output: Output, options: argparse.Namespace) -> None:
    from pyspark_embermq.pipelines import running, spec

    path = Path(options.pipeline)
    if path.suffix == ".py":
        module = loaded(path)
        run_named(spark, api, output, options, path.stem, module.start)
        return
    pipeline = with_urls(spec.load(path), amqp_url(api, options))
    run_named(
        spark,
        api,
        output,
        options,
        pipeline.name,
        lambda spark, once: running.start(spark, pipeline, once, say),
    )


def with_urls(pipeline: Any, url: str) -> Any:
    """The broker of the command line where the file names none."""
    from dataclasses import replace

    def of(end: Any) -> Any:
        if end.format != "amqp" or "url" in end.options:
            return end
        return replace(end, options={**end.options, "url": url})

    tables = {name: of(table) for name, table in pipeline.tables.items()}
    return replace(pipeline, source=of(pipeline.source), sink=of(pipeline.sink), tables=tables)


def run_named(
    spark: Any, api: Api, output: Output, options: argparse.Namespace, name: str, begin: Any
) -> None:
    """Run until its end; the broker and this machine's list know it by its name."""
    from pyspark_embermq.pipelines import running

    tell = teller(api, options)
    state = running.run(spark, options.name or name, begin, options.once, say, tell)
    output.said(f"{state.name} has ended: {state.rows:,} rows in {state.batches:,} batches", rows=state.rows)


def loaded(path: Path) -> Any:
    """A pipeline in Python: a module with `start(spark, once)` that answers a streaming query."""
    found = importlib.util.spec_from_file_location("embermq_pipeline", path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    if not callable(getattr(module, "start", None)):
        raise CommandFailed(f"{path}: there is no function start(spark, once)", USAGE_ERROR)
    return module


def run_ready(spark: Any, api: Api, output: Output, options: argparse.Namespace) -> None:
    url = amqp_url(api, options)
    READY_ONES[options.pipeline](spark, api, output, options, url)


def run_archive(spark: Any, api: Api, output: Output, options: argparse.Namespace, url: str) -> None:
    from pyspark_embermq.pipelines import archive

    path = needed(options, "path")
    what = archive.Archive(url, path, checkpoint_of(options), options.queue or "", options.exchange or "")
    run_named(spark, api, output, options, "archive", lambda s, once: archive.start(s, what, once))


def run_compact(spark: Any, api: Api, output: Output, options: argparse.Namespace, url: str) -> None:
    from pyspark_embermq.pipelines import archive

    done = archive.compact(spark, Path(needed(options, "path")))
    output.said(f"{done:,} hour(s) compacted", hours=done)


def run_replay(spark: Any, api: Api, output: Output, options: argparse.Namespace, url: str) -> None:
    from pyspark_embermq.pipelines import archive

    path, exchange = needed(options, "path"), needed(options, "exchange")
    choice = archive.Choice(options.since, options.until, options.key, options.where)
    count = archive.replay(spark, url, path, exchange, choice, options.rate)
    output.said(f"{count:,} message(s) published again", published=count)


def run_dead_letters(spark: Any, api: Api, output: Output, options: argparse.Namespace, url: str) -> None:
    from pyspark_embermq.pipelines import pages, reports

    queue = needed(options, "queue")
    frame = reports.dead_letters(spark, url, queue)
    rows = [row.asDict() for row in frame.collect()]
    if options.path and Path(options.path).suffix in (".html", ".htm"):
        when = reports.by_minute(reports.deaths(spark, url, queue))
        Path(options.path).write_text(pages.page(f"Dead letters in {queue}", rows, "letters", when))
    elif options.path:
        spark.createDataFrame(rows, frame.schema).coalesce(1).write.mode("overwrite").parquet(options.path)
    if output.as_json:
        rows = [{name: plain(value) for name, value in row.items()} for row in rows]
    output.table(rows, [(name, name) for name in frame.columns], "there are no dead letters")


def run_traffic(spark: Any, api: Api, output: Output, options: argparse.Namespace, url: str) -> None:
    from pyspark_embermq.pipelines import reports

    queue, path, checkpoint = needed(options, "queue"), needed(options, "path"), checkpoint_of(options)
    run_named(
        spark,
        api,
        output,
        options,
        "traffic",
        lambda s, once: reports.start_traffic(
            s, url, queue, path, checkpoint, options.window, once, options.late
        ),
    )


def run_route(spark: Any, api: Api, output: Output, options: argparse.Namespace, url: str) -> None:
    from pyspark_embermq.pipelines import running, spec

    source = {"queue": needed(options, "queue"), "url": url}
    if options.schema:
        source["format"] = "json"
    pipeline = spec.Pipeline(
        options.name or "route",
        spec.End(schema=options.schema or "", options=source),
        spec.End(options={"exchange": needed(options, "exchange"), "url": url}),
        needed(options, "checkpoint"),
        needed(options, "sql"),
    )
    run_named(spark, api, output, options, "route", lambda s, once: running.start(s, pipeline, once, say))


READY_ONES = {
    "archive": run_archive,
    "compact": run_compact,
    "replay": run_replay,
    "dead-letters": run_dead_letters,
    "traffic": run_traffic,
    "route": run_route,
}


def checkpoint_of(options: argparse.Namespace) -> str:
    return options.checkpoint or str(Path(needed(options, "path")) / "_checkpoint")


def teller(api: Api, options: argparse.Namespace) -> Any:
    """Lets the broker know how a pipeline is, so that its console and Prometheus do."""
    from pyspark_embermq.pipelines.telling import Teller

    return Teller(api.put, options.vhost).tell


def needed(options: argparse.Namespace, name: str) -> str:
    value = getattr(options, name)
    if not value:
        raise CommandFailed(f"{options.pipeline} needs --{name}", USAGE_ERROR)
    return str(value)


def say(line: str) -> None:
    """Progress goes where it does not mix with results."""
    print(line, file=sys.stderr, flush=True)


def list_pipelines(options: argparse.Namespace) -> int:
    require_spark()
    from pyspark_embermq.pipelines.state import all_states, as_rows

    Output(options.json).table(as_rows(all_states()), STATES, "no pipeline has run on this machine")
    return 0


def show_pipeline(options: argparse.Namespace) -> int:
    require_spark()
    from pyspark_embermq.errors import AMQPSourceError
    from pyspark_embermq.pipelines.state import DIED, FAILED, as_rows, state_of

    try:
        state = state_of(options.name)
    except AMQPSourceError as error:
        raise CommandFailed(str(error), NOT_FOUND) from None
    Output(options.json).one(as_rows([state])[0], STATES)
    return 1 if state.state in (FAILED, DIED) else os.EX_OK


def stop_pipeline(options: argparse.Namespace) -> int:
    require_spark()
    from pyspark_embermq.errors import AMQPSourceError
    from pyspark_embermq.pipelines.state import as_rows, stop

    try:
        state = stop(options.name)
    except AMQPSourceError as error:
        raise CommandFailed(str(error)) from None
    Output(options.json).said(f"{state.name} {state.state}", **as_rows([state])[0])
    return 0
