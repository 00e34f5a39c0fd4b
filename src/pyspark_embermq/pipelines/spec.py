"""The specification of a pipeline, a TOML file: source, SQL, sink, trigger, checkpoint.

    name = "paid-orders"
    trigger = "10 seconds"
    checkpoint = "/var/lib/pipelines/paid-orders"

    [source]
    queue = "orders"
    body = "json"
    schema = "id int, total double, _routing_key string"

    [transform]
    sql = "select to_json(struct(id, total)) as body from source where total > 100"

    [sink]
    exchange = "large-orders"

    [tables.customers]
    format = "parquet"
    path = "/data/customers"

Tables are read as they are when the pipeline begins, for joins in the SQL. Keys of source, sink and tables
that have no meaning here are options of the data source.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark_embermq.errors import AMQPSourceError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
TRIGGER = re.compile(r"\d+ (milliseconds?|seconds?|minutes?|hours?|days?)")
PLACES = (
    ("queue", "queue"),
    ("queues", "queues"),
    ("subscribepattern", "queues like"),
    ("superstream", "super stream"),
    ("exchange", "exchange"),
)
OUTPUT_MODES = ("append", "update", "complete")


@dataclass(frozen=True)
class End:
    """A source or a sink: what Spark calls it, its schema, its options."""

    format: str = "amqp"
    schema: str = ""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """As people say it: queue 'orders', parquet /data/orders."""
        given = {name.lower(): value for name, value in self.options.items()}
        for option, kind in PLACES:
            if self.format == "amqp" and option in given:
                return f"{kind} '{given[option]}'"
        return f"{self.format} {given['path']}" if "path" in given else self.format


@dataclass(frozen=True)
class Ends:
    """Where rows come from and where they go, for people."""

    source: str = ""
    sink: str = ""


NOT_TOLD = Ends()


@dataclass(frozen=True)
class Pipeline:
    name: str
    source: End
    sink: End
    checkpoint: str
    sql: str = "select * from source"
    trigger: str = "1 second"
    output_mode: str = "append"
    watermark: tuple[str, str] | None = None  # column, how late
    tables: dict[str, End] = field(default_factory=dict)

    @property
    def ends(self) -> Ends:
        return Ends(self.source.place, self.sink.place)


def load(path: Path) -> Pipeline:
    """The pipeline in a TOML file; an AMQPSourceError says what is wrong with it, and where."""
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise AMQPSourceError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AMQPSourceError(f"{path}: not TOML: {error}") from None
    try:
        return pipeline_from(found, path)
    except AMQPSourceError as error:
        raise AMQPSourceError(f"{path}: {error}") from None


def pipeline_from(found: dict[str, Any], path: Path) -> Pipeline:
    known = {
        "name",
        "trigger",
        "checkpoint",
        "source",
        "transform",
        "sink",
        "output_mode",
        "watermark",
        "tables",
    }
    unknown = sorted(set(found) - known)
    if unknown:
        raise AMQPSourceError(f"unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
    name = str(found.get("name", path.stem))
    if not NAME.fullmatch(name):
        raise AMQPSourceError(f"name is {name!r}; expected letters, digits, _ . and -")
    for key in ("source", "sink"):
        if not isinstance(found.get(key), dict):
            raise AMQPSourceError(f"there is no [{key}]")
    trigger = str(found.get("trigger", Pipeline.trigger))
    if not TRIGGER.fullmatch(trigger):
        raise AMQPSourceError(f"trigger is {trigger!r}; expected for example '10 seconds'")
    mode = str(found.get("output_mode", "append"))
    if mode not in OUTPUT_MODES:
        raise AMQPSourceError(f"output_mode is {mode!r}; expected one of {', '.join(OUTPUT_MODES)}")
    if "checkpoint" not in found:
        raise AMQPSourceError("checkpoint is missing: a directory where the query keeps its place")
    return Pipeline(
        name,
        named(end_from("source", found["source"]), name),
        end_from("sink", found["sink"]),
        str(found["checkpoint"]),
        sql_from(found.get("transform", {})),
        trigger,
        mode,
        watermark_from(found.get("watermark")),
        tables_from(found.get("tables", {})),
    )


def end_from(which: str, found: dict[str, Any]) -> End:
    options = dict(found)
    kind = str(options.pop("format", "amqp"))
    schema = str(options.pop("schema", ""))
    if kind == "amqp" and "body" in options:
        options["format"] = options.pop("body")  # how bodies are written, which the source calls format
    for name, value in options.items():
        if not isinstance(value, str | int | float | bool):
            raise AMQPSourceError(f"{which}.{name} is {value!r}; expected text, a number or true/false")
    return End(kind, schema, {name: as_option(value) for name, value in options.items()})


def named(source: End, name: str) -> End:
    """A source that reads from an exchange has a queue that is called after the pipeline."""
    given = {option.lower() for option in source.options}
    if source.format != "amqp" or "exchange" not in given or "queryname" in given:
        return source
    return End(source.format, source.schema, {**source.options, "queryName": name})


def tables_from(found: object) -> dict[str, End]:
    """[tables.customers]"""
    if not isinstance(found, dict) or not all(isinstance(table, dict) for table in found.values()):
        raise AMQPSourceError("tables: expected [tables.NAME] with the format and options of each")
    for name in found:
        if not TABLE.fullmatch(name) or name == "source":
            raise AMQPSourceError(f"tables.{name}: expected letters, digits and _, and not 'source'")
    return {name: end_from(f"tables.{name}", table) for name, table in found.items()}


def as_option(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def sql_from(found: dict[str, Any]) -> str:
    unknown = sorted(set(found) - {"sql"})
    if unknown:
        raise AMQPSourceError(f"unknown key transform.{unknown[0]}; known is sql")
    return str(found.get("sql", Pipeline.sql))


def watermark_from(found: object) -> tuple[str, str] | None:
    """watermark = { column = "timestamp", delay = "10 minutes" }"""
    if found is None:
        return None
    if not isinstance(found, dict) or set(found) != {"column", "delay"}:
        raise AMQPSourceError('watermark: expected { column = "timestamp", delay = "10 minutes" }')
    return str(found["column"]), str(found["delay"])
