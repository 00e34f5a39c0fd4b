"""Start a private broker, EmberMQ or RabbitMQ, for a test or a benchmark.

Both have the same face::

    with EmberBroker() as broker:            # or RabbitBroker()
        connect(broker.host, broker.port)    # guest / guest, virtual host "/"
        broker.kill()                        # SIGKILL, as a power cut would
        broker.start()                       # same ports, same data

A broker without a `data_dir` gets a temporary one, which lives until the `with` block (or the process)
ends: `stop()` followed by `start()` finds its data again. Whatever this module starts it also ends, at
the latest when the interpreter exits.
"""

from __future__ import annotations

import atexit
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from embermq.testing.ports import HeldPorts
from tools.ports import answers_handshake, free_port

RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
REPOSITORY = Path(__file__).resolve().parent.parent
START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 60.0
LOG_TAIL_BYTES_MAX = 4000


class BrokerError(Exception):
    """A broker could not be started or stopped; the text carries the end of its log."""


class Broker(ABC):
    """A broker process of our own on the loopback interface."""

    name: str
    host = "127.0.0.1"

    def __init__(self, data_dir: str | os.PathLike[str] | None) -> None:
        self._temporary = data_dir is None
        self.data_dir = Path(tempfile.mkdtemp(prefix=f"{self.name}-") if data_dir is None else data_dir)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.port = 0
        self.http_port = 0
        self.start_seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._held = HeldPorts()
        atexit.register(self.close)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host}:{self.port}/%2f"

    @property
    def http_url(self) -> str:
        return f"http://{self.host}:{self.http_port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerError(f"{self.name} is not running")
        return self._process

    @property
    def pid(self) -> int:
        """The process that does the work (never a shell around it)."""
        return self.process.pid

    @property
    def log_path(self) -> Path:
        """Everything the process wrote to its standard error (RabbitMQ: both streams)."""
        # Beside the data, not among it: a data directory with strangers in it is refused.
        return self.data_dir.with_name(f"{self.data_dir.name}.{self.name}-output")

    @abstractmethod
    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the process without waiting for it."""

    @abstractmethod
    def _wait_ready(self, deadline: float) -> None:
        """Return once clients are welcome; raise BrokerError when that will not happen."""

    def start(self) -> Self:
        """Start and wait until an AMQP handshake is answered; `start_seconds` says how long that took."""
        if self._process is not None:
            raise BrokerError(f"{self.name} is running already")
        began = time.monotonic()
        with self.log_path.open("ab") as log:
            self._process = self._spawn(log)
        try:
            self._wait_ready(began + START_SECONDS_MAX)
        except BaseException:
            self.kill()
            raise
        self._held.release()
        self.start_seconds = time.monotonic() - began
        return self

    def stop(self) -> int:
        """Ask the broker to end, wait for it, and return its exit code (0 when it was not running)."""
        if self._process is None:
            return 0
        process = self._process
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.failure(f"did not stop within {STOP_SECONDS_MAX:.0f} s of SIGTERM") from None
        self._forget()
        return code

    def kill(self) -> None:
        """SIGKILL: no goodbye, nothing flushed."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._forget()

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def close(self) -> None:
        """End the process if it still runs and remove the temporary data directory."""
        self.kill()
        self._held.release()
        atexit.unregister(self.close)
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)
            self.log_path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self.close()

    def _forget(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None
        self._held.hold(self.host, self.port, self.http_port)

    def cpu_seconds(self) -> float:
        """User and system time of the process, all its threads."""
        # The name (field 2) may hold spaces and parentheses: count from the last parenthesis on.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        """Resident memory of the process."""
        resident_pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return resident_pages * os.sysconf("SC_PAGE_SIZE")

    def log_tail(self) -> str:
        try:
            return self.log_path.read_bytes()[-LOG_TAIL_BYTES_MAX:].decode(errors="replace")
        except FileNotFoundError:
            return ""

    def failure(self, what: str) -> BrokerError:
        return BrokerError(f"{self.name} {what}\n--- end of {self.log_path} ---\n{self.log_tail()}")


class EmberBroker(Broker):
    """EmberMQ, by its command line. `max_message_size=1` among the options is `--max-message-size 1`."""

    name = "embermq"
    _PATIENCE = {"EMBERMQ_AUTH_FAILURES_FREE": "10000", "EMBERMQ_AUTH_REFUSAL_PAUSE_S": "0.5"}
    _READY = re.compile(rb"EmberMQ (\S+) ready: amqp://([^:\s]+):(\d+)(?: http://[^:\s]+:(\d+))?")

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        **options: str | float | bool,
    ) -> None:
        super().__init__(data_dir)
        self.version = ""
        self._env = dict(env or {})
        self._options = options

    def command(self) -> list[str]:
        script = Path(sys.executable).parent / "embermq"
        program = [str(script)] if script.exists() else [sys.executable, "-m", "embermq"]
        # The first start lets the system choose the ports; later ones keep them, so that clients find us.
        ports = ["--amqp-port", str(self.port), "--http-port", str(self.http_port)]
        command = [*program, "serve", "--bind", self.host, *ports, "--data-dir", str(self.data_dir)]
        for option, value in self._options.items():
            flag = "--" + option.replace("_", "-")
            if value is True:
                command.append(flag)
            elif value is not False:
                command += [flag, str(value)]
        return command

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**self._PATIENCE, **os.environ, "PYTHONUNBUFFERED": "1", **self._env},
            cwd=REPOSITORY,
        )

    def _wait_ready(self, deadline: float) -> None:
        process = self.process
        assert process.stdout is not None
        # The line comes in one piece, so that readline does not wait once the pipe is readable.
        if select.select([process.stdout], [], [], deadline - time.monotonic())[0]:
            line = process.stdout.readline()
        else:
            line = b""
        ready = self._READY.match(line)
        if ready is None:
            process.kill()
            raise self.failure(f"did not get ready (exit code {process.wait()}, it said {line!r})")
        self.version = ready[1].decode()
        self.port = int(ready[3])
        self.http_port = int(ready[4] or 0)
        if not answers_handshake(self.host, self.port):
            raise self.failure("said that it is ready but answers no AMQP handshake")


class RabbitBroker(Broker):
    """Debian's RabbitMQ as a private node: own name, ports, directories, cookie and epmd.

    `conf` goes into rabbitmq.conf as it is, e.g. `{"max_message_size": 1000}`; the management plugin, which
    costs memory and CPU, runs only with `management=True`; `plugins` names further ones.
    """

    name = "rabbitmq"

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        management: bool = False,
        plugins: Sequence[str] = (),
        conf: Mapping[str, str | int] | None = None,
        max_message_size: int | None = None,
    ) -> None:
        if not self.installed():
            raise BrokerError(
                f"{RABBITMQ_SERVER} is missing: install it with `apt-get install rabbitmq-server`"
            )
        super().__init__(data_dir)
        self.port = free_port()
        self.http_port = free_port() if management else 0
        self._dist_port = free_port()
        self._epmd_port = free_port()
        self._conf: dict[str, str | int] = {"loopback_users": "none", **(conf or {})}
        if max_message_size is not None:
            self._conf["max_message_size"] = max_message_size
        self._management = management
        self._plugins = ["rabbitmq_management"] * management + list(plugins)

    @staticmethod
    def installed() -> bool:
        return RABBITMQ_SERVER.exists()

    @property
    def version(self) -> str:
        release = re.search(r"rabbitmq_server-([\d.]+)", str(RABBITMQ_SERVER.resolve()))
        return release[1] if release else "unknown"

    def environment(self) -> dict[str, str]:
        """What rabbitmqctl, too, needs to find this node."""
        home = self.data_dir
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RABBITMQ_", "ERL_")) and name != "NOTIFY_SOCKET"
        }
        return inherited | {
            "HOME": str(home),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": self.host,
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": self.host,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_CONF_ENV_FILE": str(home / "no-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(home / "generated"),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_PID_FILE": str(home / "rabbitmq.pid"),
            # With this the script executes erl in its own place, so that our child is the beam itself.
            "detached": "1",
        }

    def _write_configuration(self) -> None:
        web = {"management.tcp.port": self.http_port, "management.tcp.ip": self.host}
        conf = {**self._conf, **(web if self._management else {})}
        (self.data_dir / "rabbitmq.conf").write_text(
            "".join(f"{key} = {value}\n" for key, value in conf.items())
        )
        (self.data_dir / "enabled_plugins").write_text(f"[{','.join(self._plugins)}].\n")
        cookie = self.data_dir / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(f"EMBERMQ{self.port}")
            cookie.chmod(0o400)

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        self._write_configuration()
        return subprocess.Popen(
            [str(RABBITMQ_SERVER)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self.environment(),
            cwd=self.data_dir,
            start_new_session=True,
        )

    def _wait_ready(self, deadline: float) -> None:
        while not answers_handshake(self.host, self.port):
            code = self.process.poll()
            if code is not None:
                raise self.failure(f"ended while starting (exit code {code})")
            if time.monotonic() > deadline:
                raise self.failure(f"answered no AMQP handshake within {START_SECONDS_MAX:.0f} s")
            time.sleep(0.05)

    def control(self, *arguments: str) -> str:
        """The output of `rabbitmqctl` for this node."""
        done = subprocess.run(
            [
                str(RABBITMQ_SERVER.with_name("rabbitmqctl")),
                "--node",
                f"bench{self.port}@localhost",
                *arguments,
            ],
            env={name: value for name, value in self.environment().items() if name != "detached"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerError(f"rabbitmqctl {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _forget(self) -> None:
        super()._forget()
        # The epmd listens on a port that only this node knows, so nobody else can be using it. It refuses to
        # end while it still thinks the node is alive, which after a SIGKILL takes it a moment to notice.
        for _ in range(20):
            done = subprocess.run(
                ["epmd", "-port", str(self._epmd_port), "-kill"],
                env=self.environment(),
                capture_output=True,
                check=False,
            )
            if b"Killed" in done.stdout or b"Cannot connect" in done.stdout + done.stderr:
                return
            time.sleep(0.05)
