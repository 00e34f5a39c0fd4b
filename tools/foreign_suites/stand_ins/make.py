"""In place of make in the Java client's tests, which stop brokers and raise alarms by RabbitMQ's makefile."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

RABBITMQ_ALARM = "rabbit_alarm:%s_alarm(%s)."
# What raises and what ends an alarm in EmberMQ.
SETTINGS = {
    "memory": ("memory_high_watermark", "0.000001", "0.4"),
    "disk": ("disk_free_limit", str(2**60), "1000000"),
}


def control(line: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["CONTROL"])
        connection.sendall(line.encode() + b"\n")
        answer = connection.recv(100)
    if answer != b"done\n":
        sys.exit(f"{line}: {answer!r}")


def alarm(source: str, raised: bool) -> None:
    if os.environ["BROKER"] == "rabbitmq":
        resource = f"{{resource_limit, {source}, node()}}"
        term = RABBITMQ_ALARM % (("set", f"{{{resource}, []}}") if raised else ("clear", resource))
        subprocess.run(["rabbitmqctl", "eval", term], check=True)
    else:
        name, high, normal = SETTINGS[source]
        control(f"set {name} {high if raised else normal}")


def main() -> None:
    words = sys.argv[1:]
    variables = dict(word.split("=", 1) for word in words if "=" in word)
    for target in (word for word in words if "=" not in word):
        if target == "stop-rabbit-on-node":
            control("stop")
        elif target == "start-rabbit-on-node":
            control("start")
        elif target == "set-resource-alarm":
            alarm(variables["SOURCE"], raised=True)
        elif target == "clear-resource-alarm":
            alarm(variables["SOURCE"], raised=False)
        elif target == "--version":
            print("GNU Make (a stand-in)")


if __name__ == "__main__":
    main()
