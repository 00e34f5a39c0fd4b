"""Tables of Spark's catalog, `CREATE TABLE ... USING amqp OPTIONS (...)`: their options, which Spark forgets.

Spark gives the options of a table to a source in Python when the table is made, and never again: a
reader of the table gets its schema only. So the schema carries them, as the comment of its first column; the
catalog keeps that and hands it back. All users can read a catalog, so no passwords are in there: those are in
the environment of the driver.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from pyspark.sql.types import StructType

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import KINDS, PASSWORD, PATH, USER, Options, options_from

MARK = "amqp "  # what the comment of a table's first column begins with
PLACES = {"url", "queue", "queues", "subscribepattern", "superstream", PATH, "exchange", "routingkey"}
USER_VARIABLE, PASSWORD_VARIABLE = "EMBERMQ_USER", "EMBERMQ_PASSWORD"


def is_table(given: Mapping[str, str]) -> bool:
    """Whether these options are from a catalog: it says which source a table is of."""
    return any(name.lower() == "provider" for name in given)


def with_options(schema: str, given: Mapping[str, str]) -> str:
    """A schema, as DDL, that tells the options of its table."""
    kept = {}
    for name, value in given.items():
        lower = name.lower()
        if lower in (USER, PASSWORD) or (lower == "url" and "@" in urlsplit(value).netloc):
            raise AMQPSourceError(
                "everybody can read the options of a table in Spark's catalog: leave user and password out, "
                f"and set {USER_VARIABLE} and {PASSWORD_VARIABLE} where the driver (or Connect server) runs. "
                "Or make a temporary view, which nobody else sees"
            )
        if lower in KINDS or lower == PATH:
            kept[lower] = value
    comment = MARK + json.dumps(kept, sort_keys=True)
    quoted = comment.replace("\\", "\\\\").replace("'", "\\'")
    first, others = schema.split(", ", 1)
    return f"{first} COMMENT '{quoted}', {others}"


def options_of(schema: StructType, given: Mapping[str, str]) -> Options:
    """The options that hold: the given ones, or those of a table if it is one and they do not say where to.

    Rows that were read from a table and go somewhere else still have its schema, and its comment.
    """
    if not any(name.lower() in PLACES for name in given):
        for field in schema.fields:
            comment = str((field.metadata or {}).get("comment", ""))
            if comment.startswith(MARK):
                kept = json.loads(comment.removeprefix(MARK))
                return options_from(from_environment() | kept | dict(given))
    if not given:
        raise AMQPSourceError(
            "there are no options. Spark forgets those of a table that was made with columns of its own: "
            "make it without columns, or use a temporary view, or say them in the statement: "
            "SELECT ... FROM orders WITH (`queue` = 'orders', ...)"
        )
    return options_from(given)


def from_environment() -> dict[str, str]:
    found = {USER: os.environ.get(USER_VARIABLE), PASSWORD: os.environ.get(PASSWORD_VARIABLE)}
    return {name: value for name, value in found.items() if value is not None}
