"""Past one machine: a standalone cluster of a master and two workers, one of which is killed.

The workers' Python has PySpark and pyarrow, and EmberMQ installed; or nothing of ours: the driver sends it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

import embermq
from embermq.client import connect
from embermq.testing import EmbeddedBroker
from tests.spark.conftest import JAVA_OPTIONS, declare_stream
from tests.spark.test_reading_streams import numbers
from tools.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]
START_S_MAX = 300.0
DRIVER_S_MAX = 600.0
MESSAGES = 1000
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


def installed_python(directory: Path) -> Path:
    """The same with EmberMQ in it, as `pip install --editable` leaves it."""
    python = bare_python(directory)
    (packages,) = (directory / "lib").glob("python*/site-packages")
    (packages / "embermq.pth").write_text(f"{Path(embermq.__file__).parents[1]}\n")
    return python


@contextmanager
def daemon(kind: str, python: Path, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
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
        yield process
    finally:
        process.terminate()  # a worker ends its executors
        process.wait()


def wait_until(is_so: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + START_S_MAX
    while not is_so():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)


def wait_for(log: Path, text: str) -> None:
    wait_until(lambda: log.exists() and text in log.read_text(), log)


def executors_of(worker: int) -> list[int]:
    """The processes that a worker has started to run tasks."""
    threads = Path(f"/proc/{worker}/task").glob("*/children")  # any thread of Java's may have started them
    children = [child for thread in threads for child in thread.read_text().split()]
    return [int(child) for child in children if b"ExecutorBackend" in command_of(child)]


def command_of(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # gone meanwhile


def kill_with_executors(worker: subprocess.Popen[bytes], log: Path) -> None:
    """As if its machine had lost power, while it has something to do."""
    wait_until(lambda: bool(executors_of(worker.pid)), log)
    for pid in (worker.pid, *executors_of(worker.pid)):
        os.kill(pid, signal.SIGKILL)


class Cluster:
    """A master and two workers with a core each, in a directory with their logs."""

    def __init__(self, directory: Path, python: Path, stack: ExitStack) -> None:
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        log = directory / "master"
        ports = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        stack.enter_context(daemon("master.Master", python, log, *ports))
        wait_for(log, "I have been elected leader")
        self.workers = []
        for name in ("one", "two"):
            settings = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0")
            place = ("--work-dir", str(directory / f"work-{name}"), self.master)
            started = daemon("worker.Worker", python, directory / name, *settings, *place)
            self.workers.append(stack.enter_context(started))
        for name in ("one", "two"):
            wait_for(directory / name, "Successfully registered with master")

    @contextmanager
    def driver(self, directory: Path, python: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        environment = {
            **os.environ,
            # The driver has the package: Spark asks it for offsets with the Python of the workers.
            "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/src:{os.environ.get('PYTHONPATH', '')}",
            "SPARK_PYTHON": str(python),
        }
        command = [sys.executable, "-m", "tests.spark.on_cluster", self.master, str(directory), *arguments]
        with (directory / "driver").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=REPOSITORY, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.once("six Java processes: a minute")
@pytest.mark.timeout(0)  # as long as a busy machine takes; whatever is waited for has a deadline
def test_workers_with_and_without_the_package(tmp_path: Path) -> None:
    bare, installed = bare_python(tmp_path / "bare"), installed_python(tmp_path / "installed")
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(persistent=True, process=True))
        with connect(broker.url) as connection, connection.channel() as channel:
            declare_stream(channel, "s", numbers(0, MESSAGES))
            for queue in ("shipped", "installed"):
                channel.queue_declare(queue, durable=True)
        cluster = Cluster(tmp_path, bare, stack)
        for name, python, more in (("shipped", bare, ["--ship"]), ("installed", installed, [])):
            directory = tmp_path / f"{name}-job"
            directory.mkdir()
            with cluster.driver(directory, python, broker.url, name, *more) as driver:
                if name == "installed":
                    commits = directory / "checkpoint" / "commits"
                    wait_until((commits / "2").exists, directory / "driver")
                    kill_with_executors(cluster.workers[0], directory / "driver")
                assert driver.wait(DRIVER_S_MAX) == 0, (directory / "driver").read_text()[-3000:]
            found = json.loads((directory / "found.json").read_text())
            assert found["offsets"] == found["queried"] == list(range(MESSAGES))
            with connect(broker.url) as connection, connection.channel() as channel:
                assert channel.queue_declare(name, passive=True).message_count == MESSAGES
            for executable, library in found["places"]:
                assert executable == str(python)
                assert ("pyspark_embermq.zip" in library) == bool(more)
