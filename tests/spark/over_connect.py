"""A program that has Spark only over the network: reads and writes with Spark Connect, tells what it saw.

python -m tests.spark.over_connect SERVER DIRECTORY URL HTTP_URL

The stream `s` and the queues `q` and `leased` are there with 100 messages each; `out` and `sql` are empty.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import pyspark_embermq
from pyspark_embermq.options import Options


def run(server: str, directory: Path, url: str, http_url: str) -> dict[str, Any]:
    spark = SparkSession.builder.remote(server).getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect")

    def read(queue: str, **options: str) -> DataFrame:
        return spark.read.format("amqp").option("url", url).options(**options).load(queue)

    def queried(queue: str, **options: str) -> int:
        rows = spark.readStream.format("amqp").option("url", url).options(**options).load(queue)
        place = str(directory / f"connect-{queue}")
        writer = rows.writeStream.format("parquet").option("path", place)
        writer = writer.option("checkpointLocation", f"{place}-checkpoint").trigger(availableNow=True)
        writer.start().awaitTermination()
        return spark.read.parquet(place).count()

    def said(statement: str) -> list[Any]:
        return [list(row) for row in spark.sql(statement).collect()]

    def refusal(statement: str) -> str:
        try:
            spark.sql(statement).collect()
        except PySparkException as error:
            return str(error)
        return ""

    found: dict[str, Any] = {"stream": read("s", minPartitions="2").count(), "queue": read("q").count()}
    rows = read("s").where("offset < 10").select("body")
    rows.write.format("amqp").option("url", url).option("routingKey", "out").mode("append").save()
    found["queried"] = [queried("s"), queried("q")]
    found["leased"] = queried("leased", delivery="exactly-once", httpUrl=http_url)
    # SQL: tables, whose options Spark's catalog keeps and forgets to hand on, and views.
    place = Options(url=url).place
    said(f"CREATE TABLE embermq_s USING amqp OPTIONS (url '{place}', queue 's', minPartitions 2)")
    said(f"CREATE TABLE embermq_o USING amqp OPTIONS (url '{place}', queue 'sql', routingKey 'sql')")
    said(f"CREATE TABLE embermq_c (body binary) USING amqp OPTIONS (url '{place}', queue 's')")
    try:
        said("INSERT INTO embermq_o (body) VALUES (binary('from SQL'))")
        found["inserted"] = said("SELECT cast(body AS string) FROM embermq_o")
        found["selected"] = said("SELECT count(*), max(offset) FROM embermq_s")
        found["columns"] = refusal("SELECT * FROM embermq_c")
        found["with"] = said(f"SELECT count(*) FROM embermq_c WITH (`url` = '{url}', `queue` = 's')")
    finally:
        for table in ("embermq_s", "embermq_o", "embermq_c"):
            said(f"DROP TABLE {table}")
    found["secret"] = refusal(f"CREATE TABLE embermq_secret USING amqp OPTIONS (url '{url}', queue 's')")
    said(f"CREATE TEMPORARY VIEW clicks (body binary) USING amqp OPTIONS (url '{url}', queue 's')")
    found["view"] = said("SELECT count(*) FROM clicks")
    found["missing"] = refusal(f"SELECT * FROM embermq_none WITH (`url` = '{url}')")
    # And for servers that have nothing of ours.
    pyspark_embermq.ship(spark)
    found["shipped"] = read("s").count()
    spark.stop()
    return found


if __name__ == "__main__":
    results = run(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    (Path(sys.argv[2]) / "found.json").write_text(json.dumps(results))
