"""A Spark session for pipelines and SQL: light on a laptop, whatever `--master` says elsewhere."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from pyspark_embermq.launching import find_java, worker_python
from pyspark_embermq.source import AMQPDataSource

# Spark's other one starts a process for the permissions of each file of a checkpoint: several in every batch.
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def spark_session(name: str, master: str | None = None) -> SparkSession:
    """The session that runs things; workers use the Python that runs this."""
    find_java()
    is_local = master is None or master.startswith("local")
    os.environ.setdefault("PYSPARK_PYTHON", worker_python() if is_local else sys.executable)
    builder = SparkSession.builder.appName(name).master(master or "local[*]")
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if is_local:
        settings |= {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Spark finds it by itself, but looks only once, in a Python that has ten seconds to start.
    session.dataSource.register(AMQPDataSource)
    return session
