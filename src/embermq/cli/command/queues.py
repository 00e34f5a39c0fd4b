"""`embermq queue`: list, show, declare, delete, purge, browse, move, copy, dead letters back."""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Iterator
from typing import Any

from embermq.cli.api import Api, Body, part
from embermq.cli.commands import (
    ANY_VHOST,
    ARGUMENTS,
    FILTER,
    NAME,
    VHOST,
    Commands,
    Group,
    argument,
    arguments_of,
    filter_of,
)
from embermq.cli.errors import USAGE_ERROR, CommandFailed
from embermq.cli.output import Column, Output, counted, size
from embermq.cli.parser import COUNT

PREVIEW_CHARS = 60


def preview(message: Any) -> str:
    body = str(message["payload"])
    if message.get("payload_encoding") == "base64":
        body = f"base64:{body}"
    return body if len(body) <= PREVIEW_CHARS else body[: PREVIEW_CHARS - 1] + "…"


LIST: list[Column] = [
    ("vhost", "vhost"),
    ("name", "name"),
    ("type", "type"),
    ("ready", "messages_ready"),
    ("unacked", "messages_unacknowledged"),
    ("consumers", "consumers"),
    ("in/s", "message_stats.publish_details.rate"),
    ("out/s", "message_stats.deliver_get_details.rate"),
]
ONE: list[Column] = [
    *LIST[:6],
    ("delayed", "messages_delayed"),
    ("bytes", lambda row: size(row.get("message_bytes_ready"))),
    ("unacked bytes", lambda row: size(row.get("message_bytes_unacknowledged"))),
    ("durable", "durable"),
    ("auto-delete", "auto_delete"),
    ("exclusive", "exclusive"),
    ("policy", "policy"),
    ("arguments", "arguments"),
    ("policy says", "effective_policy_definition"),
]
MESSAGE: list[Column] = [
    ("position", "position"),
    ("exchange", "exchange"),
    ("routing key", "routing_key"),
    ("redelivered", "redelivered"),
    ("bytes", "payload_bytes"),
    ("headers", "properties.headers"),
    ("body", preview),
]
TASK_LOOK_S = 0.2


def add_queue(commands: Commands) -> None:
    group = Group(commands, "queue", "queues: list, declare, delete, purge, look into them, move messages")
    filtering = argument("--filter", metavar="TEXT", help="only queues whose name holds this text")
    group.command(
        "list",
        list_queues,
        "all queues with their messages and rates",
        ANY_VHOST,
        filtering,
        argument("--sort", metavar="FIELD", help="by this field of the API, for example messages"),
        argument("--reverse", action="store_true", help="largest first"),
    )
    group.command("show", show_queue, "everything about one queue", NAME, VHOST)
    group.command(
        "declare",
        declare_queue,
        "make a queue",
        NAME,
        VHOST,
        argument("--type", choices=["classic", "quorum", "stream"], help="kind of queue"),
        argument("--transient", action="store_true", help="gone when the broker restarts"),
        argument("--auto-delete", action="store_true", help="gone with its last consumer"),
        ARGUMENTS,
    )
    group.command(
        "delete",
        delete_queue,
        "delete a queue with its messages",
        NAME,
        VHOST,
        argument("--if-empty", action="store_true", help="only when no message is in it"),
        argument("--if-unused", action="store_true", help="only when nobody consumes from it"),
    )
    group.command("purge", purge_queue, "forget the messages that wait in a queue", NAME, VHOST)
    group.command(
        "browse",
        browse,
        "look at messages without touching them",
        NAME,
        VHOST,
        argument("--count", "-n", metavar="N", type=COUNT, default=20, help="so many (20)"),
        argument("--unacked", action="store_true", help="those that are out with consumers"),
        *FILTER,
    )
    limit = argument("--limit", metavar="N", type=COUNT, help="so many at most (all)")
    for name, about in (
        ("move", "move messages to another queue; none is lost on the way"),
        ("copy", "copy messages to another queue"),
    ):
        group.command(
            name,
            transfer(name),
            about,
            NAME,
            argument("destination", metavar="TO", help="the queue that gets them"),
            VHOST,
            argument("--to-vhost", metavar="V", help="its virtual host, if it is another"),
            limit,
            *FILTER,
        )
    group.command(
        "return",
        return_letters,
        "send dead letters back to where they came from",
        NAME,
        VHOST,
        limit,
        *FILTER,
    )
    group.command(
        "drop", drop_messages, "delete those messages that fit a filter", NAME, VHOST, limit, *FILTER
    )


def path_of(options: argparse.Namespace, *more: str) -> str:
    return "/".join([f"/api/queues/{part(options.vhost)}/{part(options.name)}", *more])


def list_queues(api: Api, output: Output, options: argparse.Namespace) -> None:
    path = "/api/queues" if options.vhost is None else f"/api/queues/{part(options.vhost)}"
    found = sorted_pages(
        api,
        path,
        name=options.filter,
        use_regex="false" if options.filter else None,
        sort=options.sort,
        sort_reverse="true" if options.reverse else None,
    )
    output.table(found, LIST, "there are no queues")


def sorted_pages(api: Api, path: str, **query: object) -> Iterator[Body]:
    """The API ignores a field that it does not know; a user who types one wants to hear of it."""
    field = query["sort"]
    for number, row in enumerate(api.pages(path, **query)):
        if number == 0 and isinstance(field, str) and (first := field.partition(".")[0]) not in row:
            guesses = difflib.get_close_matches(first, row, n=1)
            hint = f"did you mean '{guesses[0]}'?" if guesses else f"they have: {', '.join(sorted(row))}"
            raise CommandFailed(f"queues have no field '{first}'; {hint}", USAGE_ERROR)
        yield row


def show_queue(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.one(api.get(path_of(options)), ONE)


def declare_queue(api: Api, output: Output, options: argparse.Namespace) -> None:
    arguments = arguments_of(options)
    if options.type:
        arguments["x-queue-type"] = options.type
    body = {
        "durable": not options.transient,
        "auto_delete": options.auto_delete,
        "arguments": arguments,
    }
    api.put(path_of(options), body)
    output.said(f"queue '{options.name}' is there", name=options.name, vhost=options.vhost, **body)


def delete_queue(api: Api, output: Output, options: argparse.Namespace) -> None:
    conditions = {
        name.replace("_", "-"): "true" for name in ("if_empty", "if_unused") if getattr(options, name)
    }
    api.delete(path_of(options), **conditions)
    output.said(f"queue '{options.name}' is deleted", deleted=options.name, vhost=options.vhost)


def purge_queue(api: Api, output: Output, options: argparse.Namespace) -> None:
    api.delete(path_of(options, "contents"))
    output.said(f"queue '{options.name}' is purged", purged=options.name, vhost=options.vhost)


def browse(api: Api, output: Output, options: argparse.Namespace) -> None:
    wanted = filter_of(options)
    headers = wanted.pop("headers", None)
    if headers:
        wanted["header"] = options.header
    found: list[Body] = []
    place: str | None = None
    while len(found) < options.count:
        answer = api.get(
            path_of(options, "messages"),
            count=min(options.count - len(found), 500),
            state="unacked" if options.unacked else None,
            **{**wanted, "from": place},
        )
        found += answer["messages"]
        place = answer["next"]
        if place is None:
            break
    output.table(found, MESSAGE, "no message found")


def messages(task: Body) -> str:
    return counted(task["done"], "message")


def transfer(kind: str) -> Any:
    def run(api: Api, output: Output, options: argparse.Namespace) -> None:
        body: Body = {"destination": options.destination}
        if options.to_vhost:
            body["destination_vhost"] = options.to_vhost
        done = run_task(api, output, options, kind, body)
        past = "moved" if kind == "move" else "copied"
        text = f"{messages(done)} {past} from '{options.name}' to '{options.destination}'"
        output.said(text, **done)

    return run


def return_letters(api: Api, output: Output, options: argparse.Namespace) -> None:
    done = run_task(api, output, options, "return", {})
    text = f"{counted(done['done'], 'dead letter')} sent back"
    if done.get("skipped"):
        text += f", {done['skipped']:,} left: where they came from is not known or not there"
    output.said(text, **done)


def drop_messages(api: Api, output: Output, options: argparse.Namespace) -> None:
    if not filter_of(options) and options.limit is None:
        raise CommandFailed("say which messages (a filter or --limit), or use: embermq queue purge", 2)
    done = run_task(api, output, options, "delete", {})
    output.said(f"{messages(done)} deleted from '{options.name}'", **done)


def run_task(api: Api, output: Output, options: argparse.Namespace, kind: str, body: Body) -> Body:
    """Begin long work in the broker and stay until it has ended; Ctrl-C cancels it."""
    body |= {"filter": filter_of(options), "limit": options.limit}
    task: Body = api.post(path_of(options, "messages", kind), body)
    path = f"/api/tasks/{part(task['id'])}"
    try:
        with output.progress(kind, task.get("total")) as advance:
            while task["state"] == "running":
                time.sleep(TASK_LOOK_S)
                task = api.get(path)
                advance(task["scanned"])
    except KeyboardInterrupt:
        api.delete(path)
        raise CommandFailed(f"cancelled, with {messages(task)} done") from None
    if task["state"] != "done":
        raise CommandFailed(f"{task['state']}: {task.get('reason') or 'no reason given'}")
    return task
