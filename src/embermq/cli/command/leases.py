"""`embermq lease`: the open leases of queues, and how to end them."""

from __future__ import annotations

import argparse
import time
from typing import Any

from embermq.cli.api import Api, part
from embermq.cli.commands import ANY_VHOST, VHOST, Commands, Group, Run, argument
from embermq.cli.output import Column, Output


def age(row: Any) -> str:
    seconds = max(int(time.time() - row["created_ms"] / 1000), 0)
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def ends(row: Any) -> str:
    if row["expires_ms"] is None:
        return "never"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["expires_ms"] / 1000))


LEASES: list[Column] = [
    ("vhost", "vhost"),
    ("queue", "queue"),
    ("lease", "name"),
    ("messages", "count"),
    ("age", age),
    ("ends", ends),
]


def add_lease(commands: Commands) -> None:
    group = Group(commands, "lease", "leases: messages kept for a reader that decides later")
    group.command("list", list_leases, "open leases, the oldest first", ANY_VHOST)
    queue = argument("name", metavar="QUEUE", help="the queue")
    lease = argument("lease", metavar="LEASE", help="the name of the lease")
    for name, about in (
        ("release", "give the messages of a lease back to the queue"),
        ("settle", "forget the messages of a lease: they are done with"),
    ):
        group.command(name, ended(name), about, queue, lease, VHOST)


def list_leases(api: Api, output: Output, options: argparse.Namespace) -> None:
    rows = [row for row in api.get("/api/leases") if options.vhost in (None, row["vhost"])]
    output.table(sorted(rows, key=lambda row: row["created_ms"]), LEASES, "there are no open leases")


def ended(action: str) -> Run:
    past = {"release": "released", "settle": "settled"}[action]

    def run(api: Api, output: Output, options: argparse.Namespace) -> None:
        path = "/".join(part(each) for each in (options.vhost, options.name, options.lease))
        api.post(f"/api/leases/{path}/{action}", {})
        output.said(f"lease '{options.lease}' is {past}", lease=options.lease, queue=options.name)

    return run
