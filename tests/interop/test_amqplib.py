"""amqplib for Node: the scenarios live in node/scenarios.js, each is one test here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.brokers import Broker

NODE = Path(__file__).parent / "node"
SCENARIOS = re.findall(r"^scenario\('([^']+)'", (NODE / "scenarios.js").read_text(), re.MULTILINE)


@pytest.fixture(scope="session")
def amqplib() -> Path:
    """The directory with amqplib in it; installed now, as the lock file says, when it is missing."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    if not (NODE / "node_modules" / "amqplib").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=NODE, check=True)
    return NODE


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_amqplib(broker: Broker, amqplib: Path, scenario: str) -> None:
    done = subprocess.run(
        ["node", "scenarios.js", scenario, broker.url],
        cwd=amqplib,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
