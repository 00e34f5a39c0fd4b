"""`embermq limit`: how many connections, queues and channels a virtual host or a user may have."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from embermq.cli.api import Api, Body, part
from embermq.cli.commands import Commands, Group, argument
from embermq.cli.errors import USAGE_ERROR, CommandFailed
from embermq.cli.output import Column, Output, shown

LIMITS: list[Column] = [("of", "of"), ("name", "name"), ("limits", "limits")]
KINDS = {"vhost": "virtual host", "user": "user"}


def add_limit(commands: Commands) -> None:
    group = Group(commands, "limit", "limits of virtual hosts and users: list, set, delete")
    whose = (
        argument("kind", metavar="vhost|user", choices=list(KINDS), help="of which kind of thing"),
        argument("name", metavar="NAME", help="its name"),
    )
    group.command("list", list_limits, "all limits")
    group.command(
        "set",
        set_limits,
        "limit a virtual host or a user",
        *whose,
        argument(
            "limits",
            metavar="KEY=N",
            nargs="+",
            help="max-connections, and max-queues (of a virtual host) or max-channels (of a user)",
        ),
    )
    group.command(
        "delete",
        delete_limits,
        "take limits away again",
        *whose,
        argument("limits", metavar="KEY", nargs="+", help="max-connections and so on"),
    )


def path_of(options: argparse.Namespace, limit: str) -> str:
    return f"/api/{options.kind}-limits/{part(options.name)}/{part(limit)}"


def list_limits(api: Api, output: Output, options: argparse.Namespace) -> None:
    def found() -> Iterator[Body]:
        for kind in KINDS:
            for row in api.get(f"/api/{kind}-limits"):
                yield {"of": kind, "name": row[kind], "limits": row["value"]}

    output.table(found(), LIMITS, "there are no limits")


def set_limits(api: Api, output: Output, options: argparse.Namespace) -> None:
    wanted: dict[str, int] = {}
    for text in options.limits:
        key, _, value = text.partition("=")
        try:
            wanted[key] = int(value)
        except ValueError:
            raise CommandFailed(
                f"{text!r}: expected KEY=N, such as max-connections=100", USAGE_ERROR
            ) from None
    for key, number in wanted.items():
        api.put(path_of(options, key), {"value": number})
    text = f"{KINDS[options.kind]} '{options.name}' has the limits {shown(wanted)}"
    output.said(text, of=options.kind, name=options.name, limits=wanted)


def delete_limits(api: Api, output: Output, options: argparse.Namespace) -> None:
    for key in options.limits:
        api.delete(path_of(options, key))
    text = f"{KINDS[options.kind]} '{options.name}' has no limit {', '.join(options.limits)}"
    output.said(text, of=options.kind, name=options.name, deleted=options.limits)
