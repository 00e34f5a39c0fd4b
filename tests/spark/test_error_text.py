"""What a person reads in a notebook when something is wrong: the sentence, without the stack below it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from embermq.client import Channel
from tests.spark.conftest import declare_stream

ELSEWHERE = "amqp://guest:guest@127.0.0.1:1"


def said(run: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as caught:
        run()
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": "nobody"}, "errors.Missing: no queue 'nobody' in vhost"),
        ({"queue": "s", "quue": "x"}, "there is no option 'quue'. Did you mean 'queue'? The options are"),
        ({"queue": "s", "url": ELSEWHERE}, "errors.Unreachable: the broker at amqp://127.0.0.1:1 cannot be"),
        ({"queue": "s", "format": "json"}, "give the fields of the body with .schema"),
        ({"superStream": "s"}, "'s' is no super stream but a queue: name it in option 'queue'"),
        ({"queue": "s", "delivery": "exactly-once"}, "for batch reads there is 'mode'"),
        ({"queue": "s", "endingOffsets": "soon"}, "option 'endingOffsets' is 'soon'; expected earliest"),
    ],
)
def test_a_batch_read(
    options: dict[str, str], sentence: str, spark: SparkSession, channel: Channel, url: str
) -> None:
    declare_stream(channel, "s", [])
    reader = spark.read.format("amqp").options(**{"url": url} | options)
    text = said(lambda: reader.load().collect())
    assert sentence in text and "Traceback" not in text


def test_in_a_task(spark: SparkSession, channel: Channel, url: str) -> None:
    declare_stream(channel, "s", [b"1", b"not JSON"])
    reader = spark.read.format("amqp").option("url", url).option("format", "json").schema("id int")
    text = said(lambda: reader.load("s").collect())
    assert "its body is not json as the schema has it: " in text and "Traceback" not in text


def test_a_write(spark: SparkSession, channel: Channel, url: str) -> None:
    rows = spark.createDataFrame([("a",)], "body string").coalesce(1)
    writer = rows.write.format("amqp").option("url", url).mode("append")
    text = said(lambda: writer.option("exchange", "nobody").save())
    assert "errors.Missing: no exchange 'nobody' in vhost" in text and "Traceback" not in text


def query_of(rows: DataFrame, checkpoint: Path) -> Callable[[], object]:
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return lambda: writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": "nobody"}, "errors.Missing: no queue 'nobody' in vhost"),
        ({"queue": "s", "url": ELSEWHERE}, "errors.Unreachable: the broker at amqp://127.0.0.1:1 cannot be"),
        ({"queue": "s", "mode": "drain"}, "for streaming reads there is 'delivery'"),
        ({"queue": "s,q"}, "'s' is a stream and others are not"),
        ({"queue": "s", "startingOffsets": "x"}, "option 'startingOffsets' is 'x'; expected earliest"),
    ],
)
def test_a_streaming_read(
    options: dict[str, str], sentence: str, spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    declare_stream(channel, "s", [])
    channel.queue_declare("q")
    rows = spark.readStream.format("amqp").options(**{"url": url} | options).load()
    text = said(query_of(rows, tmp_path))
    assert sentence in text
    # Spark (4.3) would tell of a variable of its own instead.
    assert "Traceback" not in text and "UnboundLocalError" not in text


def test_errors_of_others_keep_their_tracebacks(spark: SparkSession) -> None:
    def wrong(number):  # type: ignore[no-untyped-def]  # Spark makes something of the types that it finds
        raise ValueError(f"no {number}")

    text = said(lambda: spark.range(1).select(udf(wrong, "int")("id")).collect())
    assert "Traceback" in text and "in wrong" in text
