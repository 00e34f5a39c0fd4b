"""`archive`, `compact` and `replay`: what passes an exchange, kept as Parquet, and back."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embermq.client import Channel, Outgoing, Properties
from embermq.testing import EmbeddedBroker
from embermq.wire.table import Timestamp
from pyspark_embermq.errors import AMQPSourceError, Missing
from pyspark_embermq.pipelines import archive
from pyspark_embermq.pipelines import run as running
from tests.spark.conftest import declare_stream
from tests.spark.test_reading_streams import numbers


def test_archive_compact_and_replay(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str, tmp_path: Path
) -> None:
    channel.exchange_declare("shop", "topic", durable=True)
    what = archive.Archive(url, str(tmp_path / "kept"), str(tmp_path / "checkpoint"), exchange="shop")
    assert archive.source_queue(what) == "archive.shop"
    then = Properties(timestamp=Timestamp(1_700_000_000), headers={"n": 1})
    for batch in range(3):
        channel.publish_batch(
            [Outgoing(b"%d" % (batch * 10 + n), f"order.{n}", "shop", then) for n in range(4)]
        )
        running.run(spark, "archive", lambda s, once: archive.start(s, what, once), once=True)
    hour = tmp_path / "kept" / "date=2023-11-14" / "exchange=shop" / "hour=22"
    assert len(list(hour.glob("batch-*.parquet"))) >= 3
    kept = spark.read.parquet(str(tmp_path / "kept"))
    assert sorted(int(bytes(row.body)) for row in kept.collect()) == sorted(
        batch * 10 + n for batch in range(3) for n in range(4)
    )
    # A batch that is run again replaces itself.
    (again,) = list(hour.glob("batch-*-00000001-*.parquet"))[:1]
    owner = again.name.split("-")[1]
    copy = tmp_path / "again"
    shutil.copytree(hour, copy / "date=2023-11-14" / "exchange=shop" / "hour=22")
    rows = spark.read.parquet(str(copy)).where(f"input_file_name() like '%{again.name}'").cache()
    rows.count()
    archive.add_batch(rows, owner, 1, tmp_path / "kept")
    assert spark.read.parquet(str(tmp_path / "kept")).count() == 12
    # Many files become one, nothing is lost or doubled, and a crash in the middle heals. The last batch may
    # be run again, and stays as it is.
    assert archive.compact(spark, tmp_path / "kept", quiet_s=0) == 1
    names = sorted(file.name for file in hour.iterdir() if file.suffix == ".parquet")
    assert {name[: len("batch-000000000000-00000002")] for name in names} == {
        f"batch-{owner}-00000002",
        f"compact-{owner}-00000000-00000001.parquet"[: len("batch-000000000000-00000002")],
    }
    assert spark.read.parquet(str(tmp_path / "kept")).count() == 12
    shutil.copy(copy / hour.relative_to(tmp_path / "kept") / again.name, hour / again.name)
    assert archive.compact(spark, tmp_path / "kept", quiet_s=0) == 0
    assert spark.read.parquet(str(tmp_path / "kept")).count() == 12
    # And back.
    channel.queue_declare("back")
    channel.exchange_declare("again", "fanout")
    channel.queue_bind("back", "again")
    which = archive.Choice(
        since="2023-11-14", until="2023-11-15 01:00:00", key="*.1", where="length(body) > 0"
    )
    parts = archive.replay(spark, url, str(tmp_path / "kept"), "again", which, rows_per_second=2)
    lines: list[str] = []
    ended = running.run_parts("replay", parts, lines.append)
    assert (ended.state, ended.rows, ended.batches, ended.lag) == ("ended", 3, 2, 0)
    assert [line[9:15] for line in lines] == ["0 of 3", "2 of 3", "3 of 3"]
    found = broker.messages("back", vhost)
    assert [message.body for message in found] == [b"1", b"11", b"21"]
    assert found[0].routing_key == "order.1" and found[0].headers == {"n": 1}
    late = archive.Choice(since="2023-11-15")
    assert list(archive.replay(spark, url, str(tmp_path / "kept"), "again", late)) == [(0, 0)]
    with pytest.raises(AMQPSourceError, match="since is 'last week'; expected a time such as"):
        list(archive.replay(spark, url, str(tmp_path / "kept"), "again", archive.Choice(since="last week")))
    with pytest.raises(AMQPSourceError, match="there is no archive"):
        list(archive.replay(spark, url, str(tmp_path / "none"), "again"))
    with pytest.raises(AMQPSourceError, match="a queue or an exchange"):
        archive.source_queue(archive.Archive(url, "x", "y"))
    with pytest.raises(Missing, match="no exchange 'nobody' in vhost"):
        archive.source_queue(archive.Archive(url, "x", "y", exchange="nobody"))
    assert broker.queue("archive.nobody", vhost) is None
    with pytest.raises(AMQPSourceError, match="kept in a directory of this machine"):
        archive.local_path("s3://bucket/archive")


def run_archive(spark: SparkSession, url: str, path: Path, queue: str, checkpoint: str = "") -> None:
    found = checkpoint or archive.default_checkpoint(str(path), queue)
    what = archive.Archive(url, str(path), found, queue)
    running.run(spark, "archive", lambda s, once: archive.start(s, what, once), once=True)


def archived(spark: SparkSession, path: Path) -> list[int]:
    return sorted(int(bytes(row.body)) for row in spark.read.parquet(str(path)).select("body").collect())


def test_archives_in_one_directory_do_not_touch_each_other(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    path = tmp_path / "kept"
    declare_stream(channel, "a", numbers(0, 10))
    declare_stream(channel, "b", numbers(10, 20))
    for queue in ("a", "b", "a"):
        run_archive(spark, url, path, queue)
    assert archived(spark, path) == list(range(20))
    channel.publish_batch(numbers(20, 25), "a")
    run_archive(spark, url, path, "a")
    assert archived(spark, path) == list(range(25))
    # A checkpoint of another source, a new one for a stream that is here, and the old one again.
    with pytest.raises(AMQPSourceError, match="the checkpoint is of 'a', and not of 'b'"):
        run_archive(spark, url, tmp_path / "other", "b", archive.default_checkpoint(str(path), "a"))
    with pytest.raises(AMQPSourceError, match=r"stream 'a' is archived in .* with another checkpoint"):
        run_archive(spark, url, path, "a", str(tmp_path / "new"))
    shutil.move(path / "_checkpoint" / "a", tmp_path / "away")
    with pytest.raises(AMQPSourceError, match="its messages would be there twice"):
        run_archive(spark, url, path, "a")
    run_archive(spark, url, path, "a", str(tmp_path / "away"))
    assert archived(spark, path) == list(range(25))
    assert archive.compact(spark, path, quiet_s=0) == 0, (
        "a batch alone is not worth it, and the last one stays"
    )
    # Deleted and declared anew, it is another stream.
    channel.queue_delete("a")
    declare_stream(channel, "a", numbers(30, 35))
    run_archive(spark, url, path, "a", str(tmp_path / "anew"))
    assert archived(spark, path) == [*range(25), *range(30, 35)]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("eu.paid", ["eu.paid"], ["eu", "eu.paid.late", "euXpaid"]),
        ("eu.*", ["eu.paid"], ["eu", "eu.paid.late", "us.paid"]),
        ("eu.#", ["eu", "eu.paid", "eu.paid.late"], ["us", "europe"]),
        ("#.paid", ["paid", "eu.paid", "a.b.paid"], ["paid.late", "unpaid"]),
        ("*", ["eu"], ["eu.paid"]),
        ("#", ["", "eu", "eu.paid"], []),
    ],
)
def test_keys_of_a_replay_are_those_of_a_topic(pattern: str, yes: list[str], no: list[str]) -> None:
    regex = re.compile(archive.topic_regex(pattern))
    assert [key for key in [*yes, *no] if regex.search(f".{key}")] == yes
