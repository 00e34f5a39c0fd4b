"""`embermq`: the command line."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from embermq import __version__
from embermq.cli.errors import CommandFailed
from embermq.cli.parser import Parser

INTERRUPTED = 130  # as shells have it: 128 + SIGINT
# Every command, where it is, and the function there that adds it. Only the one that is asked for is imported:
# the broker should not carry the tools of its operators.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("embermq.cli.command.serve", "add_serve"),
    "status": ("embermq.cli.command.overview", "add_status"),
    "top": ("embermq.cli.command.top", "add_top"),
    "publish": ("embermq.cli.command.messages", "add_publish"),
    "consume": ("embermq.cli.command.messages", "add_consume"),
    "perf": ("embermq.cli.command.perf", "add_perf"),
    "queue": ("embermq.cli.command.queues", "add_queue"),
    "lease": ("embermq.cli.command.leases", "add_lease"),
    "stream": ("embermq.cli.command.streams", "add_stream"),
    "exchange": ("embermq.cli.command.topology", "add_exchange"),
    "binding": ("embermq.cli.command.topology", "add_binding"),
    "vhost": ("embermq.cli.command.topology", "add_vhost"),
    "user": ("embermq.cli.command.users", "add_user"),
    "permission": ("embermq.cli.command.users", "add_permission"),
    "policy": ("embermq.cli.command.users", "add_policy"),
    "limit": ("embermq.cli.command.users", "add_limit"),
    "connection": ("embermq.cli.command.overview", "add_connection"),
    "channel": ("embermq.cli.command.overview", "add_channel"),
    "consumer": ("embermq.cli.command.overview", "add_consumer"),
    "definitions": ("embermq.cli.command.overview", "add_definitions"),
    "trace": ("embermq.cli.command.traces", "add_trace"),
    "pipeline": ("embermq.cli.command.pipelines", "add_pipeline"),
    "sql": ("embermq.cli.command.pipelines", "add_sql"),
    "config": ("embermq.cli.command.config", "add_config"),
    "doctor": ("embermq.cli.command.doctor", "add_doctor"),
    "store": ("embermq.cli.command.store", "add_store"),
    "completion": ("embermq.cli.command.completion", "add_completion"),
    "__names": ("embermq.cli.command.completion", "add_names"),
}


class Version(argparse.Action):
    """Which modules are compiled is looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from embermq.build import version_text

        print(version_text(__version__))
        parser.exit()


def parser(only: str | None = None) -> Parser:
    """Everything that can be typed, or one command of it."""
    top = Parser(
        prog="embermq",
        description="EmberMQ, a message broker that speaks AMQP 0-9-1.",
        epilog="Run 'embermq serve' and connect any AMQP 0-9-1 client to amqp://guest:guest@localhost/.",
    )
    top.add_argument("--version", action=Version, nargs=0, help="the version, compiled or interpreted")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS if only is None else (only,):
        module, function = COMMANDS[name]
        getattr(importlib.import_module(module), function)(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] == "help":
        words = [*words[1:], "--help"]
    only = words[0] if words and words[0] in COMMANDS else None
    command = next((word for word in words if word in COMMANDS), None)
    if command is not None and words[0].startswith("--") and words[0] not in ("--help", "--version"):
        parser(command).error(f"options come behind the command: embermq {command} {words[0]} ...")
    top = parser(only)
    if words and words[0].startswith("-") and words[0] not in ("-h", "--help", "--version"):
        top.refuse_option(words[0])
    try:
        options = top.parse_args(words)
        prepare_output()
        code: int = options.run(options)
        sys.stdout.flush()  # here, where a reader that has gone is no error, and not at the very end
    except CommandFailed as failure:
        print(f"embermq: {failure}", file=sys.stderr)
        return failure.code
    except BrokenPipeError:
        # The reader of our output has closed the pipe. Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def prepare_output() -> None:
    """Make output work whatever stdout is, even closed."""
    if sys.stdout is None:  # closed by the shell (`>&-`)
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may not know all letters of a name


if __name__ == "__main__":
    sys.exit(main())
