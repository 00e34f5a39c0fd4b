"""One suite against one broker, inside a private network: `python -m tools.foreign_suites.inside`.

The broker listens on the ports that everybody expects. A program `rabbitmqctl` stands first on the path: for
RabbitMQ it is RabbitMQ's, for EmberMQ a stand-in that does the few things that suites ask of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tools.brokers import REPOSITORY, Broker, BrokerError, EmberBroker, RabbitBroker
from tools.foreign_suites import results
from tools.foreign_suites.control import Control
from tools.foreign_suites.sources import BUILD
from tools.foreign_suites.suite import PYTHON, STAND_INS, Choice, Suite
from tools.foreign_suites.table import SUITES

AMQP_PORT, TLS_PORT, HTTP_PORT = 5672, 5671, 15672
NODE_NAMES = {"rabbitmq": f"bench{AMQP_PORT}@localhost", "embermq": "embermq"}
RABBITMQ_PLUGINS = ["rabbitmq_consistent_hash_exchange"]


def rabbitmq_for(suite: Suite) -> RabbitBroker:
    conf: dict[str, str | int] = {}
    if suite.certificates is not None:
        conf = {
            "listeners.ssl.default": TLS_PORT,
            "ssl_options.cacertfile": str(suite.folder / suite.certificates.authority),
            "ssl_options.certfile": str(suite.folder / suite.certificates.certificate),
            "ssl_options.keyfile": str(suite.folder / suite.certificates.key),
            "ssl_options.verify": "verify_peer",
            "ssl_options.fail_if_no_peer_cert": "false",
        }
    return RabbitBroker(management=True, plugins=RABBITMQ_PLUGINS, conf=conf)


def embermq_for(suite: Suite, configuration: Path) -> EmberBroker:
    lines: list[str] = []
    if suite.certificates is not None:
        lines = [
            "[tls]",
            f'certificate = "{suite.folder / suite.certificates.certificate}"',
            f'key = "{suite.folder / suite.certificates.key}"',
            f'authorities = "{suite.folder / suite.certificates.authority}"',
            'client_certificates = "optional"',
        ]
    configuration.write_text("\n".join(lines) + "\n")
    return EmberBroker(config=str(configuration))


def write_rabbitmqctl(broker: Broker, folder: Path) -> None:
    """The program of this name that the suite and its setting up find."""
    program = folder / "rabbitmqctl"
    if isinstance(broker, RabbitBroker):
        settings = "".join(
            f"export {name}='{value}'\n"
            for name, value in broker.environment().items()
            if name.startswith(("RABBITMQ_", "ERL_", "HOME"))
        )
        # Suites were written for releases that printed no line with the names of the columns.
        program.write_text(
            f"#!/bin/sh\n{settings}"
            'case "$*" in *list_*) set -- "$@" --no-table-headers ;; esac\n'
            'exec /usr/lib/rabbitmq/bin/rabbitmqctl --node "$RABBITMQ_NODENAME" "$@"\n'
        )
    else:
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_INS / "rabbitmqctl.py"}" "$@"\n')
    program.chmod(0o755)


def chosen_tests(suite: Suite, choice: Choice) -> str:
    listed = subprocess.run(
        ["bash", "-eu", "-c", suite.tests], cwd=suite.folder, check=True, capture_output=True, text=True
    )
    return " ".join(choice.of(listed.stdout.split()))


def run(suite: Suite, broker: Broker, programs: Path, choice: Choice) -> tuple[str, Path]:
    report = BUILD / "results" / f"{suite.name}.{broker.name}.report"
    report.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "REPORT": str(report),
        "TESTS": chosen_tests(suite, choice) if suite.tests else "",
        "PYTHON": str(PYTHON),
        "STAND_INS": str(STAND_INS),
        "BUILD": str(BUILD),
        "BROKER": broker.name,
        "CONTROL": str(programs / "control"),
        "RABBITMQ_NODENAME": NODE_NAMES[broker.name],
        "PATH": f"{programs}:{os.environ['PATH']}",
        "RABBITMQ_RABBITMQCTL_PATH": str(programs / "rabbitmqctl"),
        "AMQP_URL": "amqp://guest:guest@127.0.0.1:5672/%2f",
        **suite.environment,
    }
    environment.pop("PYTHONPATH", None)
    if suite.setting_up:
        subprocess.run(["bash", "-eu", "-c", suite.setting_up], cwd=suite.folder, env=environment, check=True)
    output = report.with_suffix(".output")
    with output.open("wb") as sink:
        process = subprocess.Popen(
            ["bash", "-c", suite.command],
            cwd=suite.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(suite.minutes_max * 60)
        except subprocess.TimeoutExpired:
            print(f"{suite.name} did not end within {suite.minutes_max} minutes", file=sys.stderr)
        finally:
            end_session(process)
    return output.read_text(errors="replace"), report


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Whatever the suite started goes with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def main(suite_name: str, broker_name: str, part: str, only: str) -> None:
    suite, choice = SUITES[suite_name], Choice.parse(part, only)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    results.RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="foreign-") as temporary:
        folder = Path(temporary)
        broker: Broker
        if broker_name == "rabbitmq":
            broker = rabbitmq_for(suite)
        else:
            broker = embermq_for(suite, folder / "embermq.toml")
        broker.port, broker.http_port = AMQP_PORT, HTTP_PORT
        with broker:
            write_rabbitmqctl(broker, folder)
            with Control(folder / "control", broker, folder / "embermq.toml") as control:
                threading.Thread(target=control.serve_forever, daemon=True).start()
                output, report = run(suite, broker, folder, choice)
                control.shutdown()
            if not broker_lives(broker):
                print(f"{broker.name} did not outlive {suite.name}:\n{broker.log_tail()}", file=sys.stderr)
    outcomes = suite.read(report, output)
    if not choice.is_all:
        outcomes = {**(results.load(suite.name, broker_name) or {}), **outcomes}
    results.save(suite.name, broker_name, outcomes)


def broker_lives(broker: Broker) -> bool:
    try:
        return broker.process.poll() is None
    except BrokerError:  # the suite stopped it, and did not start it again
        return False


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(f"ended by signal {number}"))
    os.chdir(REPOSITORY)
    main(*sys.argv[1:])
