"""`embermq status`, `connection`, `channel`, `consumer`, `definitions`: the broker as a whole."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from embermq.cli.api import Api, part
from embermq.cli.commands import ANY_VHOST, Commands, Group, add_command, argument
from embermq.cli.errors import REFUSED, USAGE_ERROR, CommandFailed
from embermq.cli.output import Column, Output, size


def duration(milliseconds: object) -> str:
    if not isinstance(milliseconds, int):
        return ""
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (
        f"{days} d {hours} h"
        if days
        else f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {seconds} s"
    )


def of(used: object, limit: object) -> str:
    return f"{used} of {limit}" if limit else str(used or "")


def alarm_at(node: Any, value: str, limit: str, side: str) -> str:
    now, then = size(node.get(value)), size(node.get(limit))
    return f"{now} (alarm {side} {then})" if then else now


def listeners(overview: Any) -> str:
    return ", ".join(
        f"{listener['protocol']} {listener['ip_address']}:{listener['port']}"
        for listener in overview.get("listeners", [])
    )


def client_of(connection: Any) -> str:
    properties = connection.get("client_properties") or {}
    return " ".join(str(properties[name]) for name in ("product", "version") if name in properties)


def prefetch(channel: Any) -> object:
    """For each consumer, and (Celery asks for this) for all of the channel together."""
    shared = channel.get("global_prefetch_count")
    return f"{shared:,} for all" if shared else channel.get("prefetch_count")


def product(overview: Any) -> str:
    """Its name and version; of ours also whether it is compiled."""
    name = f"{overview['product_name']} {overview['product_version']}"
    return f"{name} ({overview['product_build']})" if overview.get("product_build") else name


STATUS: list[Column] = [
    ("broker", lambda row: product(row["overview"])),
    ("node", "overview.node"),
    ("up for", lambda row: duration(row["node"].get("uptime"))),
    ("memory", lambda row: alarm_at(row["node"], "mem_used", "mem_limit", "above")),
    ("free disk", lambda row: alarm_at(row["node"], "disk_free", "disk_free_limit", "below")),
    ("open files", lambda row: of(row["node"].get("fd_used"), row["node"].get("fd_total"))),
    ("alarms", lambda row: row["alarms"] or "none"),
    ("connections", "overview.object_totals.connections"),
    ("channels", "overview.object_totals.channels"),
    ("consumers", "overview.object_totals.consumers"),
    ("queues", "overview.object_totals.queues"),
    ("exchanges", "overview.object_totals.exchanges"),
    ("ready", "overview.queue_totals.messages_ready"),
    ("unacked", "overview.queue_totals.messages_unacknowledged"),
    ("published/s", "overview.message_stats.publish_details.rate"),
    ("delivered/s", "overview.message_stats.deliver_get_details.rate"),
    ("listeners", lambda row: listeners(row["overview"])),
]
CONNECTIONS: list[Column] = [
    ("name", "name"),
    ("user", "user"),
    ("vhost", "vhost"),
    ("state", "state"),
    ("channels", "channels"),
    ("client", client_of),
    ("in/s", lambda row: size((row.get("recv_oct_details") or {}).get("rate"))),
    ("out/s", lambda row: size((row.get("send_oct_details") or {}).get("rate"))),
]
CHANNELS: list[Column] = [
    ("name", "name"),
    ("user", "user"),
    ("vhost", "vhost"),
    ("consumers", "consumer_count"),
    ("prefetch", prefetch),
    ("unacked", "messages_unacknowledged"),
    ("unconfirmed", "messages_unconfirmed"),
    ("confirms", "confirm"),
]
CONSUMERS: list[Column] = [
    ("queue", "queue.name"),
    ("vhost", "queue.vhost"),
    ("tag", "consumer_tag"),
    ("channel", "channel_details.name"),
    ("acks", "ack_required"),
    ("prefetch", "prefetch_count"),
    ("active", "active"),
]


# -- status


def add_status(commands: Commands) -> None:
    add_command(
        commands,
        "status",
        status,
        "is the broker well, and what is in it; exit code 1 while an alarm is raised",
    )


def status(api: Api, output: Output, options: argparse.Namespace) -> None:
    overview = api.get("/api/overview")
    found = gathered(api, overview)
    output.one(found, STATUS)
    if found["alarms"]:
        raise CommandFailed(f"publishers wait: {', '.join(found['alarms'])}", REFUSED)


def gathered(api: Api, overview: Any) -> dict[str, Any]:
    """The overview with the numbers of the machine, for users who may see them."""
    try:
        (node, *_) = api.get("/api/nodes")
    except CommandFailed:
        node = {}
    alarms = [
        name for name, field in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")) if node.get(field)
    ]
    return {"overview": overview, "node": node, "alarms": alarms}


# -- connections, channels, consumers


def add_connection(commands: Commands) -> None:
    group = Group(commands, "connection", "connections: list, close")
    group.command("list", list_connections, "all connections", ANY_VHOST)
    group.command(
        "close",
        close_connection,
        "close a connection, or all of a user",
        argument("name", metavar="NAME", nargs="?", help="as `connection list` shows it"),
        argument("--of-user", metavar="U", help="all connections of this user"),
        argument("--reason", metavar="TEXT", default="closed by an operator", help="what the client is told"),
    )


def add_channel(commands: Commands) -> None:
    channels = Group(commands, "channel", "channels: list")
    channels.command("list", list_channels, "all channels", ANY_VHOST)


def add_consumer(commands: Commands) -> None:
    consumers = Group(commands, "consumer", "consumers: list")
    consumers.command("list", list_consumers, "all consumers", ANY_VHOST)


def path_in(kind: str, options: argparse.Namespace) -> str:
    return f"/api/{kind}" if options.vhost is None else f"/api/vhosts/{part(options.vhost)}/{kind}"


def list_connections(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.pages(path_in("connections", options)), CONNECTIONS, "nobody is connected")


def close_connection(api: Api, output: Output, options: argparse.Namespace) -> None:
    if (options.name is None) == (options.of_user is None):
        raise CommandFailed("say which: a NAME, or --of-user U", USAGE_ERROR)
    which = part(options.name) if options.name else f"username/{part(options.of_user)}"
    api.headers["x-reason"] = options.reason
    api.delete(f"/api/connections/{which}")
    what = f"connection '{options.name}'" if options.name else f"all connections of user '{options.of_user}'"
    output.said(f"closed {what}", closed=options.name or options.of_user)


def list_channels(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.pages(path_in("channels", options)), CHANNELS, "there are no channels")


def list_consumers(api: Api, output: Output, options: argparse.Namespace) -> None:
    path = "/api/consumers" if options.vhost is None else f"/api/consumers/{part(options.vhost)}"
    output.table(api.pages(path), CONSUMERS, "nobody consumes")


# -- definitions


def add_definitions(commands: Commands) -> None:
    group = Group(commands, "definitions", "everything durable as a file, in RabbitMQ's format")
    file = argument("file", metavar="FILE", nargs="?", default="-", help="- is standard input or output")
    target = argument(
        "--for",
        dest="target",
        choices=["embermq", "rabbitmq"],
        help="users whose password only EmberMQ can check are left out; embermq: they are in it, as a backup "
        "needs them; rabbitmq: they are in it without a password",
    )
    group.command("export", export, "write them to a file", file, ANY_VHOST, target)
    group.command("import", import_, "take them from a file; what is there already stays", file, ANY_VHOST)


def definitions_path(options: argparse.Namespace) -> str:
    return "/api/definitions" + (f"/{part(options.vhost)}" if options.vhost else "")


def export(api: Api, output: Output, options: argparse.Namespace) -> None:
    found = api.get(definitions_path(options) + ("?for=rabbitmq" if options.target == "rabbitmq" else ""))
    warn_of_passwords(found.get("users_without_password", []))
    warn_of_things_left_out(found.get("left_out", []))
    if options.target != "embermq":
        warn_of_users_left_out(found.pop("embermq", {}).get("users", []))
    text = json.dumps(found, indent=2, ensure_ascii=False)
    if options.file == "-":
        print(text)
        return
    path = Path(options.file)
    try:
        path.touch(mode=0o600)  # password hashes are in it
        path.write_text(text + "\n")
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", USAGE_ERROR) from None
    output.said(f"written to {path}: {counted(found)}", file=str(path))


def warn_of_things_left_out(things: list[dict[str, object]]) -> None:
    if things:
        names = ", ".join(str(thing.get("name", thing.get("destination"))) for thing in things)
        print(
            f"embermq: left out: {names}. RabbitMQ has neither selectors nor chained bindings.",
            file=sys.stderr,
        )


def warn_of_passwords(users: list[str]) -> None:
    """RabbitMQ cannot check the hashes that were made here."""
    if users:
        print(
            f"embermq: without a password: {', '.join(users)}. RabbitMQ cannot check theirs: after the "
            "import, give each a new one with `rabbitmqctl change_password USER PASSWORD`.",
            file=sys.stderr,
        )


def warn_of_users_left_out(users: list[dict[str, Any]]) -> None:
    if users:
        names = ", ".join(user["name"] for user in users)
        print(
            f"embermq: left out, with their permissions: {names}. Only EmberMQ can check their passwords. "
            "`--for embermq` keeps them, `--for rabbitmq` keeps them without a password.",
            file=sys.stderr,
        )


def import_(api: Api, output: Output, options: argparse.Namespace) -> None:
    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text()
        definitions = json.loads(text)
    except OSError as error:
        raise CommandFailed(f"{options.file}: {error.strerror}", USAGE_ERROR) from None
    except ValueError as error:
        raise CommandFailed(f"{options.file}: not JSON: {error}", USAGE_ERROR) from None
    api.post(definitions_path(options), definitions)
    output.said(f"imported: {counted(definitions)}", imported=True)


def counted(definitions: Any) -> str:
    if not isinstance(definitions, dict):
        return "nothing"
    counts = {name: len(items) for name, items in definitions.items() if isinstance(items, list) and items}
    return ", ".join(amount(count, name.replace("_", " ")) for name, count in counts.items()) or "nothing"


def amount(count: int, things: str) -> str:
    """1 user, 2 users; 1 policy, 2 policies."""
    one = f"{things[:-3]}y" if things.endswith("ies") else things.removesuffix("s")
    return f"{count:,} {one if count == 1 else things}"
