"""In place of make in the Java client's tests, which stop brokers and raise alarms by RabbitMQ's makefile."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from typing import Any

RABBITMQ_ALARM = "rabbit_alarm:%s_alarm(%s)."
# What raises and what ends an alarm in EmberMQ.
SETTINGS = {
    "memory": ("memory_high_watermark", "0.001", "0.4"),
    "disk": ("disk_free_limit", str(2**60), "1000000"),
}


FLAGS = {"memory": "mem_alarm", "disk": "disk_free_alarm"}
NODES = "http://127.0.0.1:15672/api/nodes"
LOGIN = base64.b64encode(b"guest:guest").decode()


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
        while node()[FLAGS[source]] != raised:  # RabbitMQ's command, too, returns when it is so
            time.sleep(0.05)


def node() -> dict[str, Any]:
    request = urllib.request.Request(NODES, headers={"authorization": f"Basic {LOGIN}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        nodes: list[dict[str, Any]] = json.load(response)
    return nodes[0]


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
