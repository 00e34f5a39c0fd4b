"""The examples of docs/clients.md, run as a reader would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.brokers import Broker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
EXAMPLES = dict(
    re.findall(r"^## (\S+)\n[^#]*?^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
)


def test_the_page_has_its_examples() -> None:
    assert set(EXAMPLES) == {"pika", "aio-pika", "Celery"}


@pytest.fixture
def environment(broker: Broker) -> dict[str, str]:
    return os.environ | {"AMQP_URL": broker.url, "C_FORCE_ROOT": "yes"}


@pytest.fixture
def celery_worker(tmp_path: Path, environment: dict[str, str]) -> Iterator[None]:
    """The other terminal of the Celery example."""
    (tmp_path / "greetings.py").write_text(EXAMPLES["Celery"])
    command = [sys.executable, "-m", "celery", "-A", "greetings", "worker", "-P", "solo", "-l", "ERROR"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as worker:
        yield
        worker.terminate()


@pytest.mark.parametrize("client", EXAMPLES)
def test_example(
    request: pytest.FixtureRequest, tmp_path: Path, environment: dict[str, str], client: str
) -> None:
    if client == "Celery":
        request.getfixturevalue("celery_worker")
    (tmp_path / "greetings.py").write_text(EXAMPLES[client])
    command = [sys.executable, "greetings.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert f"hello from {client}" in done.stdout
