"""Options of the data source: what they become, and what is said when they are wrong."""

from __future__ import annotations

import pytest

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options, options_from


def test_names_are_found_in_any_case() -> None:
    options = options_from({"QUEUE": "orders", "startingOffsets": "latest", "minpartitions": "3"})
    assert (options.queue, options.starting_offsets, options.min_partitions) == ("orders", "latest", 3)


def test_what_load_was_given_is_the_queue() -> None:
    assert options_from({"path": "orders"}).queue == "orders"
    assert options_from({"path": "orders", "queue": "bills"}).queue == "bills"


def test_a_password_alone_is_that_of_the_urls_user() -> None:
    assert options_from({"url": "amqp://ann@host", "password": "pw"}).url == "amqp://ann:pw@host"
    assert options_from({"url": "amqp://host", "password": "pw"}).url == "amqp://guest:pw@host"


def test_user_and_password_go_into_the_url() -> None:
    options = options_from({"url": "amqp://host:1234/shop", "user": "a@b", "password": "p/w"})
    assert options.url == "amqp://a%40b:p%2Fw@host:1234/shop"
    assert options.vhost == "shop"


@pytest.mark.parametrize("url", ["amqp://ann:secret@host:1234/%2f", "amqp://ann:secret@host:1234/%2f?x=y"])
def test_secrets_are_not_shown(url: str) -> None:
    options = Options(url=url)
    assert options.place == "amqp://host:1234/%2f"
    assert "secret" not in repr(options) and "ann" not in repr(options)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"queu": "orders"}, r"there is no option 'queu'. Did you mean 'queue'\? The options are .*queue"),
        ({"startingOfset": "1"}, "Did you mean 'startingOffsets'"),
        ({"colour": "red"}, "there is no option 'colour'. The options are avroSchema, "),
        ({"minPartitions": "many"}, "'minPartitions' is 'many'; expected a whole number"),
        ({"minPartitions": "0"}, "'minPartitions' is 0; expected 1 or more"),
        ({"mandatory": "perhaps"}, "'mandatory' is 'perhaps'; expected true or false"),
        ({"format": "xml"}, "'format' is 'xml'; expected one of binary, text, json, csv, avro"),
        ({"format": "protobuf"}, "give a descriptor set"),
        ({"maxRecordsPerTrigger": "-1"}, "'maxRecordsPerTrigger' is -1; expected 0 or more"),
        ({"csvSeparator": "||"}, "'csvSeparator' is '||'; expected one character".replace("|", r"\|")),
        ({"queue": "q", "superStream": "s"}, "option 'queue' or option 'superStream', not both"),
        ({"onDecodeError": "dead-letter"}, "say where to with option 'deadLetterExchange'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(AMQPSourceError, match=sentence):
        options_from(given)


def test_what_spark_adds_is_passed_over() -> None:
    assert options_from({"__hidden": "1", "spark.sql.x": "2", "checkpointLocation": "/x"}) == Options()
