"""Declaration of commands: a name, a sentence of help, arguments, and a function that runs it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from embermq.cli.api import Api, api_from
from embermq.cli.errors import USAGE_ERROR, CommandFailed
from embermq.cli.output import Output
from embermq.cli.parser import Layout, LayoutWithText

Commands = Any  # argparse's sub-parsers; their class is private
Run = Callable[[Api, Output, argparse.Namespace], None]
# As for add_argument: names and keywords.
Argument = tuple[tuple[str, ...], dict[str, Any]]


def argument(*names: str, **settings: Any) -> Argument:
    return names, settings


NAME = argument("name", metavar="NAME")
VHOST = argument("--vhost", "-V", metavar="V", default="/", help="virtual host (/)")
ANY_VHOST = argument("--vhost", "-V", metavar="V", help="only this virtual host")


def connection_options() -> argparse.ArgumentParser:
    """What every command that asks a broker takes."""
    common = argparse.ArgumentParser(add_help=False)
    where = common.add_argument_group("which broker, as whom")
    where.add_argument(
        "--url",
        metavar="URL",
        help="its management address (EMBERMQ_URL, http://localhost:15672)",
    )
    where.add_argument("--user", metavar="U", help="user name (EMBERMQ_USER, guest)")
    where.add_argument(
        "--password-file",
        metavar="F",
        help="file with the password, - asks for it (else EMBERMQ_PASSWORD)",
    )
    common.add_argument("--json", action="store_true", help="print JSON, for scripts")
    return common


class Group:
    """`embermq queue ...`: commands about one kind of thing."""

    def __init__(self, commands: Commands, name: str, about: str) -> None:
        parser = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        self.actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def command(self, name: str, run: Run, about: str, *arguments: Argument) -> None:
        add_command(self.actions, name, run, about, *arguments)


def add_command(
    commands: Commands, name: str, run: Run, about: str, *arguments: Argument, more: str = ""
) -> None:
    """`more` is shown below the options, as it is written."""
    parser = commands.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        parents=[connection_options()],
        epilog=more,
        formatter_class=LayoutWithText if more else Layout,
    )
    for names, settings in arguments:
        parser.add_argument(*names, **settings)

    def run_it(options: argparse.Namespace) -> int:
        api = api_from(options)
        try:
            run(api, Output(options.json), options)
        finally:
            api.close()
        return 0

    parser.set_defaults(run=run_it)


# -- arguments that many take


ARGUMENTS = argument(
    "--argument",
    "-a",
    metavar="NAME=VALUE",
    action="append",
    default=[],
    help="an x-argument; the value is JSON, or else text (x-max-length=1000); may be repeated",
)


def arguments_of(options: argparse.Namespace) -> dict[str, Any]:
    return named_values("argument", options.argument)


def named_values(what: str, texts: list[str]) -> dict[str, Any]:
    """Out of texts as NAME=VALUE, where the value is JSON or else text."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandFailed(f"{what} {text!r}: expected NAME=VALUE", USAGE_ERROR)
        found[name] = json_or_text(value)
    return found


def json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


FILTER = (
    argument(
        "--routing-key",
        "-k",
        metavar="PATTERN",
        help="only messages whose routing key fits (* and # as in topics)",
    ),
    argument("--exchange", "-e", metavar="NAME", help="only messages published to this exchange"),
    argument("--header", metavar="NAME[=VALUE]", help="only messages with this header"),
    argument("--body", metavar="TEXT", help="only messages whose body holds this text"),
    argument(
        "--where",
        metavar="CONDITION",
        help="only messages for which this selector is true, for example \"kind = 'vip' AND retries > 2\"",
    ),
)


def filter_of(options: argparse.Namespace) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        name: getattr(options, name) for name in ("routing_key", "exchange", "body") if getattr(options, name)
    }
    if options.where:
        wanted["selector"] = options.where
    if options.header:
        name, equals, value = options.header.partition("=")
        wanted["headers"] = {name: json_or_text(value) if equals else None}
    return wanted
