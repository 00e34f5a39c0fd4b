"""A Spark session for pipelines and SQL: light on a laptop, whatever `--master` says elsewhere."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_embermq.data_source import AMQPDataSource
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.pipelines.state import directory
from pyspark_embermq.runtime.java_launch import find_java, worker_python

# Spark's other one starts a process for the permissions of each file of a checkpoint: several in every batch.
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
# PySpark writes the whole stack of Java to the terminal when a column's name is misspelt.
TALKATIVE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def log_of(name: str) -> Path:
    """Where Java and the workers write what they have to say; begun anew by each run."""
    return directory() / f"{name}.log"


def spark_session(name: str, master: str | None = None) -> SparkSession:
    """The session that runs things; workers use the Python that runs this, Spark's own words go to a log."""
    find_java()
    is_local = master is None or master.startswith("local")
    os.environ.setdefault("PYSPARK_PYTHON", worker_python() if is_local else sys.executable)
    builder = SparkSession.builder.appName(f"embermq {name}").master(master or "local[*]")
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
    for logger in TALKATIVE:
        logging.getLogger(logger).disabled = True
    log = log_of(name)
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with standard_error_in(log):
            session = builder.getOrCreate()
    except PySparkException as error:
        raise AMQPSourceError(f"Spark does not start: {last_words(log) or error} (its log: {log})") from None
    # Spark finds it by itself, but looks only once, in a Python that has ten seconds to start.
    session.dataSource.register(AMQPDataSource)
    return session


@contextmanager
def standard_error_in(log: Path) -> Iterator[None]:
    """Programs that are started meanwhile write their errors to a file: Java, and Spark's workers from it."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def last_words(log: Path) -> str:
    """Of a Java that has ended at once: the line that names an error, or else the last one."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines[-1:] or [""])[0]
