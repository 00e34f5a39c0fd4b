"""The pipelines of `embermq pipeline run`: the ready-made ones, and those in files.

Each is prepared first: what it needs is looked at, and what comes back wants a Spark, which takes a while.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from embermq.cli.api import Api
from embermq.cli.command.messages import amqp_url, with_login
from embermq.cli.errors import USAGE_ERROR, CommandFailed
from embermq.cli.output import Output, counted

OnSpark = Callable[[Any], None]  # runs it, with a session
# The ready-made ones, and what each needs to be told.
READY = {
    "archive": ("path",),
    "compact": ("path",),
    "replay": ("path", "exchange"),
    "dead-letters": ("queue",),
    "traffic": ("queue", "path"),
    "route": ("queue", "exchange", "sql", "checkpoint"),
}


ABOUT = {
    "archive": "everything that passes an exchange or queue, as Parquet",
    "compact": "one file for each past hour of an archive instead of many",
    "replay": "from an archive back to an exchange",
    "dead-letters": "what fails, where, why and since when",
    "traffic": "counts, sizes and latencies in windows of time",
    "route": "SQL between a queue and an exchange",
}
# A binding that gets everything that passes an exchange of this type.
EVERYTHING = {"topic": "#", "fanout": "", "headers": ""}


def what_it_needs(name: str) -> str:
    words = [f"--{option}" for option in READY[name]]
    return " ".join([*words, "and --exchange or --queue"] if name == "archive" else words)


def prepared(api: Api, output: Output, options: argparse.Namespace) -> OnSpark:
    for name in READY.get(options.pipeline, ()):
        needed(options, name)
    if options.pipeline in READY:
        options.name = options.name or options.pipeline
        return PREPARE[options.pipeline](api, output, options)
    return (python_file if options.pipeline.endswith(".py") else toml_file)(api, output, options)


def needed(options: argparse.Namespace, name: str) -> str:
    value = getattr(options, name)
    if not value:
        raise CommandFailed(f"{options.pipeline} needs --{name}", USAGE_ERROR)
    return str(value)


def say(line: str) -> None:
    """Progress goes where it does not mix with results."""
    print(line, file=sys.stderr, flush=True)


# -- what runs under a name


def named(
    api: Api,
    output: Output,
    options: argparse.Namespace,
    begin: Any,
    check: Callable[[], None] | None = None,
    ends: Any = None,
) -> OnSpark:
    """Run until its end; the broker and this machine's list know it by its name.

    What `check` finds missing is told now; when the broker was away later on, it tells whether that is back.
    """
    from pyspark_embermq.pipelines import run as running
    from pyspark_embermq.pipelines import spec, state

    if check is not None:
        check()
    state.refuse_another(options.name)

    def on_spark(spark: Any) -> None:
        tell = teller(api, options)
        ended = running.run(spark, options.name, begin, options.once, say, tell, check, ends or spec.NOT_TOLD)
        did = f"{counted(ended.rows, 'row')} in {counted(ended.batches, 'batch')}"
        output.said(f"{ended.name} has ended: {did}", rows=ended.rows)

    return on_spark


def described(api: Api, output: Output, options: argparse.Namespace, pipeline: Any) -> OnSpark:
    """One that is a source, a transformation and a sink, and no program of its own."""
    from pyspark_embermq.pipelines import run as running
    from pyspark_embermq.pipelines.preflight import check_pipeline

    return named(
        api,
        output,
        options,
        lambda s, once: running.start(s, pipeline, once, say),
        lambda: check_pipeline(pipeline),
        pipeline.ends,
    )


def teller(api: Api, options: argparse.Namespace) -> Any:
    """Lets the broker know how a pipeline is, so that its console and Prometheus do."""
    from pyspark_embermq.pipelines.heartbeat import Teller

    return Teller(api.put, options.vhost).tell


# -- files


def toml_file(api: Api, output: Output, options: argparse.Namespace) -> OnSpark:
    from pyspark_embermq.pipelines import spec

    pipeline = with_broker(spec.load(Path(options.pipeline)), api, options)
    options.name = options.name or pipeline.name
    return described(api, output, options, pipeline)


def with_broker(pipeline: Any, api: Api, options: argparse.Namespace) -> Any:
    """The broker of the command line where the file names none, and its user where the file names none."""

    def of(end: Any) -> Any:
        if end.format != "amqp":
            return end
        given = {name.lower(): value for name, value in end.options.items()}
        more = {}
        if "url" not in given:
            more["url"] = amqp_url(api, options)
            if "httpurl" not in given:
                more["httpUrl"] = f"{'https' if api.secure else 'http'}://{api.place}"
        elif "user" not in given:
            more["url"] = with_login(given["url"], api)
        kept = {name: value for name, value in end.options.items() if name.lower() != "url" or not more}
        return replace(end, options=kept | more)

    tables = {name: of(table) for name, table in pipeline.tables.items()}
    return replace(pipeline, source=of(pipeline.source), sink=of(pipeline.sink), tables=tables)


def python_file(api: Api, output: Output, options: argparse.Namespace) -> OnSpark:
    """A module with `start(spark, once)`, or `start(spark, once, url)`, that answers a streaming query."""
    from pyspark_embermq.pipelines import python_pipeline as programs

    path = Path(options.pipeline)
    options.name = options.name or path.stem
    return named(api, output, options, programs.load(path, lambda: amqp_url(api, options)))


# -- the ready-made ones


def archive(api: Api, output: Output, options: argparse.Namespace) -> OnSpark:
    from pyspark_embermq.pipelines import archive, spec
    from pyspark_embermq.pipelines.preflight import check_queues, check_sending

    url = amqp_url(api, options)
    path = archive.local_path(options.path)
    what = archive.Archive(url, path, "", options.queue or "", options.exchange or "")
    if options.exchange and not options.queue:
        check_sending({"url": url, "exchange": options.exchange})
        what = replace(what, keys=keys_to_bind(api, options))
    queue = archive.source_queue(what)
    what = replace(what, checkpoint=checkpoint_of(options, queue))
    if options.exchange:
        say(f"what passes exchange '{options.exchange}' from now on is kept in stream '{queue}', 7 days long")
    return named(
        api,
        output,
        options,
        lambda s, once: archive.start(s, what, once),
        lambda: check_queues({"url": url, "queue": queue}),
        spec.Ends(f"queue '{queue}'", f"parquet {what.path}"),
    )


def keys_to_bind(api: Api, options: argparse.Namespace) -> list[str]:
    """What a stream is bound with to get everything that passes an exchange, or what is asked for."""
    if options.key:
        return [key.strip() for key in options.key.split(",")]
    path = "/api/exchanges/" + "/".join(quote(name, safe="") for name in (options.vhost, options.exchange))
    try:
        exchange, bindings = api.get(path), api.get(f"{path}/bindings/source")
    except CommandFailed as failure:
        hint = "; or name the routing keys to keep with --key ('#': all, of a topic exchange)"
        raise CommandFailed(f"{failure}{hint}", failure.code) from None
    kind = exchange["arguments"].get("x-delayed-type", exchange["type"])
    if kind in EVERYTHING:
        return [EVERYTHING[kind]]
    if kind != "direct":
        raise CommandFailed(
            f"exchange '{options.exchange}' is of type {kind}, which shares its messages out: archive its "
            "queues with --queue"
        )
    keys = sorted({str(binding["routing_key"]) for binding in bindings})
    if not keys:
        raise CommandFailed(
            f"exchange '{options.exchange}' is direct and nothing is bound to it: name the routing keys to "
            "keep with --key"
        )
    say(f"exchange '{options.exchange}' is direct: the keys bound to it now are kept ({', '.join(keys)})")
    return keys


def compact(api: Api, output: Output, options: argparse.Namespace) -> OnSpark:
    from pyspark_embermq.pipelines import archive

    path = Path(archive.existing(options.path))

    def on_spark(spark: Any) -> None:
        done = archive.compact(spark, path)
        output.said(f"{counted(done, 'hour')} compacted", hours=done)

    return on_spark


def replay(api: Api, output: Output, options: argparse.Namespace) -> OnSpark:
    from pyspark_embermq.pipelines import archive, spec, state
    from pyspark_embermq.pipelines import run as running
    from pyspark_embermq.pipelines.preflight import check_sending

    url, path = amqp_url(api, options), archive.existing(options.path)
    if options.rate < 0:
        raise CommandFailed("--rate: expected messages per second, or 0 for no limit", USAGE_ERROR)
    check_sending({"url": url, "exchange": options.exchange})
    archive.filled(path)
    state.refuse_another(options.name)
    choice = archive.Choice(options.since, options.until, options.key, options.where)

    def on_spark(spark: Any) -> None:
        parts = archive.replay(spark, url, path, options.exchange, choice, options.rate)
        ends = spec.Ends(f"parquet {path}", f"exchange '{options.exchange}'")
        ended = running.run_parts(options.name, parts, say, teller(api, options), ends)
        output.said(f"{counted(ended.rows, 'message')} published again", published=ended.rows)

    return on_spark


def dead_letters(api: Api, output: Output, options: argparse.Namespace) -> OnSpark:
    from embermq.cli.command.spark import show
    from pyspark_embermq.pipelines import report_page as pages
    from pyspark_embermq.pipelines import reports
    from pyspark_embermq.pipelines.preflight import check_queues

    url, queue, path = amqp_url(api, options), options.queue, options.path
    check_queues({"url": url, "queue": queue})

    def on_spark(spark: Any) -> None:
        frame = reports.dead_letters(spark, url, queue)
        rows = [row.asDict() for row in frame.collect()]
        if path and Path(path).suffix in (".html", ".htm"):
            when = reports.by_minute(reports.deaths(spark, url, queue))
            Path(path).write_text(pages.page(f"Dead letters in {queue}", rows, "letters", when))
        elif path:
            spark.createDataFrame(rows, frame.schema).coalesce(1).write.mode("overwrite").parquet(path)
        show(output, rows, frame.columns, "there are no dead letters")
        if path:
            say(f"written to {path}")

    return on_spark


def traffic(api: Api, output: Output, options: argparse.Namespace) -> OnSpark:
    from pyspark_embermq.pipelines import archive, reports, spec
    from pyspark_embermq.pipelines.preflight import check_queues

    url, queue, path = amqp_url(api, options), options.queue, archive.local_path(options.path)
    checkpoint = checkpoint_of(options, queue)
    return named(
        api,
        output,
        options,
        lambda s, once: reports.start_traffic(
            s, url, queue, path, checkpoint, options.window, once, options.late
        ),
        lambda: check_queues({"url": url, "queue": queue}),
        spec.Ends(f"queue '{queue}'", f"parquet {path}"),
    )


def route(api: Api, output: Output, options: argparse.Namespace) -> OnSpark:
    from pyspark_embermq.pipelines import spec

    url = amqp_url(api, options)
    source = {"queue": options.queue, "url": url}
    if options.schema:
        source |= {"format": "json", **decode_errors(options)}
    elif options.on_decode_error or options.dead_letter_exchange:
        raise CommandFailed("--on-decode-error is about bodies read by a --schema: give one", USAGE_ERROR)
    pipeline = spec.Pipeline(
        options.name,
        spec.End(schema=options.schema or "", options=source),
        spec.End(options={"exchange": options.exchange, "url": url}),
        options.checkpoint,
        options.sql,
    )
    return described(api, output, options, pipeline)


def decode_errors(options: argparse.Namespace) -> dict[str, str]:
    """What becomes of bodies that cannot be read. With an exchange named, they go there."""
    exchange = options.dead_letter_exchange
    wanted = options.on_decode_error or ("dead-letter" if exchange else "fail")
    if exchange and wanted != "dead-letter":
        raise CommandFailed(
            f"--dead-letter-exchange does not go with --on-decode-error {wanted}", USAGE_ERROR
        )
    if wanted == "dead-letter" and not exchange:
        raise CommandFailed("--on-decode-error dead-letter needs --dead-letter-exchange", USAGE_ERROR)
    return {"onDecodeError": wanted} | ({"deadLetterExchange": exchange} if exchange else {})


PREPARE: dict[str, Callable[[Api, Output, argparse.Namespace], OnSpark]] = {
    "archive": archive,
    "compact": compact,
    "replay": replay,
    "dead-letters": dead_letters,
    "traffic": traffic,
    "route": route,
}


def checkpoint_of(options: argparse.Namespace, queue: str) -> str:
    from pyspark_embermq.pipelines.archive import default_checkpoint

    return options.checkpoint or default_checkpoint(needed(options, "path"), queue)
