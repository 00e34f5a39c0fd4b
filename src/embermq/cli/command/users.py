"""`embermq user`, `permission`, `policy` and `limit`: what users and virtual hosts may do."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Iterator
from pathlib import Path

from embermq.cli.api import Api, Body, part
from embermq.cli.commands import ANY_VHOST, NAME, VHOST, Commands, Group, argument, json_or_text
from embermq.cli.errors import USAGE_ERROR, CommandFailed
from embermq.cli.output import Column, Output, shown

USERS: list[Column] = [("name", "name"), ("tags", "tags")]
PERMISSIONS: list[Column] = [
    ("user", "user"),
    ("vhost", "vhost"),
    ("configure", "configure"),
    ("write", "write"),
    ("read", "read"),
]
TOPIC_PERMISSIONS: list[Column] = [
    ("user", "user"),
    ("vhost", "vhost"),
    ("exchange", "exchange"),
    ("write", "write"),
    ("read", "read"),
]
POLICIES: list[Column] = [
    ("vhost", "vhost"),
    ("name", "name"),
    ("pattern", "pattern"),
    ("apply to", "apply-to"),
    ("priority", "priority"),
    ("definition", "definition"),
]

# -- users


def add_user(commands: Commands) -> None:
    group = Group(commands, "user", "users: list, add, tags, password, delete, whoami")
    secret = (
        argument(
            "--new-password-file",
            metavar="F",
            help="file with the user's password; it is asked for if neither this nor --no-password is given",
        ),
        argument("--no-password", action="store_true", help="no login by password (certificates, tokens)"),
    )
    tags = argument(
        "--tags", metavar="A,B", default="", help="administrator, monitoring, policymaker, management"
    )
    group.command("list", list_users, "all users")
    group.command(
        "add", put_user, "make a user, or give one another password and other tags", NAME, tags, *secret
    )
    group.command(
        "tags",
        tag_user,
        "give a user other tags; the password stays",
        NAME,
        argument("tags", metavar="A,B", nargs="?", default="", help="as for add; none takes all away"),
    )
    group.command("password", change_password, "give a user another password; the tags stay", NAME, *secret)
    group.command("delete", delete_user, "delete a user", NAME)
    group.command("whoami", whoami, "as whom these commands ask")


def list_users(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.pages("/api/users"), USERS, "there are no users")


def put_user(api: Api, output: Output, options: argparse.Namespace) -> None:
    api.put(f"/api/users/{part(options.name)}", {"tags": options.tags, **secret_of(options)})
    output.said(f"user '{options.name}' is there", name=options.name, tags=options.tags)


def secret_of(options: argparse.Namespace) -> Body:
    return {"password_hash": ""} if options.no_password else {"password": new_password(options)}


def change_password(api: Api, output: Output, options: argparse.Namespace) -> None:
    path = f"/api/users/{part(options.name)}"
    tags = api.get(path)["tags"]
    api.put(path, {"tags": tags, **secret_of(options)})
    has = "no password" if options.no_password else "a new password"
    output.said(f"user '{options.name}' has {has}", name=options.name)


def tag_user(api: Api, output: Output, options: argparse.Namespace) -> None:
    path = f"/api/users/{part(options.name)}"
    user = api.get(path)
    kept = {name: user[name] for name in ("password_hash", "hashing_algorithm")}
    api.put(path, {**kept, "tags": options.tags})
    output.said(
        f"user '{options.name}' has the tags {options.tags}"
        if options.tags
        else f"user '{options.name}' has no tags",
        name=options.name,
        tags=options.tags,
    )


def new_password(options: argparse.Namespace) -> str:
    if options.new_password_file:
        try:
            return Path(options.new_password_file).read_text().rstrip("\n")
        except OSError as error:
            raise CommandFailed(f"{options.new_password_file}: {error.strerror}", USAGE_ERROR) from None
    if not sys.stdin.isatty():
        given = sys.stdin.readline().rstrip("\n")
        if not given:
            raise CommandFailed("no password came by standard input; --no-password is for none", USAGE_ERROR)
        return given
    first = getpass.getpass(f"new password of {options.name}: ")
    if first != getpass.getpass("once more: "):
        raise CommandFailed("these were two different passwords", USAGE_ERROR)
    return first


def delete_user(api: Api, output: Output, options: argparse.Namespace) -> None:
    api.delete(f"/api/users/{part(options.name)}")
    output.said(f"user '{options.name}' is deleted", deleted=options.name)


def whoami(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.one(api.get("/api/whoami"), USERS)


# -- permissions


def add_permission(commands: Commands) -> None:
    group = Group(commands, "permission", "permissions of users in virtual hosts: list, grant, revoke")
    user = argument("user_name", metavar="USER")
    group.command("list", list_permissions, "all permissions", ANY_VHOST)
    pattern = "names it may {} (regular expression; ^$ is none)"
    group.command(
        "grant",
        grant,
        "let a user into a virtual host",
        user,
        VHOST,
        argument("--configure", metavar="RE", default=".*", help=pattern.format("declare and delete")),
        argument("--write", metavar="RE", default=".*", help=pattern.format("publish to")),
        argument("--read", metavar="RE", default=".*", help=pattern.format("consume from")),
    )
    group.command("revoke", revoke, "let a user into a virtual host no more", user, VHOST)
    group.command("list-topic", list_topic_permissions, "all topic permissions", ANY_VHOST)
    group.command(
        "grant-topic",
        grant_topic,
        "limit the routing keys that a user may use with a topic exchange",
        user,
        argument("exchange", metavar="EXCHANGE"),
        VHOST,
        argument("--write", metavar="RE", default=".*", help="routing keys it may publish with"),
        argument("--read", metavar="RE", default=".*", help="routing keys it may bind with"),
    )
    group.command(
        "revoke-topic",
        revoke_topic,
        "take that limit away again",
        user,
        argument("exchange", metavar="EXCHANGE", nargs="?", help="only at this one (at all)"),
        VHOST,
    )


def permissions_path(kind: str, options: argparse.Namespace) -> str:
    return f"/api/{kind}" if options.vhost is None else f"/api/vhosts/{part(options.vhost)}/{kind}"


def permission_path(kind: str, options: argparse.Namespace) -> str:
    return f"/api/{kind}/{part(options.vhost)}/{part(options.user_name)}"


def list_permissions(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.pages(permissions_path("permissions", options)), PERMISSIONS, "nobody may do anything")


def grant(api: Api, output: Output, options: argparse.Namespace) -> None:
    body = {name: getattr(options, name) for name in ("configure", "write", "read")}
    api.put(permission_path("permissions", options), body)
    output.said(
        f"'{options.user_name}' may use virtual host '{options.vhost}'", user=options.user_name, **body
    )


def revoke(api: Api, output: Output, options: argparse.Namespace) -> None:
    api.delete(permission_path("permissions", options))
    text = f"'{options.user_name}' may use virtual host '{options.vhost}' no more"
    output.said(text, user=options.user_name, vhost=options.vhost)


def list_topic_permissions(api: Api, output: Output, options: argparse.Namespace) -> None:
    found = api.pages(permissions_path("topic-permissions", options))
    output.table(found, TOPIC_PERMISSIONS, "there are no topic permissions")


def grant_topic(api: Api, output: Output, options: argparse.Namespace) -> None:
    body = {"exchange": options.exchange, "write": options.write, "read": options.read}
    api.put(permission_path("topic-permissions", options), body)
    text = f"'{options.user_name}' has topic permissions on exchange '{options.exchange}'"
    output.said(text, user=options.user_name, vhost=options.vhost, **body)


def revoke_topic(api: Api, output: Output, options: argparse.Namespace) -> None:
    where = f"/{part(options.exchange)}" if options.exchange else ""
    api.delete(permission_path("topic-permissions", options) + where)
    at = f" on exchange '{options.exchange}'" if options.exchange else ""
    text = f"'{options.user_name}' has topic permissions{at} no more"
    output.said(text, user=options.user_name, vhost=options.vhost, exchange=options.exchange)


# -- policies


def add_policy(commands: Commands) -> None:
    group = Group(commands, "policy", "policies: list, set, delete")
    operator = argument(
        "--operator", action="store_true", help="an operator policy, which users cannot exceed"
    )
    group.command(
        "list",
        list_policies,
        "all policies",
        ANY_VHOST,
        operator,
    )
    group.command(
        "set",
        set_policy,
        "make or change a policy: it holds for existing things at once",
        NAME,
        argument("pattern", metavar="PATTERN", help="regular expression for the names it is about"),
        argument(
            "definition", metavar="KEY=VALUE", nargs="+", help="what it says, for example max-length=1000"
        ),
        VHOST,
        argument("--apply-to", metavar="KIND", default="all", help="queues, exchanges, streams ... (all)"),
        argument("--priority", metavar="N", type=int, default=0, help="the highest one that fits holds (0)"),
        operator,
    )
    group.command("delete", delete_policy, "delete a policy", NAME, VHOST, operator)


def policies_path(options: argparse.Namespace) -> str:
    path = "/api/operator-policies" if options.operator else "/api/policies"
    return path if options.vhost is None else f"{path}/{part(options.vhost)}"


def list_policies(api: Api, output: Output, options: argparse.Namespace) -> None:
    output.table(api.pages(policies_path(options)), POLICIES, "there are no policies")


def set_policy(api: Api, output: Output, options: argparse.Namespace) -> None:
    definition = {}
    for text in options.definition:
        key, equals, value = text.partition("=")
        if not equals:
            raise CommandFailed(f"{text!r}: expected KEY=VALUE", USAGE_ERROR)
        definition[key] = json_or_text(value)
    body = {
        "pattern": options.pattern,
        "apply-to": options.apply_to,
        "priority": options.priority,
        "definition": definition,
    }
    api.put(f"{policies_path(options)}/{part(options.name)}", body)
    output.said(f"policy '{options.name}' holds", name=options.name, vhost=options.vhost, **body)


def delete_policy(api: Api, output: Output, options: argparse.Namespace) -> None:
    api.delete(f"{policies_path(options)}/{part(options.name)}")
    output.said(f"policy '{options.name}' is deleted", deleted=options.name, vhost=options.vhost)


# -- limits

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


def limit_path(options: argparse.Namespace, limit: str) -> str:
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
        api.put(limit_path(options, key), {"value": number})
    text = f"{KINDS[options.kind]} '{options.name}' has the limits {shown(wanted)}"
    output.said(text, of=options.kind, name=options.name, limits=wanted)


def delete_limits(api: Api, output: Output, options: argparse.Namespace) -> None:
    for key in options.limits:
        api.delete(limit_path(options, key))
    text = f"{KINDS[options.kind]} '{options.name}' has no limit {', '.join(options.limits)}"
    output.said(text, of=options.kind, name=options.name, deleted=options.limits)
