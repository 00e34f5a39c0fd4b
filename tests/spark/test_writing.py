"""DataFrames as messages: where they go, what they carry, and that a task ends when all are confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from embermq.client import Channel
from embermq.testing import EmbeddedBroker
from tests.spark.conftest import declare_stream
from tests.spark.test_reading_streams import numbers


def write(frame: DataFrame, url: str, mode: str = "append", **options: Any) -> None:
    writer = frame.write.format("amqp").option("url", url).mode(mode)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


def test_bodies_to_a_queue(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    channel.queue_declare("q", durable=True)
    write(spark.range(500).selectExpr("cast(id AS string) AS body"), url, routingKey="q")
    found = broker.messages("q", vhost)
    assert sorted(message.body for message in found) == sorted(numbers(0, 500))
    assert found[0].properties == {"delivery_mode": 2}


def test_columns_say_where_and_what(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    for name in ("a", "b"):
        channel.queue_declare(name)
    frame = spark.sql(
        "SELECT 'a' AS routing_key, cast('one' AS binary) AS body, map('n', '1') AS headers, "
        "'text/plain' AS content_type, 5 AS priority, timestamp'2024-01-01 00:00:00' AS timestamp "
        "UNION ALL SELECT 'b', cast('two' AS binary), null, null, null, null"
    )
    write(frame, url)
    (one,), (two,) = broker.messages("a", vhost), broker.messages("b", vhost)
    assert (one.body, one.headers) == (b"one", {"n": "1"})
    assert one.properties["content_type"] == "text/plain" and one.properties["priority"] == 5
    assert int(one.properties["timestamp"]) == 1_704_067_200
    assert (two.body, two.headers, two.properties) == (b"two", {}, {"delivery_mode": 2})


def test_rows_with_an_address_and_nothing_else(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    for name in ("a", "b"):
        channel.queue_declare(name)
        channel.queue_bind(name, "amq.direct", name)
    frame = spark.sql(
        "SELECT 'a' AS routing_key, 'amq.direct' AS exchange, 'one' AS body "
        "UNION ALL SELECT 'b', null, 'two' UNION ALL SELECT 'a', null, null"
    )
    write(frame.coalesce(1), url, deduplicate="true", writerId="run")
    first, third = broker.messages("a", vhost)
    (second,) = broker.messages("b", vhost)
    assert [message.body for message in (first, second, third)] == [b"one", b"two", b""]
    assert [message.exchange for message in (first, second, third)] == ["amq.direct", "", ""]
    ids = [message.headers["x-deduplication-id"] for message in (first, second, third)]
    assert ids == ["series:run/0/0", "series:run/0/1", "series:run/0/2"]


def test_an_option_says_where_all_rows_go(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    """Rows that were read have columns that tell where they were: they must not go back there."""
    for name in ("orders", "results"):
        channel.queue_declare(name)
    channel.queue_bind("results", "amq.fanout", "")
    channel.publish(b"one", "orders")
    orders = spark.read.format("amqp").option("url", url).load("orders")
    write(orders, url, exchange="amq.fanout")
    write(orders, url, routingKey="results")
    found = [(message.exchange, message.routing_key) for message in broker.messages("results", vhost)]
    assert found == [("amq.fanout", "orders"), ("", "results")]
    assert len(broker.messages("orders", vhost)) == 1


def test_ids_out_of_the_rows_need_no_name_for_the_run(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    channel.queue_declare("q", durable=True, arguments={"x-deduplication": True})
    frame = spark.sql("SELECT 'one' AS body, 'a' AS deduplication_id UNION ALL SELECT 'two', null").coalesce(
        1
    )
    for _ in range(2):
        write(frame, url, routingKey="q", deduplicate="true")
    found = [(message.body, message.headers) for message in broker.messages("q", vhost)]
    # One that has none may come twice; it must never be taken for another.
    assert found == [(b"one", {"x-deduplication-id": "a"}), (b"two", {}), (b"two", {})]


def test_rows_as_json(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    channel.queue_declare("q")
    frame = spark.sql(
        "SELECT 'q' AS _routing_key, 7 AS id, named_struct('x', 'é') AS nested, null AS nothing, "
        "date'2026-01-02' AS day, double('NaN') AS nan, 'a' AS type, "
        "timestamp'2026-01-02 03:04:05' AS timestamp, "
        "'me' AS user_id, 300 AS priority, 'x' AS routing_key, 9 AS _priority, map('h', 1) AS _headers"
    )
    write(frame, url, format="json")
    (message,) = broker.messages("q", vhost)
    assert message.body.decode() == (
        '{"id":7,"nested":{"x":"é"},"day":"2026-01-02","nan":"NaN","type":"a",'
        '"timestamp":"2026-01-02T03:04:05.000Z","user_id":"me","priority":300,"routing_key":"x"}'
    )
    assert message.properties["content_type"] == "application/json" and message.properties["priority"] == 9
    assert message.headers == {"h": 1}


def test_rows_as_json_with_another_prefix(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    channel.queue_declare("q")
    write(spark.sql("SELECT 'q' AS m_routing_key, 1 AS _type"), url, format="json", metadataPrefix="m_")
    write(spark.sql("SELECT 'q' AS routing_key, 2 AS id"), url, format="json", metadataPrefix="")
    assert [message.body for message in broker.messages("q", vhost)] == [b'{"_type":1}', b'{"id":2}']


def test_a_batch_is_remembered_as_a_whole_however_large(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str
) -> None:
    arguments = {"x-deduplication": True, "x-deduplication-count": 10}
    channel.queue_declare("q", durable=True, arguments=arguments)
    frame = spark.range(5000).repartition(3).selectExpr("cast(id AS string) AS body")
    for _ in range(2):
        write(frame, url, routingKey="q", deduplicate="true", writerId="run")
    assert channel.queue_declare("q", passive=True).message_count == 5000
    own = spark.range(11).coalesce(1).selectExpr("'x' AS body", "cast(id AS string) AS deduplication_id")
    with pytest.raises(PySparkException, match="more than 10 rows with ids of their own"):
        write(own, url, routingKey="q", deduplicate="true")
    with pytest.raises(PySparkException, match="its x-deduplication-count is less than the batch takes"):
        write(
            spark.range(22).repartition(11).selectExpr("'x' AS body"),
            url,
            routingKey="q",
            deduplicate="true",
            writerId="wide",
        )


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("1 AS id", {"routingKey": "q"}, "rows need a column 'body'"),
        ("'x' AS body, 1 AS id", {"routingKey": "q"}, "nobody knows what to do with column 'id'"),
        ("1 AS body", {"routingKey": "q"}, "column 'body' is int; expected binary or string"),
        ("'x' AS body", {}, "nothing says where the messages go"),
        ("'x' AS body", {"exchange": "nobody"}, "no exchange 'nobody'"),
        ("'x' AS body", {"routingKey": "nobody"}, "errors.Missing: no queue 'nobody'"),
        ("'x' AS body, 'nobody' AS routing_key", {}, "1 returned because no queue is bound"),
        ("'x' AS body, 256 AS priority", {"routingKey": "q"}, "a row cannot be a message: "),
        ("'x' AS body", {"routingKey": "q", "url": "amqp://127.0.0.1:1"}, "cannot be reached"),
        ("'x' AS body", {"routingKey": "q", "deduplicate": "true"}, "needs option 'writerId'"),
        ("1 AS id, 'q' AS routing_key", {"format": "json"}, "or columns '_exchange' or '_routing_key'"),
        ("interval 1 day AS i", {"format": "json", "routingKey": "q"}, "which has no form in JSON"),
        (
            "'x' AS body",
            {"routingKey": "q", "deduplicate": "true", "writerId": "run"},
            "queue 'q' does not deduplicate",
        ),
    ],
)
def test_mistakes_are_sentences(
    spark: SparkSession, channel: Channel, url: str, columns: str, options: dict[str, str], sentence: str
) -> None:
    channel.queue_declare("q")
    with pytest.raises(PySparkException, match=sentence):
        write(spark.sql(f"SELECT {columns}"), **{"url": url, **options})


def test_nothing_can_be_overwritten(spark: SparkSession, url: str) -> None:
    with pytest.raises(PySparkException):
        write(spark.sql("SELECT 'x' AS body"), url, mode="overwrite", routingKey="q")


def test_what_nobody_gets_may_be_passed_over(spark: SparkSession, url: str) -> None:
    write(spark.sql("SELECT 'x' AS body"), url, routingKey="nobody", onReturn="ignore")
    write(spark.sql("SELECT 'x' AS body"), url, routingKey="nobody", mandatory="false")


def test_from_stream_to_queue_as_a_query(
    spark: SparkSession,
    channel: Channel,
    broker: EmbeddedBroker,
    vhost: str,
    url: str,
    tmp_path: Path,
) -> None:
    declare_stream(channel, "s", numbers(0, 20))
    channel.queue_declare("out", durable=True, arguments={"x-deduplication": True})
    query = (
        spark.readStream.format("amqp")
        .option("url", url)
        .option("queue", "s")
        .load()
        .select("body")
        .writeStream.format("amqp")
        .option("url", url)
        .option("routingKey", "out")
        .option("deduplicate", "true")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = broker.messages("out", vhost)
    assert sorted((message.body for message in found), key=int) == numbers(0, 20)
    ids = {message.headers["x-deduplication-id"] for message in found}
    assert len(ids) == 20 and all(identity.startswith(f"series:{query.id}/0/") for identity in ids)
