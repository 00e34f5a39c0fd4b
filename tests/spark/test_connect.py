"""Spark Connect: a program without Java that has its Spark at the other end of a connection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embermq.client import Channel
from embermq.testing import EmbeddedBroker
from tests.spark.conftest import declare_stream
from tests.spark.test_reading_streams import numbers

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(300)
def test_everything_over_connect(
    spark: SparkSession, broker: EmbeddedBroker, channel: Channel, url: str, vhost: str, tmp_path: Path
) -> None:
    declare_stream(channel, "s", numbers(0, 100))
    for queue in ("q", "leased", "out", "sql"):
        channel.queue_declare(queue, durable=True)
    for queue in ("q", "leased"):
        channel.publish_batch(numbers(0, 100), queue)
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    # Without Java: nothing may start a Spark of its own.
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PYTHONPATH": f"{REPOSITORY}:{os.environ.get('PYTHONPATH', '')}", "PATH": str(tmp_path)}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.spark.over_connect",
            f"sc://127.0.0.1:{port}",
            str(tmp_path),
            url,
            broker.http_url,
        ],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["stream"], found["queue"], found["shipped"]) == (100, 100, 100)
    assert (found["queried"], found["leased"]) == ([100, 100], 100)
    assert sorted((message.body for message in broker.messages("out", vhost)), key=int) == numbers(0, 10)
    assert found["inserted"] == [["from SQL"]] and found["selected"] == [[100, 99]]
    assert found["with"] == found["view"] == [[100]]
    assert "Spark forgets those of a table that was made with columns" in found["columns"]
    assert "leave user and password out" in found["secret"]
