"""`embermq trace`: write down what happens to messages, and read it."""

from __future__ import annotations

import argparse
import sys

from embermq.cli.api import Api, Body, part
from embermq.cli.commands import NAME, VHOST, Commands, Group, argument
from embermq.cli.output import Column, Output, size
from embermq.cli.parser import COUNT

TRACES: list[Column] = [
    ("vhost", "vhost"),
    ("name", "name"),
    ("format", "format"),
    ("pattern", "pattern"),
    ("payload bytes", "max_payload_bytes"),
]
FILES: list[Column] = [("name", "name"), ("size", lambda row: size(row.get("size")))]
FILE = argument("file", metavar="FILE", help="its name, as `trace files` shows it")


def add_trace(commands: Commands) -> None:
    group = Group(commands, "trace", "traces: files that tell what is published and delivered")
    group.command("list", list_traces, "the traces that run")
    group.command(
        "start",
        start,
        "begin to write down messages of a virtual host, to NAME.log",
        NAME,
        argument(
            "--pattern",
            metavar="P",
            default="#",
            help="which: publish.EXCHANGE, deliver.QUEUE, with * and # as in topics (#: all)",
        ),
        argument("--format", choices=["text", "json"], default="text", help="for people, or a line each"),
        argument("--payload", metavar="N", type=COUNT, help="only so many bytes of each body"),
        VHOST,
    )
    group.command("stop", stop, "end a trace; its file stays", NAME, VHOST)
    group.command("files", list_files, "the files that traces have written")
    group.command("show", show, "print such a file", FILE)
    group.command("delete", delete, "delete such a file", FILE)


def path_of(options: argparse.Namespace) -> str:
    return f"/api/traces/{part(options.vhost)}/{part(options.name)}"


def list_traces(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.get("/api/traces"), TRACES, "nothing is traced")


def start(api: Api, output: Output, options: argparse.Namespace) -> None:
    body: Body = {"format": options.format, "pattern": options.pattern}
    if options.payload is not None:
        body["max_payload_bytes"] = options.payload
    api.put(path_of(options), body)
    file = f"{options.name}.log"
    output.said(f"tracing to {file}; `embermq trace show {file}` shows it", name=options.name, file=file)


def stop(api: Api, output: Output, options: argparse.Namespace) -> None:
    api.delete(path_of(options))
    output.said(f"trace '{options.name}' is over", stopped=options.name)


def list_files(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.get("/api/trace-files"), FILES, "there are no files")


def show(api: Api, output: Output, options: argparse.Namespace) -> None:
    text = api.text(f"/api/trace-files/{part(options.file)}")
    if output.as_json:
        output.json({"file": options.file, "text": text})
    else:
        sys.stdout.write(text)


def delete(api: Api, output: Output, options: argparse.Namespace) -> None:
    api.delete(f"/api/trace-files/{part(options.file)}")
    output.said(f"'{options.file}' is deleted", deleted=options.file)
