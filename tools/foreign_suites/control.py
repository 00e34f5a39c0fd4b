"""A socket by which programs of a suite stop and start the broker, or change a setting of EmberMQ's.

One line in, one line out: `stop`, `start`, `set NAME VALUE` (written to the configuration file, which the
broker is told to read again).
"""

from __future__ import annotations

import os
import signal
import socketserver
import time
from pathlib import Path
from typing import cast

from tools.brokers import Broker

READ_SECONDS_MAX = 20.0


class Control(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, broker: Broker, configuration: Path) -> None:
        super().__init__(str(path), Command)
        self.broker = broker
        self.configuration = configuration
        self.settings: dict[str, str] = {}
        self.sections = configuration.read_text() if configuration.exists() else ""

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value
        plain = "".join(f"{name} = {value}\n" for name, value in self.settings.items())
        self.configuration.write_text(plain + self.sections)
        read_before = self.times_read()
        os.kill(self.broker.pid, signal.SIGHUP)
        deadline = time.monotonic() + READ_SECONDS_MAX
        while self.times_read() == read_before and time.monotonic() < deadline:
            time.sleep(0.02)

    def times_read(self) -> int:
        """How often the broker has said that it took over its settings."""
        return self.broker.log_path.read_bytes().count(b"settings read anew")


class Command(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = cast(Control, self.server)
        words = self.rfile.readline().decode().split()
        match words:
            case ["stop"]:
                server.broker.stop()
            case ["start"]:
                server.broker.start()
            case ["set", name, value]:
                server.set(name, value)
            case _:
                self.wfile.write(b"unknown\n")
                return
        self.wfile.write(b"done\n")
