"""What a query reads: names with commas, patterns, growing super streams, a queue at an exchange."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embermq.client import Channel
from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options, names_from
from pyspark_embermq.pipelines.spec import pipeline_from
from pyspark_embermq.source.subscription import Subscription, subscribed
from tests.spark.conftest import declare_stream

DEADLINE_S = 120


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a, b,,c ", ["a", "b", "c"]),
        ('["a, b", " c"]', ["a, b", " c"]),
        ("[x", ["[x"]),
        ("[1, 2]", ["[1", "2]"]),  # no names, so as it was before there were lists
        ("", []),
    ],
)
def test_names_in_an_option(text: str, names: list[str]) -> None:
    assert names_from(text) == names


def test_one_option_says_what_is_read() -> None:
    for more in ({"queue": "a"}, {"super_stream": "a"}, {"subscribe_pattern": "a"}):
        with pytest.raises(AMQPSourceError, match="not both"):
            Options(queues="b", **more)
    assert Options(queues='["a,b", "c", "c"]').queue_names == ["a,b", "c"]


def test_nothing_that_matches_is_an_error(url: str) -> None:
    with BrokerLink(Options(url=url, subscribe_pattern="no such .*")) as link:
        with pytest.raises(AMQPSourceError, match="no queue matches option 'subscribePattern'"):
            subscribed(link)
    with BrokerLink(Options(url=url, subscribe_pattern="(")) as link:
        with pytest.raises(AMQPSourceError, match="x-list-queues"):
            subscribed(link)


def test_queues_of_another_kind_are_passed_over(channel: Channel, url: str, caplog: Any) -> None:
    declare_stream(channel, "in.1", [])
    with BrokerLink(Options(url=url, subscribe_pattern=r"in\..*")) as link:
        found = subscribed(link)
        assert found == {"in.1": True}
        subscription = Subscription(link, found, streams=True)
        declare_stream(channel, "in.2", [])
        channel.queue_declare("in.3")
        assert subscription.current(at_once=True) == ["in.1", "in.2"]
        assert "'in.3' matches subscribePattern but is no stream" in caplog.text
        channel.queue_delete("in.1")
        assert subscription.current(at_once=True) == ["in.2"]


def test_a_queue_of_its_own_at_an_exchange(channel: Channel, url: str) -> None:
    channel.exchange_declare("events", "topic", durable=True)
    keys = '["eu.#", "us, and, so"]'
    options = Options(url=url, exchange="events", binding_keys=keys, query_name="by hour")
    with BrokerLink(options) as link:
        assert subscribed(link) == {"spark.by hour": True} == subscribed(link)  # twice changes nothing
        for key in ("eu.1", "us.1", "us, and, so"):
            channel.publish(b"1", key, exchange="events")
        assert link.bounds("spark.by hour").next == 2
    with BrokerLink(Options(url=url, exchange="events")) as link:
        with pytest.raises(AMQPSourceError, match="name the query in option 'queryName'"):
            subscribed(link)
    for wrong in ("{", "[]"):
        with BrokerLink(Options(url=url, exchange="events", query_name="q", queue_arguments=wrong)) as link:
            with pytest.raises(AMQPSourceError, match="queueArguments"):
                subscribed(link)
    classic = Options(url=url, exchange="events", query_name="classic", queue_arguments="{}")
    with BrokerLink(classic) as link:
        assert subscribed(link) == {"spark.classic": False}


def test_other_binding_keys_than_before(channel: Channel, url: str, caplog: Any) -> None:
    """What the options do not name any more is unbound; what was bound by hand with arguments stays."""
    for exchange in ("events", "others"):
        channel.exchange_declare(exchange, "topic", durable=True)

    def bound(**options: str) -> list[tuple[str, str]]:
        with BrokerLink(Options(url=url, query_name="q", **options)) as link:
            subscribed(link)
            return sorted((one["exchange"], one["routing_key"]) for one in link.bindings("spark.q"))

    many = [f"key.{number}" for number in range(1000)]
    assert bound(exchange="events", binding_keys=", ".join(many)) == sorted(("events", key) for key in many)
    channel.queue_bind("spark.q", "events", "by hand", arguments={"why": "x"})
    caplog.clear()
    assert bound(exchange="events", binding_keys="key.7, new") == [
        ("events", "by hand"),
        ("events", "key.7"),
        ("events", "new"),
    ]
    assert "with key 'key.999', which is not in option 'bindingKeys' any more: unbound" in caplog.text
    assert bound(exchange="others") == [("events", "by hand"), ("others", "#")]
    channel.publish(b"", "key.7", exchange="events")
    with BrokerLink(Options(url=url)) as link:
        assert link.bounds("spark.q").next == 0


def test_the_queue_of_a_pipeline_has_its_name(tmp_path: Path) -> None:
    source: dict[str, Any] = {"exchange": "events"}
    found = {"name": "copy", "checkpoint": "c", "source": source, "sink": {"routingKey": "q"}}
    assert pipeline_from(found, tmp_path).source.options["queryName"] == "copy"
    source["queryName"] = "mine"
    assert pipeline_from(found, tmp_path).source.options["queryName"] == "mine"


def test_a_batch_of_queues_with_commas(spark: SparkSession, channel: Channel, url: str) -> None:
    declare_stream(channel, "a, b", [b"1"])
    channel.queue_declare(" c ")
    channel.publish(b"2", " c ")
    frame = spark.read.format("amqp").option("url", url).option("queues", '["a, b", " c "]').load()
    assert sorted((row.queue, bytes(row.body)) for row in frame.collect()) == [(" c ", b"2"), ("a, b", b"1")]


class Collected:
    """The rows of a running query, by batch: one that is run again takes the place of the first try."""

    def __init__(self, frame: DataFrame, checkpoint: Path, before: Collected | None = None) -> None:
        self.batches: dict[int, list[tuple[str, bytes]]] = before.batches if before else {}
        writer = frame.select("queue", "body").writeStream.option("checkpointLocation", str(checkpoint))
        self.query: StreamingQuery = writer.foreachBatch(self.add).start()

    def add(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = [(row.queue, bytes(row.body)) for row in batch.collect()]

    @property
    def rows(self) -> list[tuple[str, bytes]]:
        return [row for rows in list(self.batches.values()) for row in rows]

    def wait_for(self, expected: list[tuple[str, bytes]]) -> None:
        self.wait_until(lambda: sorted(self.rows) == sorted(expected))

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not is_so():
            problem = self.query.exception()
            assert problem is None and time.monotonic() < deadline, problem or self.rows
            time.sleep(0.05)


@pytest.mark.parametrize("kind", ["stream", "classic"])
def test_queues_that_come_and_go(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path, kind: str
) -> None:
    arguments = {"x-queue-type": kind}
    channel.queue_declare("day.1", durable=True, arguments=arguments)
    channel.queue_declare("other", durable=True, arguments=arguments)
    channel.publish_batch([b"a"], "day.1")
    reader = spark.readStream.format("amqp").option("url", url).option("subscribePattern", r"day\.\d+")
    running = Collected(reader.load(), tmp_path / "checkpoint")
    try:
        running.wait_for([("day.1", b"a")])
        channel.queue_declare("day.2", durable=True, arguments=arguments)
        channel.publish_batch([b"b"], "day.2")
        running.wait_for([("day.1", b"a"), ("day.2", b"b")])
        channel.queue_delete("day.1")
        channel.publish_batch([b"c"], "day.2")
        running.wait_for([("day.1", b"a"), ("day.2", b"b"), ("day.2", b"c")])
    finally:
        running.query.stop()
    channel.queue_declare("day.3", durable=True, arguments=arguments)
    channel.publish_batch([b"d"], "day.3")
    again = Collected(reader.load(), tmp_path / "checkpoint", running)
    try:
        again.wait_until(lambda: ("day.3", b"d") in again.rows)
    finally:
        again.query.stop()
    if kind == "stream":
        expected = [("day.1", b"a"), ("day.2", b"b"), ("day.2", b"c"), ("day.3", b"d")]
        assert sorted(again.rows) == expected  # exactly once; a queue is at least once


def test_a_super_stream_that_grows(spark: SparkSession, channel: Channel, url: str, tmp_path: Path) -> None:
    channel.exchange_declare("clicks", "direct", durable=True, arguments={"x-super-stream": True})
    declare_stream(channel, "clicks-0", [])
    channel.queue_bind("clicks-0", "clicks", "eu", arguments={"x-stream-partition-order": 0})
    channel.publish(b"1", "eu", exchange="clicks")
    reader = spark.readStream.format("amqp").option("url", url).option("superStream", "clicks")
    running = Collected(reader.load(), tmp_path / "checkpoint")
    try:
        running.wait_for([("clicks-0", b"1")])
        declare_stream(channel, "clicks-1", [])
        channel.queue_bind("clicks-1", "clicks", "us", arguments={"x-stream-partition-order": 1})
        channel.publish(b"2", "us", exchange="clicks")
        running.wait_for([("clicks-0", b"1"), ("clicks-1", b"2")])
    finally:
        running.query.stop()
