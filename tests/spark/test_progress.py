"""Progress of each queue: in Spark's own reports, and in the broker's metrics."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from embermq.cli.api import Api
from embermq.client import Channel
from embermq.testing import EmbeddedBroker
from pyspark_embermq import queue_progress
from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.options import Options
from pyspark_embermq.pipelines.heartbeat import Teller
from pyspark_embermq.pipelines.state import State
from pyspark_embermq.source.progress import Progress
from tests.spark.conftest import declare_stream

DEADLINE_S = 120


def test_rates_and_bytes(channel: Channel, url: str) -> None:
    declare_stream(channel, "s", [b"x" * 100] * 10)
    now_s = 0.0
    with BrokerLink(Options(url=url)) as link:
        progress = Progress(link, lambda: now_s)
        first: dict[str, Any] = progress.report({"s": 2}, {"s": 10})
        assert first["s"] == 10 and first[""]["queues"]["s"]["lag"] == 8
        assert 800 <= first[""]["queues"]["s"]["lag_bytes"] <= 1600  # with headers and records
        now_s = 2.0
        later = progress.report({"s": 8}, {"s": 14}, {"s": 3})[""]["queues"]["s"]
        assert (later["lag"], later["arrived_per_second"], later["read_per_second"]) == (6, 2.0, 3.0)
        assert later["redelivered"] == 3


def test_what_is_no_progress_of_ours() -> None:
    assert queue_progress(None) == {}
    assert queue_progress({"sources": [{"latestOffset": None}, {"latestOffset": "text"}]}) == {}
    assert queue_progress({"sources": [{"latestOffset": '{"q": 1}'}]}) == {}


@pytest.mark.parametrize("kind", ["stream", "queue", "exactly-once"])
def test_lag_in_the_progress_of_a_query(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path, kind: str
) -> None:
    arguments = {"x-queue-type": "stream"} if kind == "stream" else {}
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.publish_batch([b"1"] * 10, "q")
    reader = spark.readStream.format("amqp").option("url", url).option("queue", "q")
    if kind == "exactly-once":
        reader = reader.option("delivery", kind)
    frame = reader.option("maxRecordsPerTrigger", 4).option("maxRecordsPerSecond", 1).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.start()
    try:
        deadline = time.monotonic() + DEADLINE_S
        found: dict[str, dict[str, float]] = {}
        while not found.get("q"):
            assert query.exception() is None and time.monotonic() < deadline
            query.awaitTermination(0.2)
            for progress in query.recentProgress:
                found = queue_progress(progress) or found
        assert 0 <= found["q"]["lag"] <= 10 and "lag_bytes" in found["q"]
    finally:
        query.stop()


def test_queues_of_a_pipeline_in_the_metrics(broker: EmbeddedBroker) -> None:
    with closing(Api(broker.http_url, "guest", "guest")) as api:
        numbers = {"lag": 5, "lag_bytes": 500.0, "redelivered": 2, "odd": 1}
        state = State("by-queue", 1, queues={"a b": numbers})
        Teller(api.put, "/").tell(state)
        (told,) = [view for view in api.get("/api/pipelines") if view["name"] == "by-queue"]
        assert told["queues"] == {"a b": {"lag": 5, "lag_bytes": 500.0, "redelivered": 2}}
        metrics = api.text("/metrics/per-object")
    assert 'embermq_pipeline_queue_lag{vhost="/",pipeline="by-queue",queue="a b"} 5' in metrics
    assert 'embermq_pipeline_queue_redelivered_total{vhost="/",pipeline="by-queue",queue="a b"} 2' in metrics
