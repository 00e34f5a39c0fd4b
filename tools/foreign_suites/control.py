"""A socket by which programs of a suite stop and start the broker, or change a setting of EmberMQ's.

One line in, one line out: `stop`, `start`, `set NAME VALUE` (written to the configuration file, which the
broker is told to read again).
"""

from __future__ import annotations

import os
import signal
import socketserver
from pathlib import Path
from typing import cast

from tools.brokers import Broker


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
        os.kill(self.broker.pid, signal.SIGHUP)


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
