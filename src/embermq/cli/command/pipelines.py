"""`embermq pipeline` and `embermq sql`: data pipelines on Spark, and questions to queues and streams."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from embermq.cli.api import Api
from embermq.cli.command.messages import AMQP_URL
from embermq.cli.command.ready_pipelines import ABOUT, READY, what_it_needs
from embermq.cli.command.spark import require_spark, run_pipeline, run_sql
from embermq.cli.commands import VHOST, Commands, add_command, argument
from embermq.cli.errors import NOT_FOUND, CommandFailed
from embermq.cli.output import Column, Output
from embermq.cli.parser import COUNT

STATES: list[Column] = [
    ("name", "name"),
    ("state", "state"),
    ("pid", lambda state: str(state.get("pid", ""))),
    ("batches", "batches"),
    ("rows", "rows"),
    ("rows/s", "rows_per_second"),
    ("lag", "lag"),
    ("from", "source"),
    ("to", "sink"),
    ("reason", "reason"),
]
BROKERS: list[Column] = [("vhost", "vhost"), STATES[0], ("host", "host"), *STATES[1:]]
MASTER = argument(
    "--master", metavar="URL", help="where Spark runs (local[*]); for example spark://host:7077"
)


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
        help="data pipelines on Spark: new, run, list, status, stop",
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
        argument(
            "--checkpoint", metavar="DIR", help="where the query keeps its place (PATH/_checkpoint/QUEUE)"
        ),
        argument("--where", metavar="SQL", default="true", help="replay: which messages"),
        argument("--since", metavar="TIME", default="", help="replay: from then on (UTC)"),
        argument("--until", metavar="TIME", default="", help="replay: before that (UTC)"),
        argument(
            "--key",
            metavar="K",
            default="",
            help="replay: routing keys, by pattern: eu.#; archive: to bind with",
        ),
        argument("--rate", metavar="N", type=COUNT, default=0, help="replay: messages per second (no limit)"),
        argument("--window", metavar="T", default="1 minute", help="traffic: length of a window (1 minute)"),
        argument("--late", metavar="T", default="1 minute", help="traffic: how late messages may be"),
        argument(
            "--sql", metavar="SQL", help="route: select ... from source; columns as in docs/spark-reading.md"
        ),
        argument("--schema", metavar="S", help="route: the fields of JSON bodies, as 'id int, total double'"),
        argument(
            "--on-decode-error",
            choices=("fail", "null", "dead-letter"),
            help="route: what becomes of bodies that do not fit --schema (fail)",
        ),
        argument("--dead-letter-exchange", metavar="X", help="route: where such bodies go (dead-letter)"),
        VHOST,
        AMQP_URL,
        MASTER,
        more="ready-made pipelines, and what they need:\n"
        + "\n".join(f"  {name:<13} {about}\n{'':16}{what_it_needs(name)}" for name, about in ABOUT.items()),
    )
    add_command(
        actions,
        "list",
        list_pipelines,
        "the pipelines that have run on this machine",
        argument(
            "--broker",
            action="store_true",
            help="those of all machines that told the broker of themselves",
        ),
    )
    new = actions.add_parser(
        "new",
        help="write a pipeline to start from, with a test of it",
        description="Write a pipeline to start from, with a test of it, into a new directory.",
    )
    new.add_argument("directory", metavar="DIR", help="the pipeline is called after it")
    new.add_argument("--json", action="store_true", help="print JSON, for scripts")
    new.set_defaults(run=new_pipeline)
    for name, run, about in (
        ("status", show_pipeline, "how a pipeline is; exit code 1 when it failed or died"),
        ("stop", stop_pipeline, "let a pipeline end after its batch"),
    ):
        action = actions.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        action.add_argument("name", metavar="NAME")
        action.add_argument("--json", action="store_true", help="print JSON, for scripts")
        action.set_defaults(run=run)


def new_pipeline(options: argparse.Namespace) -> int:
    require_spark()
    from pyspark_embermq.errors import AMQPSourceError
    from pyspark_embermq.pipelines.project import create

    try:
        files = [str(path) for path in create(Path(options.directory))]
    except (AMQPSourceError, OSError) as error:
        raise CommandFailed(str(error)) from None
    Output(options.json).said(f"written: {', '.join(files)}", files=files)
    return os.EX_OK


def list_pipelines(api: Api, output: Output, options: argparse.Namespace) -> None:
    if options.broker:
        output.table(api.get("/api/pipelines"), BROKERS, "no pipeline has told this broker of itself")
        return
    require_spark()
    from pyspark_embermq.pipelines.state import all_states, as_rows

    output.table(as_rows(all_states()), STATES, "no pipeline has run on this machine")


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
