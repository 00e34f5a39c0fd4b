"""`embermq top`: the broker as a live screen, redrawn every second or two until q or Ctrl-C."""

from __future__ import annotations

import argparse
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from embermq.cli.api import Api
from embermq.cli.command.overview import gathered
from embermq.cli.commands import Commands, add_command, argument
from embermq.cli.errors import USAGE_ERROR, CommandFailed
from embermq.cli.output import Output, shown, size, value_of
from embermq.cli.parser import SECONDS

if TYPE_CHECKING:
    from rich.console import RenderableType

SORTS = {
    "m": ("messages", "messages"),
    "i": ("in", "message_stats.publish_details.rate"),
    "o": ("out", "message_stats.deliver_get_details.rate"),
    "c": ("consumers", "consumers"),
    "n": ("name", "name"),
}


def add_top(commands: Commands) -> None:
    add_command(
        commands,
        "top",
        top,
        "a live screen of the broker: totals, rates, and the busiest queues",
        argument("--interval", metavar="S", type=SECONDS, default=2.0, help="seconds between two looks (2)"),
        argument(
            "--sort", choices=[name for name, _ in SORTS.values()], default="messages", help="queues by"
        ),
        argument("--once", action="store_true", help="print one screen and end"),
    )


def top(api: Api, output: Output, options: argparse.Namespace) -> None:
    sort = next(key for key, (name, _) in SORTS.items() if name == options.sort)
    if output.as_json or options.once:
        console = output.console(width=100)
        if output.as_json:
            output.json(looked(api, sort, 1000))
        else:
            console.print(screen(looked(api, sort, 20), sort, live=False))
        return
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise CommandFailed("top needs a terminal; --once or --json do not", USAGE_ERROR)
    watch(api, output, options.interval, sort)


def watch(api: Api, output: Output, interval_s: float, sort: str) -> None:
    from rich.live import Live

    console = output.console()
    with keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            rows = max(console.size.height - 12, 3)
            live.update(screen(looked(api, sort, rows), sort, live=True), refresh=True)
            deadline = time.monotonic() + max(interval_s, 0.2)
            while (left_s := deadline - time.monotonic()) > 0:
                key = pressed(left_s)
                if key in ("q", "\x03"):
                    return
                if key in SORTS:
                    sort = key
                    break


@contextmanager
def keys() -> Iterator[Any]:
    """Keys as they are pressed; the terminal as it was afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)

    def pressed(timeout_s: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], timeout_s)
        return sys.stdin.read(1) if ready else ""

    try:
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def looked(api: Api, sort: str, rows: int) -> dict[str, Any]:
    """One look: bounded, whatever the number of queues."""
    found = gathered(api, api.get("/api/overview"))
    _, field = SORTS[sort]
    answer = api.get(
        "/api/queues",
        page=1,
        page_size=min(rows, 500),
        sort=field,
        sort_reverse=None if sort == "n" else "true",
    )
    found["queues"] = answer["items"]
    found["queue_count"] = answer["total_count"]
    return found


def screen(found: dict[str, Any], sort: str, *, live: bool) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    overview, node = found["overview"], found["node"]

    def number(field: str) -> str:
        return shown(value_of(overview, field) or 0)

    head = Table.grid(padding=(0, 3))
    head.add_row(
        Text(f"{overview['product_name']} {overview['product_version']}", style="bold"),
        f"memory {size(node.get('mem_used'))}",
        f"free disk {size(node.get('disk_free'))}",
        Text(f"ALARM: {', '.join(found['alarms'])}", style="bold red")
        if found["alarms"]
        else Text("no alarm", "green"),
    )
    head.add_row(
        f"connections {number('object_totals.connections')}",
        f"channels {number('object_totals.channels')}",
        f"consumers {number('object_totals.consumers')}",
        f"queues {number('object_totals.queues')}",
    )
    head.add_row(
        f"ready {number('queue_totals.messages_ready')}",
        f"unacked {number('queue_totals.messages_unacknowledged')}",
        f"in/s {number('message_stats.publish_details.rate')}",
        f"out/s {number('message_stats.deliver_get_details.rate')}",
    )
    queues = Table(box=box.SIMPLE_HEAD, expand=True)
    queues.add_column("queue", ratio=1, no_wrap=True, overflow="ellipsis")
    for title in ("ready", "unacked", "consumers", "in/s", "out/s", "ack/s"):
        queues.add_column(title, justify="right", no_wrap=True)
    for row in found["queues"]:
        name = row["name"] if row["vhost"] == "/" else f"{row['vhost']}/{row['name']}"
        fields = (
            "messages_ready",
            "messages_unacknowledged",
            "consumers",
            "message_stats.publish_details.rate",
            "message_stats.deliver_get_details.rate",
            "message_stats.ack_details.rate",
        )
        queues.add_row(Text(shown(name)), *(shown(value_of(row, field) or 0) for field in fields))
    order = ", ".join(f"{key} {name}" for key, (name, _) in SORTS.items())
    keys_told = f"; press {order}, q to end" if live else ""
    foot = Text(f"sorted by {SORTS[sort][0]}{keys_told}", style="dim")
    return Group(head, queues, foot)
