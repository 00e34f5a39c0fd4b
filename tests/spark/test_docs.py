"""The pages of Spark tell the truth: their programs print what they say, the table has every option."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embermq.cli.main import parser
from embermq.client import Channel
from embermq.testing import EmbeddedBroker
from pyspark_embermq.decoding.columns import COLUMNS
from pyspark_embermq.options import Options, spark_name
from pyspark_embermq.pipelines import python_pipeline as programs
from pyspark_embermq.pipelines import run as running
from pyspark_embermq.pipelines import spec
from tests.docs.test_examples import FENCE
from tests.spark.conftest import declare_stream

DOCS = Path(__file__).resolve().parents[2] / "docs"
READING = DOCS / "spark-reading.md"
OPTIONS = DOCS / "spark-options.md"
PAGES = [  # in the order of their programs: later ones use what earlier ones have made
    DOCS / "spark.md",
    READING,
    DOCS / "spark-writing.md",
    DOCS / "spark-guarantees.md",
    OPTIONS,
    DOCS / "spark-pipelines.md",
    DOCS / "spark-cluster.md",
]
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?:`(?P<default>[^`]*)` )?\|", re.MULTILINE)


def fences() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for match in FENCE.finditer(page.read_text()):
            yield match["info"].strip(), match["text"]


def test_every_option_is_described_with_its_default() -> None:
    page = OPTIONS.read_text()
    table = page[: page.index("\n## Progress")]
    written = {row["name"]: row["default"] or "" for row in ROW.finditer(table)}
    defaults = {}
    for field in fields(Options):
        default = field.default
        defaults[spark_name(field.name)] = str(default).lower() if isinstance(default, bool) else str(default)
    assert written == defaults


def test_every_column_is_described() -> None:
    page = READING.read_text()
    table = page[page.index("\n## What a row is") : page.index("Name the columns")]
    assert [name for name in re.findall(r"`([a-z_]+)`", table) if name in COLUMNS] == list(COLUMNS)


class Notebook:
    """The programs of the pages, on a broker and in a directory of the test's."""

    def __init__(self, url: str, http_url: str, directory: Path) -> None:
        self.places = {
            "amqp://guest:guest@localhost:5672/%2f": url,
            "amqp://user:password@host": url,
            "amqp://host": Options(url=url).place,
            "http://localhost:15672": http_url,
            "/data/": f"{directory}/",
        }

    def texts(self, kind: str) -> list[str]:
        return [self.adapted(text) for info, text in fences() if info == kind]

    def adapted(self, text: str) -> str:
        for written, real in self.places.items():
            text = text.replace(written, real)
        return text


@pytest.fixture
def notebook(broker: EmbeddedBroker, url: str, tmp_path: Path) -> Notebook:
    return Notebook(url, broker.http_url, tmp_path)


def run_once(spark: SparkSession, name: str, begin: programs.Start) -> None:
    running.run(spark, name, begin, once=True, show=lambda line: None)


def test_the_examples(
    spark: SparkSession,
    notebook: Notebook,
    broker: EmbeddedBroker,
    vhost: str,
    url: str,
    channel: Channel,
    tmp_path: Path,
) -> None:
    """In order and in one program: later ones use the names of earlier ones, as in a notebook."""
    program: dict[str, object] = {}
    outputs = notebook.texts("text output")
    for text, expected in zip(notebook.texts("python spark"), outputs, strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "docs/spark", "exec"), program)
        assert printed.getvalue() == expected
    assert len(outputs) == 5
    # Pipelines, on what these have left.
    channel.exchange_declare("countries", "topic")
    channel.queue_declare("enriched")
    channel.queue_bind("enriched", "countries", "orders.*")
    channel.publish_batch([b'{"customer": %d, "total": 3.5}' % customer for customer in range(3)], "orders")
    (tmp_path / "customers.csv").write_text("1,fr\n2,it\n")
    slow, by_country = (with_broker(text, url) for text in notebook.texts("toml pipeline"))
    for text, queue, count in ((slow, "slow-pages", 5), (by_country, "enriched", 2)):
        file = tmp_path / "pipeline.toml"
        file.write_text(text)
        before = channel.queue_declare(queue, passive=True).message_count
        run_described(spark, spec.load(file))
        assert channel.queue_declare(queue, passive=True).message_count == before + count
    enriched = {message.routing_key: message.body for message in broker.messages("enriched", vhost)}
    assert enriched["orders.fr"] == b'{"customer":1,"total":3.5,"country":"fr"}'
    (text,) = notebook.texts("python pipeline")
    (tmp_path / "copied.py").write_text(text)
    before = channel.queue_declare("slow-pages", passive=True).message_count
    run_once(spark, "copied", programs.load(tmp_path / "copied.py", lambda: url))
    assert channel.queue_declare("slow-pages", passive=True).message_count == before + 7


def run_described(spark: SparkSession, pipeline: spec.Pipeline) -> None:
    run_once(spark, pipeline.name, lambda s, once: running.start(s, pipeline, once, lambda line: None))


def with_broker(pipeline: str, url: str) -> str:
    """With what the command line adds."""
    for end in ("[source]", "[sink]"):
        pipeline = pipeline.replace(end, f'{end}\nurl = "{url}"')
    return pipeline


def test_the_statements(spark: SparkSession, notebook: Notebook, channel: Channel) -> None:
    declare_stream(channel, "clicks", [b'{"page": "/0", "ms": 1}', b'{"page": "/0", "ms": 2}'])
    channel.queue_declare("events")
    answers = []
    try:
        for fence in notebook.texts("sql"):
            for statement in fence.split(";"):
                if statement.strip():
                    answers.append([tuple(row) for row in spark.sql(statement).collect()])
    finally:
        spark.sql("DROP TABLE IF EXISTS events")
        spark.catalog.dropTempView("clicks")
    assert answers == [[], [("/0", 2)], [], [], [("hello",)], [("hello",)]]


def test_the_commands_can_be_typed() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    typed = re.findall(
        r"^ *\$ embermq (.*?)(?:  +#.*)?$|`embermq ((?:pipeline|sql) [^`]+)`", text, re.MULTILINE
    )
    words = [first or second for first, second in typed]
    words += re.findall(r"^\| `((?:pipeline run|sql) [^`]+)` \|", text, re.MULTILINE)
    assert len(words) > 12
    for command in words:
        parser().parse_args(shlex.split(command))
