"""docs/spark-recipes.md: its programs print what it says, against a real PostgreSQL among others."""

from __future__ import annotations

import contextlib
import io
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml
from pyspark.sql import SparkSession

from embermq.cli.main import parser
from embermq.client import Channel
from embermq.testing import EmbeddedBroker
from pyspark_embermq.pipelines.spec import pipeline_from
from tests.docs.test_examples import FENCE
from tests.spark.conftest import declare_stream

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-recipes.md"
DATABASE = "postgresql://postgres@localhost/shop"


def texts(kind: str) -> list[str]:
    return [match["text"] for match in FENCE.finditer(PAGE.read_text()) if match["info"].strip() == kind]


def adapted(text: str, url: str, directory: Path, database: str = "") -> str:
    text = text.replace("amqp://guest:guest@localhost:5672/%2f", url).replace("/data/", f"{directory}/")
    return text.replace(DATABASE, database)


def postgres_command(name: str) -> str | None:
    """Debian keeps them apart, by version."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(places[-1]) if places else None)


@pytest.fixture
def database() -> Iterator[str]:
    """A server of this test's own; it refuses to run as root, so then another user runs it."""
    initdb, server = postgres_command("initdb"), postgres_command("postgres")
    if initdb is None or server is None:
        pytest.skip("there is no PostgreSQL here (Debian: postgresql)")
    user = None
    if os.geteuid() == 0:
        users = {entry.pw_name for entry in pwd.getpwall()}
        user = "postgres" if "postgres" in users else "nobody"
    directory = tempfile.mkdtemp(prefix="embermq-postgres-")
    if user is not None:
        shutil.chown(directory, user)
    data = f"{directory}/data"
    try:
        subprocess.run(
            [initdb, "-D", data, "-U", "postgres", "-A", "trust", "-N"],
            check=True,
            capture_output=True,
            user=user,
            cwd="/",
        )
        command = [server, "-D", data, "-k", directory, "-h", "", "-F"]  # on a Unix socket only
        running = subprocess.Popen(command, user=user, cwd="/", stderr=subprocess.DEVNULL)
        try:
            await_database(f"postgresql://postgres@/postgres?host={directory}", running)
            yield f"postgresql://postgres@/shop?host={directory}"
        finally:
            running.terminate()
            running.wait(60)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def await_database(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with psycopg.connect(url, autocommit=True) as db:
                db.execute("create database shop")
                return
        except psycopg.OperationalError:
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)


def test_the_recipes(spark: SparkSession, url: str, tmp_path: Path, database: str) -> None:
    program: dict[str, object] = {}
    printed = io.StringIO()
    store = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(store)
    try:
        with contextlib.redirect_stdout(printed):
            for text in texts("python recipe"):
                exec(compile(adapted(text, url, tmp_path, database), str(PAGE), "exec"), program)
    finally:
        spark.conf.set(store, str(before))
    assert printed.getvalue() == "".join(texts("text output"))


def test_a_declarative_pipeline(
    spark: SparkSession, broker: EmbeddedBroker, channel: Channel, url: str, vhost: str, tmp_path: Path
) -> None:
    declare_stream(channel, "raw-orders", [b'{"id": %d, "total": %d}' % (n, n * 50) for n in range(5)])
    channel.queue_declare("large-orders", durable=True)
    (program,), (spec,) = texts("python declarative"), texts("yaml declarative")
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "orders.py").write_text(adapted(program, url, tmp_path))
    (tmp_path / "spark-pipeline.yml").write_text(adapted(spec, url, tmp_path))
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pyspark.pipelines.cli", "run"],
            cwd=tmp_path,
            env={**os.environ, "SPARK_REMOTE": f"sc://127.0.0.1:{port}"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found = sorted(message.body for message in broker.messages("large-orders", vhost))
        assert found == [b'{"id":3,"total":150.0}', b'{"id":4,"total":200.0}']
    finally:
        spark.sql("drop table if exists raw_orders")


def test_the_manifest_for_kubernetes() -> None:
    (text,) = texts("yaml kubernetes")
    claim, config, deployment = yaml.safe_load_all(text)
    assert [part["kind"] for part in (claim, config, deployment)] == [
        "PersistentVolumeClaim",
        "ConfigMap",
        "Deployment",
    ]
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert parser().parse_args(container["command"][1:])
    ((name, pipeline),) = config["data"].items()
    assert pipeline_from(tomllib.loads(pipeline), Path(name)).checkpoint.startswith("/checkpoint/")
