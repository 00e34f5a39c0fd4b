"""Queues and streams of AMQP brokers as DataFrames: the Spark data source `amqp`.

    spark.readStream.format("amqp").option("url", url).option("queue", "orders").load()
    df.write.format("amqp").option("url", url).option("exchange", "results").save()

Spark finds the source by itself where this package is installed (it looks for modules whose names begin with
`pyspark_`). docs/spark-options.md has the options; `ship` brings the package to workers that do not have it.
"""

from pyspark_embermq.data_source import AMQPDataSource as DefaultSource
from pyspark_embermq.errors import AMQPSourceError, DataLossError
from pyspark_embermq.leases import settle
from pyspark_embermq.runtime.install_on_workers import ship
from pyspark_embermq.runtime.java_launch import find_java
from pyspark_embermq.source.progress import queue_progress

__all__ = [
    "AMQPSourceError",
    "DataLossError",
    "DefaultSource",
    "find_java",
    "queue_progress",
    "settle",
    "ship",
]
