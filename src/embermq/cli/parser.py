"""argparse's parser, more helpful to newcomers: it guesses what was meant, and shows what there is."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from typing import NoReturn

from embermq.cli.failure import USAGE_ERROR

CHOICES = re.compile(r"invalid choice: (.*?) \(choose from (.*)\)$", re.DOTALL)
MISSING_COMMAND = re.compile(r"required: (COMMAND|ACTION)$")


class Parser(argparse.ArgumentParser):
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
        self.print_usage(sys.stderr)
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")
