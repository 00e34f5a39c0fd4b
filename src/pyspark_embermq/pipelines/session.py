"""A Spark session for pipelines and SQL: light on a laptop, whatever `--master` says elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_embermq.errors import AMQPSourceError

NO_JAVA = (
    "Spark needs Java 17 or newer and there is none: install it "
    "(Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME"
)


def require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        raise AMQPSourceError(NO_JAVA)


def spark_session(name: str, master: str | None = None) -> SparkSession:
    """The session that runs things; workers use the Python that runs this."""
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master or "local[*]")
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if master is None or master.startswith("local"):
        settings |= {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
            "spark.driver.host": "127.0.0.1",
        }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
