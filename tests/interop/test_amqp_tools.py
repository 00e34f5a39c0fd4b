"""Debian's amqp-tools, which is librabbitmq in C: five small programs and a shell's view of a broker."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tools.brokers import Broker

pytestmark = pytest.mark.skipif(shutil.which("amqp-publish") is None, reason="amqp-tools is not installed")


class Tools:
    """Runs one of the programs against the broker and returns what it printed."""

    def __init__(self, broker: Broker) -> None:
        self.url = broker.url

    def run(self, tool: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [f"amqp-{tool}", f"--url={self.url}", *arguments], input=stdin, capture_output=True, timeout=60
        )

    def __call__(self, tool: str, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.run(tool, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def amqp(broker: Broker) -> Tools:
    return Tools(broker)


def test_declare_publish_get_delete(amqp: Tools, queue_name: str) -> None:
    assert amqp("declare-queue", f"--queue={queue_name}").decode().strip() == queue_name
    amqp("publish", f"--routing-key={queue_name}", "--body=hello")
    assert amqp("get", f"--queue={queue_name}") == b"hello"
    assert amqp.run("get", f"--queue={queue_name}").returncode == 2  # the tool's word for "empty"
    amqp("publish", f"--routing-key={queue_name}", "--body=left over")
    assert amqp("delete-queue", f"--queue={queue_name}").strip() == b"1"


def test_server_names_the_queue(amqp: Tools) -> None:
    name = amqp("declare-queue", "--queue=").decode().strip()
    assert name.startswith("amq.gen-")
    assert amqp("delete-queue", f"--queue={name}", "--if-empty", "--if-unused").strip() == b"0"


def test_persistent_message_with_properties_from_stdin(amqp: Tools, queue_name: str) -> None:
    body = bytes(range(256)) * 2000
    amqp("declare-queue", f"--queue={queue_name}", "--durable")
    amqp(
        "publish",
        f"--routing-key={queue_name}",
        "--persistent",
        "--content-type=application/octet-stream",
        "--content-encoding=identity",
        "--header=origin: shell",
        "--reply-to=nobody",
        stdin=body,
    )
    assert amqp("get", f"--queue={queue_name}") == body
    amqp("delete-queue", f"--queue={queue_name}")


def test_consume_runs_a_program_per_message(amqp: Tools, queue_name: str) -> None:
    amqp("declare-queue", f"--queue={queue_name}")
    for body in ("one", "two", "three"):
        amqp("publish", f"--routing-key={queue_name}", f"--body={body}\n")
    output = amqp("consume", f"--queue={queue_name}", "--count=3", "--prefetch-count=1", "cat")
    assert output == b"one\ntwo\nthree\n"
    # The program's exit code acknowledged them all.
    assert amqp("delete-queue", f"--queue={queue_name}").strip() == b"0"


def test_failing_consumer_leaves_the_message(amqp: Tools, queue_name: str) -> None:
    amqp("declare-queue", f"--queue={queue_name}")
    amqp("publish", f"--routing-key={queue_name}", "--body=stubborn")
    amqp.run("consume", f"--queue={queue_name}", "--count=1", "false")
    assert amqp("get", f"--queue={queue_name}") == b"stubborn"
    amqp("delete-queue", f"--queue={queue_name}")


def test_consume_bound_to_an_exchange(amqp: Tools, queue_name: str) -> None:
    command = ["amqp-consume", f"--url={amqp.url}", f"--queue={queue_name}", "--declare", "--exclusive"]
    binding = ["--exchange=amq.topic", "--routing-key=shell.#", "--count=2"]
    with subprocess.Popen([*command, *binding, "cat"], stdout=subprocess.PIPE) as consumer:
        try:
            # The tool does not say when its binding stands, so feed it until it has had its two.
            while consumer.poll() is None:
                amqp("publish", "--exchange=amq.topic", "--routing-key=shell.line", "--body=x")
            assert consumer.stdout is not None
            assert consumer.stdout.read() == b"xx"
        finally:
            consumer.kill()


def test_line_buffered_publish(amqp: Tools, queue_name: str) -> None:
    amqp("declare-queue", f"--queue={queue_name}")
    amqp("publish", f"--routing-key={queue_name}", "--line-buffered", stdin=b"1\n2\n3\n")
    got = [amqp("get", f"--queue={queue_name}").rstrip(b"\n") for _ in range(3)]
    assert got == [b"1", b"2", b"3"]
    amqp("delete-queue", f"--queue={queue_name}")


def test_wrong_password(amqp: Tools, queue_name: str) -> None:
    amqp.url = amqp.url.replace("guest:guest", "guest:wrong")
    done = amqp.run("declare-queue", f"--queue={queue_name}")
    assert done.returncode != 0
    assert b"ACCESS_REFUSED" in done.stderr


def test_unknown_vhost(amqp: Tools, queue_name: str) -> None:
    amqp.url = amqp.url.replace("%2f", "nowhere")
    done = amqp.run("declare-queue", f"--queue={queue_name}")
    assert done.returncode != 0
    assert b"530" in done.stderr


def test_getting_from_a_missing_queue(amqp: Tools, queue_name: str) -> None:
    done = amqp.run("get", f"--queue={queue_name}")
    assert done.returncode not in (0, 2)
    assert f"NOT_FOUND - no queue '{queue_name}' in vhost '/'".encode() in done.stderr
