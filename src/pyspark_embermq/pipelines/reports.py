"""`dead-letters` and `traffic`: what fails and what flows, as tables and as a page."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_embermq.pipelines.archive import NO_EXCHANGE, add_batch, started, stream_of
from pyspark_embermq.pipelines.run import triggered

DEATHS = (
    "array<struct<count:bigint,reason:string,queue:string,exchange:string,`routing-keys`:array<string>,"
    "time:struct<`$timestamp`:bigint>>>"
)


def deaths(spark: SparkSession, url: str, queue: str) -> DataFrame:
    """The letters of a queue with their latest death."""
    letters = spark.read.format("amqp").option("url", url).option("queue", queue).load()
    found = sql.from_json(sql.get_json_object("headers_json", "$['x-death']"), DEATHS)
    return letters.withColumn("death", found[0]).withColumn("died_at", sql.col("death.time.`$timestamp`"))


def by_minute(letters: DataFrame) -> dict[int, int]:
    """How many died when: minutes since 1970."""
    minute = sql.floor(sql.col("died_at") / 60).alias("minute")
    rows = letters.where("died_at is not null").groupBy(minute).agg(sql.count("*").alias("letters")).collect()
    return {row.minute: row.letters for row in rows}


def dead_letters(spark: SparkSession, url: str, queue: str) -> DataFrame:
    """What failed, where, why, how often and since when: a row for each cause, most frequent first."""
    return (
        deaths(spark, url, queue)
        .groupBy(
            sql.col("death.queue").alias("queue"),
            sql.coalesce("death.reason", sql.lit("(no x-death)")).alias("reason"),
            sql.when(sql.col("death.exchange") == "", NO_EXCHANGE)
            .otherwise(sql.col("death.exchange"))
            .alias("exchange"),
            sql.col("death.`routing-keys`")[0].alias("routing_key"),
        )
        .agg(
            sql.count("*").alias("letters"),
            sql.sum("death.count").alias("deaths"),
            sql.timestamp_seconds(sql.min("died_at")).alias("since"),
            sql.timestamp_seconds(sql.max("died_at")).alias("last"),
        )
        .orderBy(sql.desc("letters"))
    )


def traffic(frame: DataFrame, window: str = "1 minute", late: str = "1 minute") -> DataFrame:
    """Counts, sizes and latencies per exchange, routing key and application, in windows of time."""
    moment = sql.coalesce("timestamp", "ingest_timestamp").alias("at")
    rows = frame.select(
        moment,
        "exchange",
        "routing_key",
        "app_id",
        sql.length("body").alias("size"),
        (sql.col("ingest_timestamp").cast("double") - sql.col("timestamp").cast("double")).alias("latency"),
    )
    return (
        rows.withWatermark("at", late)
        .groupBy(sql.window("at", window), "exchange", "routing_key", "app_id")
        .agg(
            sql.count("*").alias("messages"),
            sql.sum("size").alias("bytes"),
            sql.avg("latency").alias("latency_seconds"),
        )
        .select(
            "window.start",
            "window.end",
            "exchange",
            "routing_key",
            "app_id",
            "messages",
            "bytes",
            "latency_seconds",
        )
    )


FACTOR = 3.0  # deviations from what is usual
WINDOWS_MIN = 5  # before anything counts as usual
KEY = ("exchange", "routing_key", "app_id")
# What is usual is told by the last so many batches: a long history costs nothing.
BATCHES_MAX = 1000


def with_anomalies(windows: DataFrame) -> DataFrame:
    """Marks windows whose count is far from what it was in the windows before: by three deviations."""
    before = Window.partitionBy(*KEY).orderBy("start").rowsBetween(Window.unboundedPreceding, -1)
    usual = sql.avg("messages").over(before)
    # A count is never quite steady: what varies by itself as much as its square root is as usual.
    deviation = sql.greatest(sql.coalesce(sql.stddev("messages").over(before), sql.lit(0.0)), sql.sqrt(usual))
    is_far = sql.abs(sql.col("messages") - usual) > FACTOR * deviation
    is_known = sql.count("*").over(before) >= WINDOWS_MIN
    return windows.withColumn("anomaly", sql.coalesce(is_far & is_known, sql.lit(False)))


def start_traffic(
    spark: SparkSession,
    url: str,
    queue: str,
    path: str,
    checkpoint: str,
    window: str,
    once: bool,
    late: str = "1 minute",
) -> StreamingQuery:
    """Follow a stream and keep its windows as Parquet, unusual ones marked."""
    frame = spark.readStream.format("amqp").option("url", url).option("queue", queue).load()

    def keep(windows: DataFrame, number: int, owner: str) -> None:
        windows.persist()
        if not windows.isEmpty():  # most batches end no window
            add_batch(since(spark, windows, path, owner, number), owner, number, Path(path), ())
        windows.unpersist()

    writer = (
        traffic(frame, window, late)
        .writeStream.queryName("traffic")
        .outputMode("append")
        .option("checkpointLocation", checkpoint)
    )
    return started(triggered(writer, "10 seconds", once), keep, Path(path), stream_of(url, queue))


def since(spark: SparkSession, windows: DataFrame, path: str, owner: str, number: int) -> DataFrame:
    """The windows of a batch, marked by what is usual in those that this query has kept already."""
    kept = sorted(
        str(file)
        for file in Path(path).glob(f"batch-{owner}-*.parquet")
        if not file.name.startswith(f"batch-{owner}-{number:08d}-")  # of this batch, before a crash
    )[-BATCHES_MAX:]
    known = windows.withColumn("is_new", sql.lit(True))
    if kept:
        before = spark.read.parquet(*kept).drop("anomaly").withColumn("is_new", sql.lit(False))
        known = known.unionByName(before)
    return with_anomalies(known).where("is_new").drop("is_new").coalesce(1)
