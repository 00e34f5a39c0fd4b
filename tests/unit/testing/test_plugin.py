"""The pytest plugin in real runs of pytest, alone and with pytest-xdist; the tests of docs/testing.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
REGISTERED = any(entry.value == "embermq.testing.plugin" for entry in entry_points(group="pytest11"))

# Each test is a run of pytest that imports whole frameworks, two or three at once with xdist.
pytestmark = pytest.mark.timeout(300)


def run(directory: Path, program: str, *flags: str, found_by_pytest: bool = False) -> str:
    """What a run of this test file prints; with our plugin alone unless pytest shall look for it."""
    (directory / "test_it.py").write_text(program)
    plugin = [] if found_by_pytest and REGISTERED else ["-p", "embermq.testing.plugin"]
    environment = {} if found_by_pytest else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *flags, "test_it.py"],
        cwd=directory,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout + done.stderr


SHARED = """
import pika

def publish(url):
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        count = channel.queue_declare("q").method.message_count
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"one")
        return count

"""


def test_every_test_has_a_world_of_its_own(tmp_path: Path) -> None:
    tests = "".join(f"def test_{n}(amqp_url): assert publish(amqp_url) == 0\n" for n in range(4))
    gone = """
def test_the_worlds_before_are_gone(amqp_broker, amqp_vhost):
    assert amqp_broker.queues() == [] and amqp_broker.queues(amqp_vhost) == []
"""
    assert "5 passed" in run(tmp_path, SHARED + tests + gone, found_by_pytest=True)


def test_with_xdist_each_worker_has_a_broker(tmp_path: Path) -> None:
    tests = "".join(f"def test_{n}(amqp_url): assert publish(amqp_url) == 0\n" for n in range(6))
    assert "6 passed" in run(tmp_path, SHARED + tests, "-p", "xdist", "-n", "2")


def test_settings_can_be_overridden(tmp_path: Path) -> None:
    program = """
import pytest
@pytest.fixture(scope="session")
def amqp_broker_settings():
    return {"persistent": True}

def test_it(amqp_broker):
    assert amqp_broker.temporary_dir.exists()
"""
    assert "1 passed" in run(tmp_path, program)


def test_a_stopped_broker_is_started_for_the_next_test(tmp_path: Path) -> None:
    program = """
def test_stop(amqp_broker, amqp_url):
    amqp_broker.stop()

def test_next(amqp_broker, amqp_vhost):
    assert amqp_broker.queues(amqp_vhost) == []
"""
    assert "2 passed" in run(tmp_path, program)


def test_loading_the_plugin_imports_no_broker(tmp_path: Path) -> None:
    program = """
import sys
def test_it():
    assert "embermq.app" not in sys.modules
"""
    assert "1 passed" in run(tmp_path, program)


EXAMPLES = re.findall(r"^```python test\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_pages_examples_pass(number: int, tmp_path: Path) -> None:
    output = run(tmp_path, EXAMPLES[number])
    assert "1 passed" in output, output
