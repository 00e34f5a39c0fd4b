"""The same source and sink against RabbitMQ: what its protocol allows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from embermq.client import Channel, NotFound, Outgoing, Properties, connect
from pyspark_embermq.broker import QUIET_S, BrokerLink, sentence
from pyspark_embermq.errors import Unreachable
from pyspark_embermq.offsets import Bounds
from pyspark_embermq.options import Options
from pyspark_embermq.pipelines import sql_tables as tables
from tests.spark.conftest import declare_stream
from tests.spark.test_reading_streams import Query, bodies, numbers, read
from tests.spark.test_writing import write
from tests.support.network_proxy import Proxy
from tools.brokers import RabbitBroker

pytestmark = pytest.mark.skipif(
    not RabbitBroker.installed(), reason="RabbitMQ (Debian: rabbitmq-server) is missing"
)


@pytest.fixture(scope="module")
def rabbit() -> Iterator[RabbitBroker]:
    with RabbitBroker() as running:
        yield running


@pytest.fixture(scope="module")
def url(rabbit: RabbitBroker) -> str:
    return rabbit.url


@pytest.fixture
def channel(url: str) -> Iterator[Channel]:
    with connect(url) as connection, connection.channel() as made:
        yield made


def test_where_a_stream_begins_and_ends(channel: Channel, url: str) -> None:
    declare_stream(channel, "bounds", [])
    channel.queue_declare("plain", durable=True)
    link = BrokerLink(Options(url=url))
    try:
        assert (link.is_stream("bounds"), link.is_stream("plain"), link.is_embermq) == (True, False, False)
        assert link.bounds("bounds") == Bounds(0, 0)
        before_ms = int(time.time() * 1000) - 2000
        channel.publish_batch(numbers(0, 700), "bounds")
        channel.publish_batch(numbers(700, 701), "bounds")
        assert link.bounds("bounds") == Bounds(0, 701)
        assert link.offset_at("bounds", before_ms) == 0
        assert link.offset_at("bounds", before_ms + 3_600_000) >= 700
    finally:
        link.close()


class LateDeliveries(Proxy):
    """As from a broker that is busy: deliveries come late, answers in front of them do not."""

    METHOD = b"\x00\x3c\x00\x3c"  # basic.deliver
    FRAME_HEADER_BYTES = 7

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                found = data.find(self.METHOD)
                if found >= 0:
                    writer.write(data[: found - self.FRAME_HEADER_BYTES])
                    await asyncio.sleep(2 * QUIET_S)
                    data = data[found - self.FRAME_HEADER_BYTES :]
                writer.write(data)
                await writer.drain()
        except OSError:
            pass


def test_a_broker_that_is_slow_is_not_taken_for_empty(channel: Channel, rabbit: RabbitBroker) -> None:
    """It cannot say where a stream ends: so it is asked something behind the messages."""
    declare_stream(channel, "slow", numbers(0, 700))
    with LateDeliveries(rabbit.port) as late:
        url = rabbit.url.replace(f":{rabbit.port}", f":{late.port}")
        with BrokerLink(Options(url=url)) as link:
            assert link.bounds("slow") == Bounds(0, 700)
            assert link.offset_at("slow", 0) == 0


def test_a_queue_that_is_not_back_yet_is_waited_for() -> None:
    """After a restart RabbitMQ listens before its queues are there; that is no reason to end a pipeline."""
    text = "NOT_FOUND - home node 'a@b' of durable queue 'q' in vhost '/' is down or inaccessible"
    assert isinstance(sentence(Options(), NotFound(text, reply_text=text)), Unreachable)


def test_a_stream_as_a_table_and_as_a_query(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    properties = Properties(content_type="text/plain", headers={"n": 1}, delivery_mode=2)
    channel.publish_batch([Outgoing(body, properties=properties) for body in numbers(0, 50)], "s")
    frame = read(spark, url, queue="s", minPartitions=2)
    rows = frame.orderBy("offset").collect()
    assert [(row.offset, bytes(row.body)) for row in rows] == list(enumerate(numbers(0, 50)))
    assert (rows[0].headers, rows[0].content_type) == ({"n": "1"}, "text/plain")
    assert bodies(read(spark, url, queue="s", startingOffsets="20", endingOffsets="30")) == numbers(20, 30)
    query = Query(spark, url, tmp_path, queue="s", maxRecordsPerTrigger=30, minPartitions=2)
    query.run()
    channel.publish_batch(numbers(50, 60), "s")
    query.run()
    assert query.found() == numbers(0, 60)


def test_a_queue(spark: SparkSession, channel: Channel, url: str, tmp_path: Path) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 100), "q", properties=Properties(delivery_mode=2))
    rows = read(spark, url, queue="q").select("body").collect()
    assert sorted((bytes(row.body) for row in rows), key=int) == numbers(0, 100)
    query = Query(spark, url, tmp_path, queue="q", maxRecordsPerTrigger=40)
    query.run()
    assert query.found() == numbers(0, 100)
    channel.publish_batch(numbers(100, 110), "q", properties=Properties(delivery_mode=2))
    assert read(spark, url, queue="q", mode="drain").count() == 10
    assert channel.queue_declare("q", passive=True).message_count == 0


def test_bodies_several_streams_and_questions(spark: SparkSession, channel: Channel, url: str) -> None:
    declare_stream(channel, "part-0", [b'{"id": 1}', b"nonsense"])
    declare_stream(channel, "part-1", [b'{"id": 2}'])
    channel.queue_declare("unreadable", durable=True)
    channel.exchange_declare("letters", "fanout", durable=True)
    channel.queue_bind("unreadable", "letters")
    reader = spark.read.format("amqp").option("url", url).option("queue", "part-0,part-1")
    reader = reader.option("format", "json").option("onDecodeError", "dead-letter")
    rows = reader.option("deadLetterExchange", "letters").schema("id int, _queue string").load().collect()
    assert sorted(tuple(row) for row in rows) == [(1, "part-0"), (2, "part-1")]
    letter = channel.get("unreadable", no_ack=True)
    assert letter is not None and letter.body == b"nonsense" and "x-decode-error" in letter.headers
    (answer,) = tables.query(
        spark, "select count(*) from stream('part-0') where body = 'nonsense'", url
    ).collect()
    assert answer[0] == 1


def test_the_sink(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("out", durable=True)
    frame = spark.range(200).selectExpr("cast(id AS string) AS body", "map('a', 'b') AS headers")
    write(frame, url, routingKey="out", deduplicate="true", writerId="run")
    found = [channel.get("out", no_ack=True) for _ in range(200)]
    assert sorted((message.body for message in found if message is not None), key=int) == numbers(0, 200)
    with pytest.raises(PySparkException, match="no queue 'nobody' in vhost"):
        write(spark.sql("SELECT 'x' AS body"), url, routingKey="nobody")
    with pytest.raises(PySparkException, match="1 returned because no queue is bound"):
        write(spark.sql("SELECT 'x' AS body, 'nobody' AS routing_key"), url)


def test_what_it_does_not_have_is_told(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    channel.queue_declare("q", durable=True)
    with pytest.raises(PySparkException, match=r"needs leases, which the broker at .* does not have"):
        Query(spark, url, tmp_path, queue="q", delivery="exactly-once").run()
    for options in ({"queue": "q", "mode": "lease", "leaseName": "x"}, {"superStream": "q"}):
        with pytest.raises(PySparkException, match="EmberMQ has"):
            read(spark, url, **options).collect()
    with pytest.raises(PySparkException, match="no queue 'nobody'"):
        read(spark, url, queue="nobody").collect()


def test_looking_at_a_quorum_queue_is_refused(spark: SparkSession, channel: Channel, url: str) -> None:
    """Deliveries count against its limit, so that the messages would be gone after some looks."""
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 2}
    channel.queue_declare("voted", durable=True, arguments=arguments)
    channel.publish_batch(numbers(0, 5), "voted", properties=Properties(delivery_mode=2))
    for _ in range(4):
        with pytest.raises(PySparkException, match="'voted' is a quorum queue"):
            read(spark, url, queue="voted").count()
    assert read(spark, url, queue="voted", mode="drain").count() == 5
