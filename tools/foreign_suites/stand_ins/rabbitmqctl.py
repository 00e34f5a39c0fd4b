"""The commands of rabbitmqctl that suites use, done by EmberMQ's HTTP API at 127.0.0.1:15672.

Options as RabbitMQ's program takes them: `-n NODE` (of no meaning here), `-p VHOST`, `-q`.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

API = "http://127.0.0.1:15672/api"
LOGIN = base64.b64encode(b"guest:guest").decode()


def call(method: str, *path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        "/".join([API, *(urllib.parse.quote(part, safe="") for part in path)]),
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": f"Basic {LOGIN}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        content = response.read()
    return json.loads(content) if content else None


def control(line: str) -> None:
    """Ask the program that holds the broker."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["CONTROL"])
        connection.sendall(line.encode() + b"\n")
        connection.recv(100)


def listing(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Lines with tabs between the columns, as scripts expect them."""
    for row in rows:
        print("\t".join(str(row.get(column, "")) for column in columns))


def run(given: argparse.Namespace) -> None:
    names, vhost, queue_type = given.names, given.vhost, given.default_queue_type
    match given.command:
        case "add_vhost":
            call("PUT", "vhosts", names[0], body={"default_queue_type": queue_type} if queue_type else {})
        case "delete_vhost":
            call("DELETE", "vhosts", names[0])
        case "add_user":
            if any(user["name"] == names[0] for user in call("GET", "users")):
                raise SystemExit(f'Error: User "{names[0]}" already exists')
            call("PUT", "users", names[0], body={"password": names[1], "tags": ""})
        case "delete_user":
            call("DELETE", "users", names[0])
        case "set_user_tags":
            user = call("GET", "users", names[0])
            call("PUT", "users", names[0], body={**user, "tags": ",".join(names[1:])})
        case "set_permissions":
            rights = dict(zip(("configure", "write", "read"), names[1:], strict=True))
            call("PUT", "permissions", vhost, names[0], body=rights)
        case "set_topic_permissions":
            rights = dict(zip(("exchange", "write", "read"), names[1:], strict=True))
            call("PUT", "topic-permissions", vhost, names[0], body=rights)
        case "clear_topic_permissions":
            call("DELETE", "topic-permissions", vhost, names[0])
        case "clear_permissions":
            call("DELETE", "permissions", vhost, names[0])
        case "set_policy":
            policy = {"pattern": names[1], "definition": json.loads(names[2])}
            policy |= {"priority": given.priority, "apply-to": given.apply_to}
            call("PUT", "policies", vhost, names[0], body=policy)
        case "clear_policy":
            call("DELETE", "policies", vhost, names[0])
        case "set_parameter":
            call("PUT", "parameters", names[0], vhost, names[1], body={"value": json.loads(names[2])})
        case "clear_parameter":
            call("DELETE", "parameters", names[0], vhost, names[1])
        case "list_connections":
            rows = [{**row, "pid": row["name"]} for row in call("GET", "connections")]
            listing(rows, names or ["user", "peer_host", "peer_port", "state"])
        case "list_queues":
            listing(call("GET", "queues", vhost), names or ["name", "messages"])
        case "list_bindings":
            columns = names or ["source", "destination", "destination_type", "routing_key"]
            listing(call("GET", "bindings", vhost), columns)
        case "close_connection":
            call("DELETE", "connections", names[0])
        case "close_all_connections":
            for connection in call("GET", "connections"):
                call("DELETE", "connections", connection["name"])
        case "trace_on" | "trace_off":
            call("PUT", "vhosts", vhost, body={"tracing": given.command == "trace_on"})
        case "set_vm_memory_high_watermark":
            control(f"set memory_high_watermark {max(float(names[0]), 0.001):.6f}")
        case "delete_queue":
            call("DELETE", "queues", vhost, names[0])
        case "status" | "await_startup":
            print(f"EmberMQ {call('GET', 'overview')['product_version']}")
        case _:
            raise SystemExit(f"this stand-in for rabbitmqctl does not know {given.command!r}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="rabbitmqctl")
    parser.add_argument("-n", "--node")
    parser.add_argument("-p", "--vhost", default="/")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("--no-table-headers", action="store_true")
    parser.add_argument("--default-queue-type")
    parser.add_argument("--apply-to", default="all")
    parser.add_argument("--priority", type=int, default=0)
    parser.add_argument("words", nargs="*")
    given = parser.parse_intermixed_args()
    if not given.words:  # suites look into this for the commands that there are
        sys.exit("usage: rabbitmqctl COMMAND ..., such as set_permissions, set_topic_permissions, set_policy")
    given.command, *given.names = given.words
    try:
        run(given)
    except urllib.error.HTTPError as error:
        sys.exit(f"Error: {error.code} {error.read().decode()}")


if __name__ == "__main__":
    main()
