"""`embermq stream`: streams and super streams, their offsets and their readers."""

from __future__ import annotations

import argparse

from embermq.cli.api import Api, Body, part
from embermq.cli.commands import ARGUMENTS, NAME, VHOST, Commands, Group, argument, arguments_of
from embermq.cli.output import Column, Output, size
from embermq.cli.parser import COUNT, number

STREAM: list[Column] = [
    ("name", "name"),
    ("vhost", "vhost"),
    ("first offset", "first_offset"),
    ("next offset", "next_offset"),
    ("messages", "messages"),
    ("bytes", lambda row: size(row.get("bytes"))),
    ("segments", "segments"),
    ("tracked", "tracking"),
]


def names_of(row: object) -> list[str]:
    found = row.get("partitions", []) if isinstance(row, dict) else []
    return [str(entry["name"] if isinstance(entry, dict) else entry) for entry in found]


SUPER: list[Column] = [("vhost", "vhost"), ("name", "name"), ("partitions", names_of)]


def add_stream(commands: Commands) -> None:
    group = Group(commands, "stream", "streams: their offsets, super streams")
    group.command("show", show_stream, "the offsets, sizes and readers of a stream", NAME, VHOST)
    group.command(
        "offset",
        offset_at,
        "the offset of the first message at or after a time",
        NAME,
        argument("time", metavar="MS", type=COUNT, help="milliseconds since 1970"),
        VHOST,
    )
    group.command("super-list", list_super, "the super streams of a virtual host", VHOST)
    group.command(
        "super-declare",
        declare_super,
        "make a super stream: an exchange with streams behind it",
        NAME,
        argument("--partitions", metavar="N", type=number(1), default=3, help="by the key's hash (3)"),
        argument("--keys", metavar="A,B", help="one partition for each of these routing keys instead"),
        VHOST,
        ARGUMENTS,
    )
    group.command("super-delete", delete_super, "delete a super stream with its partitions", NAME, VHOST)


def super_path(options: argparse.Namespace) -> str:
    return f"/api/super-streams/{part(options.vhost)}/{part(options.name)}"


def show_stream(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.one(api.get(f"/api/streams/{part(options.vhost)}/{part(options.name)}"), STREAM)


def offset_at(api: Api, output: Output, options: argparse.Namespace) -> None:
    path = f"/api/streams/{part(options.vhost)}/{part(options.name)}/offset"
    found = api.get(path, timestamp=options.time)
    output.said(str(found["offset"]), **found)


def list_super(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.pages(f"/api/super-streams/{part(options.vhost)}"), SUPER, "there are no super streams")


def declare_super(api: Api, output: Output, options: argparse.Namespace) -> None:
    keys = [key.strip() for key in options.keys.split(",")] if options.keys else None
    body: Body = {"routing_keys": keys} if keys else {"partitions": options.partitions}
    body["arguments"] = arguments_of(options)
    api.put(super_path(options), body)
    count = len(keys) if keys else options.partitions
    output.said(f"super stream '{options.name}' has {count} partitions", name=options.name, partitions=count)


def delete_super(api: Api, output: Output, options: argparse.Namespace) -> None:
    api.delete(super_path(options))
    output.said(f"super stream '{options.name}' is deleted", deleted=options.name)
