"""`embermq sql`: queues, streams and archives as tables in a query.

select routing_key, count(*) from queue('orders') group by 1
"""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.pipelines.preflight import check_queues
from pyspark_embermq.pipelines.spark_errors import WrongQuery, first_words

TABLE = re.compile(r"\b(queue|stream|archive)\s*\(\s*'([^']*)'\s*\)", re.IGNORECASE)


def query(spark: SparkSession, text: str, url: str) -> DataFrame:
    """The answer to a query over queue('...'), stream('...') and archive('...'). Nothing is taken."""
    count = 0

    def view(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        kind, name = match[1].lower(), match[2]
        frame = archive_table(spark, name) if kind == "archive" else amqp_table(spark, url, name)
        frame.createOrReplaceTempView(f"embermq_{count}")
        return f"embermq_{count}"

    return spark.sql(TABLE.sub(view, text))


def check(text: str, url: str) -> None:
    """Before Spark is started: is there what the query asks?"""
    tables = TABLE.findall(text)
    if not tables:
        raise WrongQuery("name what to read: queue('orders'), stream('events') or archive('/path')")
    for kind, name in tables:
        if kind.lower() != "archive":
            check_queues({"url": url, "queue": name})


def archive_table(spark: SparkSession, path: str) -> DataFrame:
    """What a pipeline has written to a directory; files of different ages may have different columns."""
    try:
        return spark.read.option("mergeSchema", "true").parquet(path)
    except AnalysisException as error:
        if "UNABLE_TO_INFER_SCHEMA" in str(error):
            raise AMQPSourceError(f"the archive at {path} holds nothing yet") from None
        raise AMQPSourceError(f"there is no archive at {path}: {first_words(str(error))}") from None


def amqp_table(spark: SparkSession, url: str, name: str) -> DataFrame:
    frame = spark.read.format("amqp").option("url", url).option("queue", name).load()
    # Bodies are mostly text; the bytes have a column of their own.
    return frame.withColumnRenamed("body", "body_bytes").selectExpr("cast(body_bytes as string) as body", "*")
