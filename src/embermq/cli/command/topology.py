"""`embermq exchange`, `embermq binding`, `embermq vhost`: the topology, queues aside."""

from __future__ import annotations

import argparse

from embermq.cli.api import Api, part
from embermq.cli.commands import (
    ANY_VHOST,
    ARGUMENTS,
    NAME,
    VHOST,
    Commands,
    Group,
    argument,
    arguments_of,
    named_values,
)
from embermq.cli.errors import NOT_FOUND, CommandFailed
from embermq.cli.output import Column, Output

EXCHANGES: list[Column] = [
    ("vhost", "vhost"),
    ("name", lambda row: row["name"] or "(default)"),
    ("type", "type"),
    ("durable", "durable"),
    ("auto-delete", "auto_delete"),
    ("internal", "internal"),
    ("policy", "policy"),
    ("arguments", "arguments"),
]
BINDINGS: list[Column] = [
    ("vhost", "vhost"),
    ("source", lambda row: row["source"] or "(default)"),
    ("destination", "destination"),
    ("kind", "destination_type"),
    ("routing key", "routing_key"),
    ("arguments", "arguments"),
]
EXPLAINED: list[Column] = [
    ("source", lambda row: row["source"] or "(default)"),
    ("destination", "destination"),
    ("matched", "matched"),
    ("reason", "reason"),
    ("routing key", "routing_key"),
    ("arguments", "arguments"),
]
VHOSTS: list[Column] = [
    ("name", "name"),
    ("description", "description"),
    ("ready", "messages_ready"),
    ("unacked", "messages_unacknowledged"),
    ("tracing", "tracing"),
]


def list_path(kind: str, vhost: str | None) -> str:
    return f"/api/{kind}" if vhost is None else f"/api/{kind}/{part(vhost)}"


# -- exchanges


def add_exchange(commands: Commands) -> None:
    group = Group(commands, "exchange", "exchanges: list, declare, delete")
    group.command("list", list_exchanges, "all exchanges", ANY_VHOST)
    group.command(
        "declare",
        declare_exchange,
        "make an exchange",
        NAME,
        argument(
            "--type", metavar="T", default="direct", help="direct, fanout, topic, headers, x-... (direct)"
        ),
        VHOST,
        argument("--transient", action="store_true", help="gone when the broker restarts"),
        argument("--auto-delete", action="store_true", help="gone with its last binding"),
        argument("--internal", action="store_true", help="only other exchanges may publish to it"),
        ARGUMENTS,
    )
    group.command(
        "delete",
        delete_exchange,
        "delete an exchange with its bindings",
        NAME,
        VHOST,
        argument("--if-unused", action="store_true", help="only when nothing is bound to it"),
    )


def list_exchanges(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.pages(list_path("exchanges", options.vhost)), EXCHANGES, "there are no exchanges")


def exchange_path(options: argparse.Namespace) -> str:
    return f"/api/exchanges/{part(options.vhost)}/{part(options.name)}"


def declare_exchange(api: Api, output: Output, options: argparse.Namespace) -> None:
    body = {
        "type": options.type,
        "durable": not options.transient,
        "auto_delete": options.auto_delete,
        "internal": options.internal,
        "arguments": arguments_of(options),
    }
    api.put(exchange_path(options), body)
    output.said(f"exchange '{options.name}' is there", name=options.name, vhost=options.vhost, **body)


def delete_exchange(api: Api, output: Output, options: argparse.Namespace) -> None:
    conditions = {"if-unused": "true"} if options.if_unused else {}
    if options.name.startswith("amq."):
        raise CommandFailed(f"exchange '{options.name}' is the broker's own and stays")
    api.delete(exchange_path(options), **conditions)
    output.said(f"exchange '{options.name}' is deleted", deleted=options.name, vhost=options.vhost)


# -- bindings


def add_binding(commands: Commands) -> None:
    group = Group(commands, "binding", "bindings: list, add, remove, explain")
    group.command("list", list_bindings, "all bindings", ANY_VHOST)
    ends = (
        argument("source", metavar="EXCHANGE", help="where messages come from"),
        argument("destination", metavar="TO", help="the queue (or exchange) that they go to"),
        argument("--routing-key", "-k", metavar="KEY", default="", help="routing key or pattern"),
        argument("--to-exchange", action="store_true", help="TO is an exchange"),
        VHOST,
    )
    group.command("add", add_one_binding, "bind a queue or exchange to an exchange", *ends, ARGUMENTS)
    group.command("remove", remove_binding, "remove a binding", *ends, ARGUMENTS)
    group.command(
        "explain",
        explain_route,
        "tell where a message would go, and why; nothing is published",
        argument(
            "source", metavar="EXCHANGE", help="where it would be published; amq.default for the default"
        ),
        argument("--routing-key", "-k", metavar="KEY", default="", help="its routing key"),
        argument(
            "--header", metavar="NAME=VALUE", action="append", default=[], help="a header; may be repeated"
        ),
        argument(
            "--property",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="a property, such as priority=5; may be repeated",
        ),
        argument("--queue", "-q", metavar="QUEUE", help="only the ways to this queue"),
        VHOST,
    )


def list_bindings(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.pages(list_path("bindings", options.vhost)), BINDINGS, "there are no bindings")


def binding_path(options: argparse.Namespace) -> str:
    kind = "e" if options.to_exchange else "q"
    return f"/api/bindings/{part(options.vhost)}/e/{part(options.source)}/{kind}/{part(options.destination)}"


def described(options: argparse.Namespace, preposition: str = "to") -> str:
    key = f" with key '{options.routing_key}'" if options.routing_key else ""
    return f"'{options.destination}' {preposition} '{options.source}'{key}"


def add_one_binding(api: Api, output: Output, options: argparse.Namespace) -> None:
    body = {"routing_key": options.routing_key, "arguments": arguments_of(options)}
    api.post(binding_path(options), body)
    output.said(f"bound {described(options)}", source=options.source, destination=options.destination, **body)


def remove_binding(api: Api, output: Output, options: argparse.Namespace) -> None:
    path, arguments = binding_path(options), arguments_of(options)
    for binding in api.get(path):
        if binding["routing_key"] == options.routing_key and binding["arguments"] == arguments:
            api.delete(f"{path}/{part(binding['properties_key'])}")
            output.said(f"unbound {described(options, 'from')}", removed=binding)
            return
    raise CommandFailed(f"there is no such binding: {described(options)}", NOT_FOUND)


def explain_route(api: Api, output: Output, options: argparse.Namespace) -> None:
    body: dict[str, object] = {
        "routing_key": options.routing_key,
        "headers": named_values("header", options.header),
        "properties": named_values("property", options.property),
        **({"queue": options.queue} if options.queue else {}),
    }
    told = api.post(f"/api/exchanges/{part(options.vhost)}/{part(options.source)}/explain", body)
    if output.as_json:
        output.json(told)
        return
    output.table(told["bindings"], EXPLAINED, "the message comes to no binding")
    if told["queues"]:
        may = "may reach" if told["by_chance"] else "reaches"
        print(f"it {may} {', '.join(told['queues'])}")
    else:
        print(f"it reaches no queue: {told['unroutable_reason']}")


# -- virtual hosts


def add_vhost(commands: Commands) -> None:
    group = Group(commands, "vhost", "virtual hosts: list, add, delete")
    group.command("list", list_vhosts, "all virtual hosts")
    group.command(
        "add",
        add_one_vhost,
        "make a virtual host, or change its description",
        NAME,
        argument("--description", metavar="TEXT", default="", help="what it is for"),
        argument("--tags", metavar="A,B", default="", help="tags, separated by commas"),
        argument("--tracing", action="store_true", help="copy every message to amq.rabbitmq.trace"),
    )
    group.command("delete", delete_vhost, "delete a virtual host with everything in it", NAME)


def list_vhosts(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.pages("/api/vhosts"), VHOSTS, "there are no virtual hosts")


def add_one_vhost(api: Api, output: Output, options: argparse.Namespace) -> None:
    body = {"description": options.description, "tags": options.tags, "tracing": options.tracing}
    api.put(f"/api/vhosts/{part(options.name)}", body)
    output.said(f"virtual host '{options.name}' is there", name=options.name, **body)


def delete_vhost(api: Api, output: Output, options: argparse.Namespace) -> None:
    api.delete(f"/api/vhosts/{part(options.name)}")
    output.said(f"virtual host '{options.name}' is deleted", deleted=options.name)
