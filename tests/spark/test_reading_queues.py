"""Classic queues as DataFrames: looked at, drained, and followed at least once."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import LongType, StructType

from embermq.client import Channel, Properties, connect
from embermq.testing import EmbeddedBroker
from pyspark_embermq import AMQPSourceError, DataLossError, settle
from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.data_source import AMQPDataSource
from pyspark_embermq.leases import Leases, take_all
from pyspark_embermq.offsets import places_in
from pyspark_embermq.options import Options
from pyspark_embermq.pipelines.run import lag_in
from pyspark_embermq.source.batch_reader import BatchReader
from pyspark_embermq.source.lease_reader import LeaseReader, last_lease
from pyspark_embermq.source.queue_reader import QueueReader
from pyspark_embermq.source.stream_reader import StreamReader
from tests.access.secured import Secured
from tests.spark.conftest import declare_stream
from tests.spark.test_lease_protocol import pass_time
from tests.spark.test_reading_streams import Query, numbers, read


def test_browsing_takes_nothing(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 1000), "q")
    for _ in range(2):
        rows = read(spark, url, queue="q", batchRows=300).select("queue", "body", "redelivered").collect()
        assert [bytes(row.body) for row in rows] == numbers(0, 1000)
        assert {(row.queue, row.redelivered) for row in rows} == {("q", False)}
    assert channel.queue_declare("q", passive=True).message_count == 1000


def test_draining_takes_everything_that_was_there(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 500), "q")
    assert read(spark, url, queue="q", mode="drain").count() == 500
    assert channel.queue_declare("q", passive=True).message_count == 0
    assert read(spark, url, queue="q", mode="drain").count() == 0


def test_a_task_that_fails_takes_nothing(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch([*numbers(0, 5), b"x"], "q")
    reader = spark.read.format("amqp").option("url", url).option("queue", "q").option("mode", "drain")
    with pytest.raises(PySparkException, match="its body is not json"):
        reader.option("format", "json").schema("id int").load().collect()
    assert channel.queue_declare("q", passive=True).message_count == 6


def test_streams_and_queues_in_one_batch_read(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.publish_batch(numbers(0, 3), "q")
    channel.publish_batch(numbers(3, 5), "s")
    rows = read(spark, url, queue="q,s").select("queue", "offset").collect()
    assert sorted((row.queue, row.offset) for row in rows if row.queue == "s") == [("s", 0), ("s", 1)]
    assert [row.offset for row in rows if row.queue == "q"] == [None, None, None]


def test_a_query_acknowledges_what_it_has_done(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str, tmp_path: Path
) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 100), "q")
    query = Query(spark, url, tmp_path, queue="q", maxRecordsPerTrigger=40, minPartitions=2)
    query.run()
    assert query.found() == numbers(0, 100)
    lags = [lag_in(progress) for progress in query.progress]
    assert lags[-1] == 0 and None not in lags
    broker.wait_until_empty("q", vhost)  # the last batch too
    channel.publish_batch(numbers(100, 110), "q")
    query.run()
    assert query.found() == numbers(0, 110)
    broker.wait_until_empty("q", vhost)


def test_bad_bodies_go_to_the_dead_letter_exchange(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    channel.queue_declare("q")
    channel.queue_declare("bad")
    channel.publish_batch([b'{"id": 1}', b"nonsense"], "q")
    reader = spark.read.format("amqp").option("url", url).option("queue", "q").option("format", "json")
    reader = reader.option("onDecodeError", "dead-letter").option("deadLetterExchange", "amq.direct")
    channel.queue_bind("bad", "amq.direct", "bad")
    frame = reader.option("deadLetterRoutingKey", "bad").schema("id int").load()
    assert [row.id for row in frame.collect()] == [1]
    (letter,) = broker.messages("bad", vhost)
    assert letter.body == b"nonsense" and "not JSON" in letter.headers["x-decode-error"]


def unacked(broker: EmbeddedBroker, vhost: str) -> int:
    view = broker.queue("q", vhost)
    assert view is not None
    return view.unacked


EXACTLY_ONCE = {"delivery": "exactly-once"}
PERSISTENT = Properties(delivery_mode=2)


def test_a_query_with_leases_is_exactly_once(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str, tmp_path: Path
) -> None:
    channel.queue_declare("q", durable=True)
    persistent = Properties(delivery_mode=2)
    channel.publish_batch(numbers(0, 100), "q", properties=persistent)
    options = {**EXACTLY_ONCE, "maxRecordsPerTrigger": "40", "minPartitions": "2"}
    query = Query(spark, url, tmp_path, queue="q", **options)
    query.run()
    assert query.found() == numbers(0, 100)
    assert [progress["numInputRows"] for progress in query.progress] == [40, 40, 20]
    assert [lag_in(progress) for progress in query.progress] == [60, 20, 0]
    broker.wait_until_empty("q", vhost)
    channel.publish_batch(numbers(100, 110), "q", properties=persistent)
    query.run()
    assert query.found() == numbers(0, 110)
    broker.wait_until_empty("q", vhost)


def test_a_batch_that_is_run_again_reads_its_lease(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, url: str, tmp_path: Path
) -> None:
    """As after a crash between the result and the commit: the checkpoint is set back by one commit."""
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 10), "q", properties=Properties(delivery_mode=2))
    query = Query(spark, url, tmp_path, queue="q", **EXACTLY_ONCE)
    reader = LeaseReader(StructType().add("body", "binary"), Options(url=url), ["q"])
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(6))
    assert reader.latestOffset(start, ReadMaxRows(6)) == end  # asked again, the same
    for _ in range(2):
        (partition,) = reader.partitions(start, end)
        rows = [bytes(body.as_py()) for batch in reader.read(partition) for body in batch.column("body")]
        assert rows == numbers(0, 6)
    reader.commit(end)
    reader.commit(end)
    reader.stop()
    query.run()
    assert query.found() == numbers(6, 10)


@pytest.mark.parametrize("taken", [0, 4, 10])
def test_what_a_killed_driver_had_leased_is_available_now_as_well(
    channel: Channel, broker: EmbeddedBroker, url: str, taken: int
) -> None:
    """It had taken the next lease, and Spark had not written it down: it is not among those that wait."""
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 10), "q", properties=Properties(delivery_mode=2))

    def new_reader() -> LeaseReader:
        schema = StructType().add("body", "binary")
        return LeaseReader(schema, Options(url=url), ["q"])

    killed = new_reader()
    place = killed.initialOffset()
    if taken:
        killed.latestOffset(place, ReadMaxRows(taken))
    reader = new_reader()
    reader.prepareForTriggerAvailableNow()
    channel.publish_batch(numbers(10, 15), "q", properties=Properties(delivery_mode=2))  # too late
    counts = []
    for _ in range(5):
        end = reader.latestOffset(place, reader.getDefaultReadLimit())
        if end != place:
            counts.append(end["counts"]["q"])
            reader.partitions(place, end)
            reader.commit(end)
        place = end
    assert counts == [count for count in (taken, 10 - taken) if count]
    killed.stop()
    reader.stop()


def test_a_lease_in_a_batch_read_is_settled_by_its_name(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 10), "q", properties=Properties(delivery_mode=2))
    options = {"mode": "lease", "leaseName": "run-7", "minPartitions": "3"}
    for _ in range(2):
        assert read(spark, url, queue="q", **options).count() == 10
    settle("q", "run-7", url=url)
    broker.wait_until_empty("q", vhost)
    settle("q", "run-7", url=url, http_url="http://of-former-times")
    with pytest.raises(PySparkException, match="lease 'run-7' of queue 'q' is settled"):
        read(spark, url, queue="q", **options).count()
    with pytest.raises(DataLossError, match="was over before its batch was committed"):
        settle("q", "no-such", url=url)


@pytest.mark.parametrize("count", [25, 20])
def test_more_than_one_lease_can_hold(
    channel: Channel, broker: EmbeddedBroker, vhost: str, count: int
) -> None:
    """A batch read takes as many as that needs, under names of their own; again, the same ones."""
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, count), "q", properties=PERSISTENT)
    options = Options(url=broker.url_of(vhost))
    with BrokerLink(options) as link:
        leases = Leases(link, "q")
        taken = take_all(leases, "run", options, count, messages_max=10)
        assert [name for name, _ in taken] == ["run", "run/2", "run/3"][: len(taken)]
        assert sum(size for _, size in taken) == count
        channel.publish_batch(numbers(count, 30), "q", properties=PERSISTENT)
        assert take_all(leases, "run", options, 30 - count, messages_max=10) == taken
    settle("q", "run", url=options.url)
    settle("q", "run", url=options.url)
    assert channel.queue_declare("q", passive=True).message_count == 30 - count
    broker.wait_until(lambda: unacked(broker, vhost) == 0, "settled leases")


@pytest.mark.parametrize("end", ["stopped", "sink failed"])
def test_a_lease_that_ran_out_while_the_query_was_away(
    spark: SparkSession,
    channel: Channel,
    broker: EmbeddedBroker,
    vhost: str,
    url: str,
    tmp_path: Path,
    end: str,
) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 50), "q", properties=PERSISTENT)
    query = Query(spark, url, tmp_path, queue="q", leaseTimeoutMs="600000", **EXACTLY_ONCE)
    (tmp_path / "out").mkdir()
    if end == "sink failed":
        (tmp_path / "out" / "_spark_metadata").write_text("in the way")
        with pytest.raises(PySparkException):
            query.run()
        (tmp_path / "out" / "_spark_metadata").unlink()
    else:
        # A trigger that comes once in an hour: the batch is committed, and nobody has asked for the next one.
        running = query.start(processingTime="1 hour")
        while running.isActive and not any(each["numInputRows"] for each in running.recentProgress):
            running.awaitTermination(0.1)
        running.stop()
        assert query.found() == numbers(0, 50)
    assert unacked(broker, vhost) == 50
    pass_time(broker, vhost, 700_000)
    assert unacked(broker, vhost) == 0
    query.run()
    assert query.found() == numbers(0, 50)
    broker.wait_until_empty("q", vhost)


def test_leases_need_no_other_port_and_go_over_tls(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    with secured.broker:
        place = f"localhost:{secured.amqps}/%2f?cacertfile={secured.authority.file}"
        options = Options(url=f"amqps://guest:guest@{place}")
        with connect(options.url) as connection, connection.channel() as channel:
            channel.queue_declare("q", durable=True)
            channel.publish_batch(numbers(0, 5), "q", properties=PERSISTENT)
            reader = LeaseReader(StructType().add("body", "binary"), options, ["q"])
            start = reader.initialOffset()
            end = reader.latestOffset(start, ReadMaxRows(5))
            (partition,) = reader.partitions(start, end)
            assert sum(batch.num_rows for batch in reader.read(partition)) == 5
            assert reader.latestOffset(end, ReadMaxRows(5)) == end
            reader.stop()
            assert channel.queue_delete("q") == 0


def test_several_queues_exactly_once(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str, tmp_path: Path
) -> None:
    """Batches of several leases, each cut; and from run to run other queues."""
    every = ["a", "b", "c, and so on"]
    for number, queue in enumerate(every):
        channel.queue_declare(queue, durable=True)
        channel.publish_batch(numbers(100 * number, 100 * number + 50), queue, properties=PERSISTENT)
    more = {"maxRecordsPerTrigger": 40, "minPartitions": 4, **EXACTLY_ONCE}
    Query(spark, url, tmp_path, queues='["a", "b"]', **more).run()
    assert Query(spark, url, tmp_path).found() == sorted(numbers(0, 50) + numbers(100, 150), key=int)
    channel.publish_batch(numbers(150, 160), "b", properties=PERSISTENT)
    query = Query(spark, url, tmp_path, queues='["b", "c, and so on"]', **more)
    query.run()
    query.run()  # which settles what was committed last
    for queue in every:
        broker.wait_until_empty(queue, vhost)
    assert query.found() == sorted(numbers(0, 50) + numbers(100, 160) + numbers(200, 250), key=int)
    with pytest.raises(PySparkException, match="the checkpoint is of 'b' and 'c, and so on', and not of 'a'"):
        Query(spark, url, tmp_path, queue="a", **EXACTLY_ONCE).run()


def waiting(channel: Channel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).message_count)


def test_what_was_taken_of_a_queue_that_is_left_goes_back(channel: Channel, url: str) -> None:
    """By a driver that was killed before Spark had written it down."""
    for queue in ("a", "b"):
        channel.queue_declare(queue, durable=True)
        channel.publish_batch(numbers(0, 5), queue, properties=PERSISTENT)
    schema = StructType().add("body", "binary")
    killed = LeaseReader(schema, Options(url=url), ["a", "b"])
    place = killed.latestOffset(killed.initialOffset(), ReadMaxRows(4))
    killed.partitions({}, place)
    assert killed.latestOffset(place, ReadMaxRows(6))["counts"] == {"a": 3, "b": 3}
    killed.stop()
    assert (waiting(channel, "a"), waiting(channel, "b")) == (0, 0)
    reader = LeaseReader(schema, Options(url=url), ["b"])
    assert reader.latestOffset(place, ReadMaxRows(6))["counts"] == {"b": 3}
    assert (waiting(channel, "a"), waiting(channel, "b")) == (3, 0)
    reader.stop()


def test_a_checkpoint_of_a_version_that_knew_one_queue(channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 5), "q", properties=PERSISTENT)
    reader = LeaseReader(StructType().add("body", "binary"), Options(url=url), ["q"])
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(3))
    old = {"lease": end["lease"], "next": 1, "count": end["counts"]["q"], "partitions": 2}
    assert len(reader.partitions({}, old)) == 2
    assert reader.latestOffset(old, ReadMaxRows(3))["counts"] == {"q": 2}
    reader.stop()


def test_a_selector_takes_some_messages_and_leaves_the_others(channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    for number in range(10):
        properties = Properties(delivery_mode=2, headers={"n": number})
        channel.publish(b"%d" % number, "q", properties=properties)
    schema = StructType().add("body", "binary")
    options = Options(url=url, queue="q", selector="n >= 7", idle_timeout_ms=500)
    reader = QueueReader(schema, options, ["q"])
    place = reader.initialOffset()
    found: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(found) < 3:
        assert time.monotonic() < deadline, found
        end = reader.latestOffset(place, ReadMaxRows(100))
        for part in reader.partitions(place, end):
            found += [body.as_py() for batch in reader.read(part) for body in batch.column("body")]
        place = end
    assert found == numbers(7, 10)
    reader.latestOffset(place, ReadMaxRows(100))  # acknowledges
    reader.stop()
    drain = BatchReader(schema, replace(options, mode="drain", selector="n = 3 OR n = 5"))
    (part,) = drain.partitions()
    assert [body.as_py() for batch in drain.read(part) for body in batch.column("body")] == [b"3", b"5"]
    assert waiting(channel, "q") == 5


def test_a_selector_where_there_is_none_is_refused(channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish(b"", "q")
    declare_stream(channel, "s", [])
    schema = StructType().add("body", "binary")
    for problem, more in (
        ("mode=drain, not browse", {"queue": "q"}),
        ("mode=drain, not lease", {"queue": "q", "mode": "lease", "lease_name": "x"}),
        ("'s' is a stream: see 'streamFilter'", {"queue": "s"}),
    ):
        with pytest.raises(AMQPSourceError, match=problem):
            BatchReader(schema, Options(url=url, selector="n = 1", **more)).partitions()
    source = AMQPDataSource({"url": url, "queue": "q", "selector": "n = 1", "delivery": "exactly-once"})
    with pytest.raises(AMQPSourceError, match="'selector' is for delivery = at-least-once"):
        source.stream_reader(schema)
    wrong = QueueReader(schema, Options(url=url, selector="n !"), ["q"])
    with pytest.raises(AMQPSourceError, match="x-selector"):
        wrong.latestOffset(wrong.initialOffset(), ReadMaxRows(1))
    wrong.stop()


def test_offsets_of_a_queue_are_refused(channel: Channel, url: str) -> None:
    """As Kafka's users would set them: a queue has none, and is read from its head."""
    channel.queue_declare("q", durable=True)
    schema = StructType().add("body", "binary")
    for delivery in ("at-least-once", "exactly-once"):
        source = AMQPDataSource({"url": url, "queue": "q", "startingOffsets": "latest", "delivery": delivery})
        with pytest.raises(AMQPSourceError, match="'startingOffsets' is for streams, and 'q' is a queue"):
            source.stream_reader(schema)
    with pytest.raises(AMQPSourceError, match="'endingOffsets' is for streams"):
        BatchReader(schema, Options(url=url, queue="q", ending_offsets="7")).partitions()


def test_what_a_lost_lease_may_be(channel: Channel, url: str) -> None:
    """Its queue was deleted and made anew, or the checkpoint is an old one: the error names both."""
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 5), "q", properties=PERSISTENT)
    reader = LeaseReader(StructType().add("body", "binary"), Options(url=url), ["q"])
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(5))
    channel.queue_delete("q")
    channel.queue_declare("q", durable=True)
    for step in (lambda: reader.partitions({}, end), lambda: reader.latestOffset(end, ReadMaxRows(5))):
        with pytest.raises(DataLossError, match="deleted and made anew, or the checkpoint is an old copy"):
            step()
    reader.stop()


def test_checkpoints_of_another_delivery_are_refused(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    channel.queue_declare("q", durable=True)
    declare_stream(channel, "s", numbers(0, 3))
    for first, then, queue in ((EXACTLY_ONCE, {}, "q"), ({}, EXACTLY_ONCE, "q"), (EXACTLY_ONCE, {}, "s")):
        directory = tmp_path / f"{len(first)}{queue}"
        channel.publish_batch(numbers(0, 3), "q", properties=PERSISTENT)
        Query(spark, url, directory, queue="q", **first).run()
        channel.publish_batch(numbers(3, 6), "q", properties=PERSISTENT)
        with pytest.raises(PySparkException, match=r"the checkpoint is of a query with .* use another"):
            Query(spark, url, directory, queue=queue, **then).run()
        channel.queue_purge("q")


def test_a_queue_that_is_named_twice_is_read_once(spark: SparkSession, channel: Channel, url: str) -> None:
    channel.queue_declare("q")
    declare_stream(channel, "s", numbers(0, 3))
    channel.publish_batch(numbers(0, 3), "q")
    assert read(spark, url, queue="s, q,s,q").count() == 6


def read_between(start: dict[str, Any], end: dict[str, Any]) -> int:
    return sum(places_in(end).values()) - sum(places_in(start).values())


def test_a_lease_that_is_read_again_has_the_same_parts(channel: Channel, url: str) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch([b"x"] * 50, "q", properties=PERSISTENT)
    readers = [LeaseReader(StructType(), Options(url=url, min_partitions=parts), ["q"]) for parts in (4, 7)]
    start = readers[0].initialOffset()
    end = readers[0].latestOffset(start, ReadMaxRows(50))
    planned = readers[0].partitions(start, end)
    assert len(planned) == 4 and readers[1].partitions(start, end) == planned
    for reader in readers:
        reader.stop()


def test_both_limits_of_a_batch_hold(channel: Channel, url: str) -> None:
    """Records and bytes, of a queue (bodies, exactly), of a lease and of a stream (by the average size)."""
    schema = StructType().add("offset", LongType())
    bodies = [bytes(100)] * 50
    channel.queue_declare("q", durable=True)
    declare_stream(channel, "s", bodies)

    def counts(kind: Any, queues: Any, **limits: int) -> list[int]:
        channel.publish_batch(bodies, "q", properties=PERSISTENT)
        reader = kind(schema, Options(url=url, **limits), queues)
        place = reader.initialOffset()
        found = []
        for _ in range(2):
            end = reader.latestOffset(place, reader.getDefaultReadLimit())
            reader.partitions(place, end)
            reader.commit(place)
            found.append(end["counts"]["q"] if "counts" in end else read_between(place, end))
            place = end
        reader.stop()
        return found

    for kind, queues in ((QueueReader, ["q"]), (LeaseReader, ["q"]), (StreamReader, ["s"])):
        few = counts(kind, queues, max_records_per_trigger=3, max_bytes_per_trigger=100_000)
        assert few == [3, 3], kind
        large = counts(kind, queues, max_records_per_trigger=2_000_000, max_bytes_per_trigger=1 << 40)
        assert large[0] > 3, kind
        small = counts(kind, queues, max_records_per_trigger=1000, max_bytes_per_trigger=500)
        assert all(1 <= count <= 5 for count in small), kind
    assert counts(QueueReader, ["q"], max_bytes_per_trigger=50) == [1, 1]  # one that is larger than the limit


def test_draining_says_that_it_takes_everything(channel: Channel, url: str, caplog: Any) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 5), "q")
    for mode, told in (("browse", False), ("drain", True)):
        BatchReader(StructType().add("body", "binary"), Options(url=url, queue="q", mode=mode)).partitions()
        assert ("takes all messages that wait in queue 'q' (5 at this moment)" in caplog.text) == told


def test_messages_that_ended_with_the_broker_are_told(tmp_path: Path, caplog: Any) -> None:
    """Of a lease that had some which were not persistent."""
    with EmbeddedBroker(persistent=True) as broker:
        with connect(broker.url) as connection, connection.channel() as channel:
            channel.queue_declare("q", durable=True)
            channel.publish_batch(numbers(0, 5), "q", properties=PERSISTENT)
            channel.publish_batch(numbers(5, 8), "q")
        schema = StructType().add("body", "binary")
        reader = LeaseReader(schema, Options(url=broker.url), ["q"])
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(8))
        (partition,) = reader.partitions(start, end)
        reader.stop()
        broker.restart()
        with pytest.raises(DataLossError, match="lacks 3 of its messages"):
            list(reader.read(partition))
        careless = LeaseReader(schema, Options(url=broker.url, fail_on_data_loss=False), ["q"])
        assert sum(batch.num_rows for batch in careless.read(partition)) == 5
        assert "lacks 3 of its messages" in caplog.text
        careless.stop()


def test_a_lease_with_a_time_out_is_renewed_while_its_reader_runs(
    channel: Channel, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_embermq.leases.RENEWED_TIMES", 1000)  # every second, that is
    channel.queue_declare("q", durable=True)
    channel.publish_batch(numbers(0, 3), "q", properties=PERSISTENT)
    reader = LeaseReader(
        StructType().add("body", "binary"), Options(url=url, lease_timeout_ms=1_000_000), ["q"]
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(3))
    reader.partitions(start, end)

    def expires_ms() -> int:
        arguments = {"x-lease": last_lease(end), "x-lease-action": "show"}
        with channel.consume("q", no_ack=True, arguments=arguments) as consumer:
            return int(json.loads(consumer.fetch(1, 60)[0].body)["expires_ms"])

    seen = {expires_ms()}
    deadline = time.monotonic() + 60
    while len(seen) < 4:
        assert time.monotonic() < deadline
        seen.add(expires_ms())
        time.sleep(0.1)
    reader.stop()
