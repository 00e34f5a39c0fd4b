"""One Spark for all tests of a run (of one worker), as light as Spark can be."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embermq.client import Channel, connect
from embermq.testing import EmbeddedBroker
from pyspark_embermq.data_source import AMQPDataSource
from pyspark_embermq.runtime.java_launch import find_java, worker_python

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss2m"


# The package is plain Python in both modes. What differs is the client below it, which has tests of its own
# in both, so the interpreted run writes with Spark and leaves the rest to the compiled one.
ONCE_IS_ENOUGH = {
    "test_archive.py",
    "test_kills.py",
    "test_cluster.py",
    "test_connect.py",
    "test_docs.py",
    "test_pipelines.py",
    "test_error_text.py",
    "test_rabbitmq.py",
    "test_reading_queues.py",
    "test_reading_streams.py",
    "test_formats.py",
    "test_pace.py",
    "test_progress.py",
    "test_recipes.py",
    "test_pushdown.py",
    "test_subscription.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # A time limit that strikes in the middle of a call to Java leaves the conversation with it in
        # disorder, so that all tests behind it fail: it must be one that no busy machine reaches.
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
    if os.environ.get("EMBERMQ_EXPECT") != "interpreted":
        return
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name in ONCE_IS_ENOUGH:
            item.add_marker(
                pytest.mark.skip(reason="Spark's side is the same in both modes: see the compiled run")
            )


def session(master: str, directory: Path, **more: str) -> SparkSession:
    find_java()
    os.environ["PYSPARK_PYTHON"] = os.environ.get("SPARK_PYTHON") or worker_python()  # of the workers
    builder = SparkSession.builder.master(master).appName("embermq tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "scratch"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    }
    for name, value in (settings | more).items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    # Spark finds the source by itself (test_connect.py shows it), but looks only once, in a Python that has
    # ten seconds to start: a busy machine would take it away from all tests.
    made.dataSource.register(AMQPDataSource)
    return made


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # It is a server of Spark Connect as well: one Java process for both.
    connect_server = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    made = session("local[2]", tmp_path_factory.mktemp("spark"), **connect_server)
    yield made
    made.stop()
    with warnings.catch_warnings():  # py4j leaves its sockets to the collector: not to that of a later test
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(persistent=True) as made:
        yield made


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pipelines keep their states: not where those of the user are."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def vhost(broker: EmbeddedBroker) -> Iterator[str]:
    with broker.vhost() as name:
        yield name


@pytest.fixture
def url(broker: EmbeddedBroker, vhost: str) -> str:
    return broker.url_of(vhost)


@pytest.fixture
def channel(url: str) -> Iterator[Channel]:
    with connect(url) as connection, connection.channel() as made:
        yield made


def declare_stream(channel: Channel, name: str, bodies: list[bytes]) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    channel.publish_batch(bodies, name)
