"""The options of tables in Spark's catalog; tests/spark/test_connect.py has the tables themselves."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from pyspark_embermq.catalog import is_table, options_of, with_options
from pyspark_embermq.errors import AMQPSourceError

OF_A_TABLE = {"provider": "amqp", "owner": "root", "queue": "s", "option.queue": "s", "minPartitions": "2"}


def schema_with(comment: str) -> StructType:
    return StructType(
        [StructField("id", IntegerType()), StructField("queue", StringType(), True, {"comment": comment})]
    )


def test_a_table_keeps_its_options_in_its_schema() -> None:
    assert is_table(OF_A_TABLE) and not is_table({"queue": "s"})
    ddl = with_options("queue string, offset bigint", {**OF_A_TABLE, "queue": "it's"})
    assert ddl == ("""queue string COMMENT 'amqp {"minpartitions": "2", "queue": "it\\'s"}', offset bigint""")


def test_what_is_read_from_a_table_has_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_with('amqp {"minpartitions": "2", "queue": "s", "url": "amqp://host"}')
    found = options_of(schema, {})
    assert (found.queue, found.min_partitions, found.url) == ("s", 2, "amqp://host")
    assert options_of(schema, {"minPartitions": "5"}).min_partitions == 5
    monkeypatch.setenv("EMBERMQ_USER", "anna")
    monkeypatch.setenv("EMBERMQ_PASSWORD", "secret")
    assert options_of(schema, {}).url == "amqp://anna:secret@host"


def test_rows_of_a_table_that_go_elsewhere_do_not() -> None:
    schema = schema_with('amqp {"queue": "s", "format": "text"}')
    assert options_of(schema, {"routingKey": "other"}).format == "binary"
    assert options_of(schema_with("the queue"), {"queue": "q"}).queue == "q"


@pytest.mark.parametrize("secret", [{"url": "amqp://a:b@host"}, {"user": "a"}, {"Password": "b"}])
def test_secrets_stay_out_of_the_catalog(secret: dict[str, str]) -> None:
    with pytest.raises(AMQPSourceError, match="set EMBERMQ_USER and EMBERMQ_PASSWORD"):
        with_options("queue string, offset bigint", {**OF_A_TABLE, **secret})


def test_a_table_that_spark_gives_no_options_is_told_of() -> None:
    with pytest.raises(AMQPSourceError, match="Spark forgets those of a table"):
        options_of(schema_with("no options"), {})
