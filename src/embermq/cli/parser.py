"""argparse's parser, more helpful to newcomers: it guesses what was meant, and shows what there is."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from typing import Any, NoReturn

from embermq.cli.errors import USAGE_ERROR

CHOICES = re.compile(r"invalid choice: (.*?) \(choose from (.*)\)$", re.DOTALL)
MISSING_COMMAND = re.compile(r"required: (COMMAND|ACTION)$")


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


class Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": Layout, **settings})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """An option that is unknown is told by the command it was given to, not by the whole program."""
        options, rest = super().parse_known_args(args, namespace)
        unknown = next((word for word in rest if word.startswith("--")), None)
        if unknown is not None:
            given = unknown.partition("=")[0]
            names = [name for name in self._option_string_actions if name.startswith("--")]
            guesses = difflib.get_close_matches(given, names, n=1)
            hint = f"did you mean '{guesses[0]}'?" if guesses else f"'{self.prog} --help' shows what there is"
            self.error(f"there is no option '{given}'; {hint}")
        return options, rest

    def error(self, message: str) -> NoReturn:
        if MISSING_COMMAND.search(message):
            self.print_help(sys.stderr)
            self.exit(USAGE_ERROR)
        found = CHOICES.search(message)
        if found is not None:
            given, names = found[1].strip("'\""), [name.strip("'\" ") for name in found[2].split(",")]
            choices = [name for name in names if not name.startswith("_")]  # the shell uses those
            guesses = difflib.get_close_matches(given, choices, n=1)
            hint = f"did you mean '{guesses[0]}'?" if guesses else f"there are: {', '.join(choices)}"
            message = f"{message[: found.start()]}there is no '{given}'; {hint}"
        elif "--help'" not in message and "did you mean" not in message:
            message = f"{message}; '{self.prog} --help' shows what there is"
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")
