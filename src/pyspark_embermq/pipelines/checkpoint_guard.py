"""Check of a checkpoint against the pipeline: what a changed pipeline does with it is said before it starts.

Beside Spark's files the checkpoint directory holds `embermq-pipeline.json`: what the pipeline was when it ran
last. Secrets are not in there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.pipelines.spec import End, Pipeline

FILE = "embermq-pipeline.json"
SECRET = ("url", "user", "password", "httpurl")
REMOTE = "://"

# What Spark does with an old checkpoint when a part has changed.
EFFECTS = {
    "source": (
        "the checkpoint's places are those of the old source: they mean nothing in another one, so this is "
        "refused"
    ),
    "sql": (
        "the pipeline goes on where it was, and the new query sees only messages from there on; what was "
        "aggregated before is kept if the grouping is the same, and else Spark refuses to start"
    ),
    "sink": "the pipeline goes on where it was: what is in the old sink stays there and does not come again",
    "output_mode": "the pipeline goes on where it was, if Spark allows that mode for its query",
    "watermark": "the pipeline goes on where it was; the new watermark holds from now on",
}


def description(pipeline: Pipeline) -> dict[str, Any]:
    """What a checkpoint depends on."""
    return {
        "source": of_end(pipeline.source),
        "sql": " ".join(pipeline.sql.split()),
        "sink": of_end(pipeline.sink),
        "output_mode": pipeline.output_mode,
        "watermark": list(pipeline.watermark) if pipeline.watermark else None,
    }


def of_end(end: End) -> dict[str, Any]:
    named = {name: value for name, value in sorted(end.options.items()) if name.lower() not in SECRET}
    return {"format": end.format, "schema": end.schema, **named}


def identity(source: dict[str, Any]) -> tuple[Any, ...]:
    """What makes it the same source: limits and decoding may change, this may not."""
    names = (
        "format",
        "queue",
        "queues",
        "subscribepattern",
        "superstream",
        "exchange",
        "queryname",
        "delivery",
        "path",
        "topic",
    )
    given = {name.lower(): value for name, value in source.items()}
    return tuple(given.get(name) for name in names)


def changes(pipeline: Pipeline) -> list[str]:
    """What has changed since this checkpoint was used last, and what will happen; refuses another source.

    Remote checkpoints (`s3://...`) are not looked at.
    """
    file = Path(pipeline.checkpoint) / FILE
    if REMOTE in pipeline.checkpoint or not file.exists():
        return []
    try:
        before = json.loads(file.read_text())
    except ValueError:
        return []  # half written by a process that was killed: Spark's own files decide
    now = description(pipeline)
    if identity(before.get("source", {})) != identity(now["source"]):
        raise AMQPSourceError(
            f"pipeline '{pipeline.name}': its source has changed since {pipeline.checkpoint} was made: "
            f"{EFFECTS['source']}. Give it another checkpoint (it begins anew), or put the source back"
        )
    return [
        f"{part} has changed: {EFFECTS[part] if part != 'source' else 'the new options hold from now on'}"
        for part in now
        if before.get(part) != now[part]
    ]


def remember(pipeline: Pipeline) -> None:
    """This is what the checkpoint belongs to from now on."""
    if REMOTE in pipeline.checkpoint:
        return
    file = Path(pipeline.checkpoint) / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(description(pipeline), indent=1))
    temporary.replace(file)
