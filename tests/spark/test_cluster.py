"""Past one machine: a standalone cluster whose workers have PySpark and pyarrow, and nothing of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from embermq.client import connect
from embermq.testing import EmbeddedBroker
from tests.spark.conftest import JAVA_OPTIONS, declare_stream
from tests.spark.test_reading_streams import numbers
from tools.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]
START_S_MAX = 120.0
# What a worker has: PySpark and what it imports there.
WORKER_PACKAGES = (
    "pyspark",
    "pyarrow",
    "py4j",
    "numpy",
    "numpy.libs",
    "pandas",
    "dateutil",
    "pytz",
    "six.py",
    "tzdata",
)


def without_python_path() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def bare_python(directory: Path) -> Path:
    """An environment with Spark's packages and without EmberMQ; what they are made of is not copied."""
    venv.create(directory, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target, source = directory / "lib" / version / "site-packages", Path(sysconfig.get_path("purelib"))
    for name in WORKER_PACKAGES:
        if (source / name).exists():
            (target / name).symlink_to(source / name)
    python = directory / "bin" / "python"
    command = [python, "-c", "import pyarrow, pyspark, embermq"]
    found = subprocess.run(command, capture_output=True, text=True, cwd="/", env=without_python_path())
    assert "No module named 'embermq'" in found.stderr
    return python


@contextmanager
def daemon(kind: str, python: Path, log: Path, *arguments: str) -> Iterator[None]:
    """A master or worker of Spark's, from the wheel; gone at the end with what it started."""
    home = Path(pyspark.__file__).parent
    environment = without_python_path() | {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(python),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with log.open("ab") as output:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()  # a worker ends its executors
        process.wait()


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + START_S_MAX
    while text not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)


@pytest.mark.timeout(600)
def test_workers_without_the_package(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--spark-cluster"):
        pytest.skip("six Java processes: a minute; run with --spark-cluster (make soak does)")
    python = bare_python(tmp_path / "bare")
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(persistent=True, process=True))
        with connect(broker.url) as connection, connection.channel() as channel:
            declare_stream(channel, "s", numbers(0, 1000))
            channel.queue_declare("out", durable=True)
        log = tmp_path / "master"
        ports = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        stack.enter_context(daemon("master.Master", python, log, *ports))
        wait_for(log, "I have been elected leader")
        for name in ("one", "two"):
            settings = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0")
            work = ("--work-dir", str(tmp_path / f"work-{name}"))
            stack.enter_context(daemon("worker.Worker", python, tmp_path / name, *settings, *work, master))
        for name in ("one", "two"):
            wait_for(tmp_path / name, "Successfully registered with master")
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.on_cluster", master, str(tmp_path), broker.url],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "PYTHONPATH": f"{REPOSITORY}:{os.environ.get('PYTHONPATH', '')}",
                "SPARK_PYTHON": str(python),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads((tmp_path / "found.json").read_text())
        with connect(broker.url) as connection, connection.channel() as channel:
            assert channel.queue_declare("out", passive=True).message_count == 1000
    assert found["offsets"] == list(range(1000)) and found["queried"] == 1000
    for executable, library in found["places"]:
        assert executable == str(python) and "pyspark_embermq.zip" in library
