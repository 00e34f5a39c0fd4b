"""A driver program for a cluster whose workers have no EmberMQ: ships it, reads, writes, tells what it saw.

python -m tests.spark.on_cluster MASTER DIRECTORY URL
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark_embermq
from tests.spark.conftest import session
from tests.spark.test_reading_streams import Query


def where(_: Iterator[int]) -> Iterator[str]:
    """On a worker: which Python this is, and where it has the client library from."""
    import embermq

    yield json.dumps([sys.executable, embermq.__file__])


def run(master: str, directory: Path, url: str) -> None:
    spark = session(master, directory / "spark")
    pyspark_embermq.ship(spark)
    places = spark.sparkContext.parallelize(range(4), 4).mapPartitions(where).collect()
    stream = spark.read.format("amqp").option("url", url).option("queue", "s").option("minPartitions", 4)
    rows = stream.load().select("offset", "body")
    rows.select("body").write.format("amqp").option("url", url).option("routingKey", "out").mode(
        "append"
    ).save()
    query = Query(spark, url, directory, queue="s", minPartitions=2)
    query.run()
    found = {
        "places": [json.loads(place) for place in places],
        "offsets": sorted(row.offset for row in rows.collect()),
        "queried": len(query.found()),
    }
    (directory / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
