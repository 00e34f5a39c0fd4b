"""A driver program for a cluster: reads, writes, lets a query run, tells what it saw.

python -m tests.spark.on_cluster MASTER DIRECTORY URL OUT [--ship]

With --ship its workers have no EmberMQ, and get it from here. The query makes many small batches, so that
somebody can take a worker away in the middle of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark_embermq
from tests.spark.conftest import session
from tests.spark.test_reading_streams import Query

ROWS_PER_BATCH = 50


def where(_: Iterator[int]) -> Iterator[str]:
    """On a worker: which Python this is, and where it has the client library from."""
    import embermq

    yield json.dumps([sys.executable, embermq.__file__])


def run(master: str, directory: Path, url: str, out: str, ship: bool) -> None:
    spark = session(master, directory / "spark")
    if ship:
        pyspark_embermq.ship(spark)
    places = spark.sparkContext.parallelize(range(4), 4).mapPartitions(where).collect()
    stream = spark.read.format("amqp").option("url", url).option("queue", "s").option("minPartitions", 4)
    rows = stream.load().select("offset", "body")
    rows.select("body").write.format("amqp").option("url", url).option("routingKey", out).mode(
        "append"
    ).save()
    found = {
        "places": [json.loads(place) for place in places],
        "offsets": sorted(row.offset for row in rows.collect()),
    }
    query = Query(spark, url, directory, queue="s", minPartitions=2, maxRecordsPerTrigger=ROWS_PER_BATCH)
    query.run()
    found["queried"] = [int(body) for body in query.found()]
    (directory / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4], "--ship" in sys.argv)
