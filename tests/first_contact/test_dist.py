"""What `make dist` builds: a source distribution and a wheel for any machine, each installed into a fresh
virtual environment, with what they need from PyPI, where a broker then starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.brokers import REPOSITORY

pytestmark = [pytest.mark.once("it builds the interpreted wheel in either mode"), pytest.mark.timeout(600)]
SECONDS_MAX = 300
READY = re.compile(r"EmberMQ \S+ ready: amqp://127\.0\.0\.1:\d+ (http://127\.0\.0\.1:\d+) \(interpreted\)\n")


def run(*command: str | Path, cwd: Path = REPOSITORY) -> str:
    environment = {**os.environ, "EMBERMQ_COMPILE": "off", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    if done.returncode and "NewConnectionError" in done.stderr:
        pytest.skip("PyPI cannot be reached")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make dist` builds it, but for the compiled wheel, which takes a minute."""
    made = tmp_path_factory.mktemp("dist")
    egg = tmp_path_factory.mktemp("egg")
    run(sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", egg, "sdist", "--dist-dir", made)
    (source,) = made.glob("*.tar.gz")
    build = ("--no-cache-dir", "--no-deps", "--no-build-isolation", "--wheel-dir", made)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", *build, source)
    return made


@pytest.fixture
def broker(dist: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    (package,) = dist.glob(request.param)
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/pip", "install", "--quiet", package)
    command = [
        tmp_path / "venv/bin/embermq",
        "serve",
        "--amqp-port",
        "0",
        "--http-port",
        "0",
        "--data-dir",
        "data",
    ]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.terminate()


@pytest.mark.parametrize("broker", ["*.tar.gz", "*-py3-none-any.whl"], indirect=True)
def test_a_broker_starts(broker: subprocess.Popen[str]) -> None:
    assert broker.stdout is not None
    line = broker.stdout.readline()
    found = READY.fullmatch(line)
    assert found, line
    for path, beginning in (
        ("", b"<!doctype html>"),
        ("/app.js", b"// @ts-check"),
        ("/lib/api.js", b"// @ts-check"),
    ):
        with urllib.request.urlopen(f"{found[1]}/console{path}", timeout=60) as answer:
            assert answer.read().startswith(beginning), path
