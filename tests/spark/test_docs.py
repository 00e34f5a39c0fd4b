"""docs/spark.md tells the truth: its programs print what it says, its table has every option."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from pyspark.sql import SparkSession

from embermq.client import Channel
from embermq.testing import EmbeddedBroker
from pyspark_embermq.columns import COLUMNS
from pyspark_embermq.options import Options, spark_name
from pyspark_embermq.pipelines import running, spec
from tests.unit.test_docs_examples import FENCE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?:`(?P<default>[^`]*)` )?\|", re.MULTILINE)


def fences() -> Iterator[tuple[str, str]]:
    for match in FENCE.finditer(PAGE.read_text()):
        yield match["info"].strip(), match["text"]


def test_every_option_is_described_with_its_default() -> None:
    page = PAGE.read_text()
    table = page[page.index("\n## Options") : page.index("\n## When something")]
    written = {row["name"]: row["default"] or "" for row in ROW.finditer(table)}
    defaults = {}
    for field in fields(Options):
        default = field.default
        defaults[spark_name(field.name)] = str(default).lower() if isinstance(default, bool) else str(default)
    assert written == defaults


def test_every_column_is_described() -> None:
    page = PAGE.read_text()
    table = page[page.index("\n## What a row is") : page.index("Name the columns")]
    assert [name for name in re.findall(r"`([a-z_]+)`", table) if name in COLUMNS] == list(COLUMNS)


def test_the_examples(
    spark: SparkSession, broker: EmbeddedBroker, vhost: str, url: str, channel: Channel, tmp_path: Path
) -> None:
    """In order and in one program: later ones use the names of earlier ones, as in a notebook."""
    program: dict[str, object] = {}
    found = list(fences())
    outputs = 0
    for (info, text), (next_info, expected) in zip(found, [*found[1:], ("", "")], strict=True):
        if info != "python spark":
            continue
        text = text.replace("amqp://guest:guest@localhost:5672/%2f", url).replace("/data/", f"{tmp_path}/")
        text = text.replace("http://localhost:15672", broker.http_url)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(PAGE), "exec"), program)
        assert next_info == "text output" and printed.getvalue() == expected
        outputs += 1
    assert outputs == 3
    ((_, pipeline_text),) = [fence for fence in found if fence[0] == "toml pipeline"]
    file = tmp_path / "paid-orders.toml"
    with_url = pipeline_text.replace("[source]", f'[source]\nurl = "{url}"')
    with_url = with_url.replace("[sink]", f'[sink]\nurl = "{url}"').replace("/data/", f"{tmp_path}/")
    file.write_text(with_url)
    pipeline = spec.load(file)
    before = channel.queue_declare("slow-pages", passive=True).message_count
    running.run(spark, pipeline.name, lambda s, once: running.start(s, pipeline, once), once=True)
    assert channel.queue_declare("slow-pages", passive=True).message_count == before + 5
