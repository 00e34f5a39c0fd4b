"""The parser of the command line: argparse's, which suggests what was probably meant."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from embermq.cli.errors import USAGE_ERROR

CHOICES = re.compile(r"invalid choice: (.*?) \(choose from (.*)\)$", re.DOTALL)
COMMAND, ACTION = "COMMAND", "ACTION"
MISSING_COMMAND = re.compile(rf"required: ({COMMAND}|{ACTION})$")
# What people type who know other programs, where the closest name is another one.
MEANT_OPTION = {
    "-p": "--amqp-port",
    "--port": "--amqp-port",
    "-d": "--data-dir",
    "-c": "--config",
    "-v": "--version",
    "-V": "--version",
}
MEANT_COMMAND = {
    "start": "serve",
    "run": "serve",
    "server": "serve",
    "version": "--version",
    "list": "queue list",
    "list_queues": "queue list",
    "list_exchanges": "exchange list",
    "list_connections": "connection list",
    "list_users": "user list",
    "add_user": "user add",
}
INSTEAD = {"stop": "Ctrl-C or SIGTERM stops a broker"}

HELP_COLUMN_MAX = 28  # how far to the right explanations may begin: behind the longest command


class Layout(argparse.HelpFormatter):
    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, max_help_position=HELP_COLUMN_MAX, **settings)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            # argparse forgets that commands stand further in than options, and breaks the longest lines.
            self._action_max_length += self._indent_increment


class LayoutWithText(Layout, argparse.RawDescriptionHelpFormatter):
    """What stands below the options is shown as it is written."""


def number(
    least: float, most: float = sys.float_info.max, kind: type[int] | type[float] = int
) -> Callable[[str], float]:
    """For `type=`: a number within these bounds."""

    def parse(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= (value := kind(text)) <= most:
                return value
        upper = "" if most == sys.float_info.max else f" to {most:g}"
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number from {least:g}{upper}")

    return parse


COUNT = number(0)
SECONDS = number(0.1, kind=float)


class Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": Layout, **settings})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """An option that is unknown is told by the command it was given to, not by the whole program."""
        options, rest = super().parse_known_args(args, namespace)
        unknown = next((word for word in rest if word.startswith("-") and word != "-"), None)
        if unknown is not None:
            self.refuse_option(unknown)
        return options, rest

    def refuse_option(self, word: str) -> NoReturn:
        given = word.partition("=")[0]
        names = [name for name in self._option_string_actions if name.startswith("--")]
        guess = MEANT_OPTION.get(given, "")
        if guess not in names:
            guess = next(iter(difflib.get_close_matches(given, names, n=1)), "")
        hint = f"did you mean '{guess}'?" if guess else f"'{self.prog} --help' shows what there is"
        self.error(f"there is no option '{given}'; {hint}")

    def error(self, message: str) -> NoReturn:
        if MISSING_COMMAND.search(message):
            self.print_help(sys.stderr)
            self.exit(USAGE_ERROR)
        found = CHOICES.search(message)
        if found is not None:
            message = self.refused_choice(message[: found.start()], found[1], found[2])
        elif "--help'" not in message and "did you mean" not in message and "command:" not in message:
            message = f"{message}; '{self.prog} --help' shows what there is"
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")

    def refused_choice(self, of: str, given: str, names: str) -> str:
        """`of` is argparse's `argument NAME: `; commands and actions are choices to argparse."""
        given = given.strip("'\"")
        choices = [name.strip("'\" ") for name in names.split(",")]
        choices = [name for name in choices if not name.startswith("_")]  # the shell uses those
        guess = next(iter(difflib.get_close_matches(given, choices, n=1)), "")
        command = of in (f"argument {COMMAND}: ", f"argument {ACTION}: ")
        if command:
            kind = of.split()[1].rstrip(":").lower()
            problem = f"there is no {kind} '{given}'"
            if given in INSTEAD:
                return f"{problem}; {INSTEAD[given]}"
            guess = MEANT_COMMAND.get(given, guess)
            guess = f"{self.prog} {guess}" if guess else ""
        else:
            problem = f"{of}there is no '{given}'"
        return f"{problem}; " + (f"did you mean '{guess}'?" if guess else f"there are: {', '.join(choices)}")
