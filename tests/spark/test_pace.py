"""Limits of a batch: a rate per second, a least number of messages, and how long to wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from embermq.client import Channel, Properties
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options, milliseconds, options_from
from pyspark_embermq.source.lease_reader import LeaseReader
from pyspark_embermq.source.pace import Pace
from pyspark_embermq.source.queue_reader import QueueReader
from pyspark_embermq.source.stream_reader import StreamReader
from tests.spark.conftest import declare_stream

SCHEMA = StructType().add("body", "binary")


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_rate_is_a_token_bucket() -> None:
    clock = Clock()
    pace = Pace(Options(max_records_per_second=10), clock)
    assert pace.row_limit(None) == 10  # a second's worth at the start
    pace.took(10)
    assert pace.row_limit(None) == 0
    clock.now_s += 0.5
    assert (pace.row_limit(None), pace.row_limit(3)) == (5, 3)
    clock.now_s += 0.25
    assert pace.row_limit(None) == 7
    for _ in range(1000):  # idle polls save up no more than a second
        clock.now_s += 0.1
        assert (pace.row_limit(None) or 0) <= 10
    clock.now_s += 60  # but a trigger of a minute may read what a minute is worth
    assert pace.row_limit(None) == 600
    assert Pace(Options(), clock).row_limit(None) is None


def test_a_batch_is_due_when_enough_waits_or_after_a_while() -> None:
    clock = Clock()
    pace = Pace(Options(min_offsets_per_trigger=100, max_trigger_delay="1m"), clock)
    assert (pace.is_due(99), pace.is_due(100)) == (False, True)
    clock.now_s += 60
    assert pace.is_due(1)
    pace.took(1)
    assert not pace.is_due(1)
    assert Pace(Options(), clock).is_due(0)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("30 seconds", 30_000), ("500ms", 500), ("1h", 3_600_000), ("2 days", 172_800_000)],
)
def test_delays(text: str, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"maxTriggerDelay": "soon"}, "option 'maxTriggerDelay' is 'soon'; expected a number and ms"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "more than 'maxRecordsPerTrigger', 4"),
        ({"maxRecordsPerSecond": "-1"}, "expected 0 or more"),
    ],
)
def test_wrong_limits(options: dict[str, str], problem: str) -> None:
    with pytest.raises(AMQPSourceError, match=problem):
        options_from(options)


@pytest.mark.parametrize("kind", ["stream", "queue", "lease"])
def test_a_reader_waits_until_a_batch_is_due(channel: Channel, url: str, kind: str) -> None:
    options = Options(url=url, min_offsets_per_trigger=5, max_records_per_second=6, prefetch=1000)
    declare_stream(channel, "s", [])
    channel.queue_declare("q", durable=True)
    name = "s" if kind == "stream" else "q"
    reader: Any = {
        "stream": lambda: StreamReader(SCHEMA, options, ["s"]),
        "queue": lambda: QueueReader(SCHEMA, options, ["q"]),
        "lease": lambda: LeaseReader(SCHEMA, options, ["q"]),
    }[kind]()
    clock = Clock()
    reader.pace = Pace(options, clock)
    try:
        begin = reader.initialOffset()
        channel.publish_batch([b"1"] * 4, name, properties=Properties(delivery_mode=2))
        assert reader.latestOffset(begin, ReadAllAvailable()) == begin
        channel.publish_batch([b"1"] * 6, name, properties=Properties(delivery_mode=2))
        clock.now_s += 1
        end = reader.latestOffset(begin, ReadAllAvailable())
        assert count_of(end, kind) == 6  # of ten: the rate
        clock.now_s += 1
        assert count_of(reader.latestOffset(end, ReadAllAvailable()), kind) == 6  # four wait: not due
        clock.now_s += 900
        later = reader.latestOffset(end, ReadAllAvailable())
        assert count_of(later, kind) == (4 if kind == "lease" else 10)
    finally:
        reader.stop()


def count_of(offset: dict[str, Any], kind: str) -> int:
    return int(offset["counts"]["q"] if kind == "lease" else offset["s" if kind == "stream" else "q"])


def test_available_now_keeps_to_the_rate_and_ends(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    declare_stream(channel, "s", [b"%d" % number for number in range(50)])
    reader = spark.readStream.format("amqp").option("url", url).option("queue", "s")
    frame = reader.option("maxRecordsPerSecond", 40).option("minOffsetsPerTrigger", 1000).load()
    sizes: list[int] = []

    def add(batch: DataFrame, number: int) -> None:
        sizes.append(batch.count())

    writer = frame.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    writer.foreachBatch(add).start().awaitTermination()
    assert sum(sizes) == 50 and len(sizes) >= 2 and max(sizes) <= 40
