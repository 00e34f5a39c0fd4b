"""Names for the shell's completion: queues, exchanges and the like, asked of the broker while somebody types.

The script that `embermq completion` prints calls `embermq __names WORDS...` with the command line so far; the
last word is the one that is being typed. Names that begin with it are printed, a line each. Whoever types
must not be disturbed: a broker that does not answer soon, or does not want to, has no names.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import SimpleNamespace

from embermq.cli.api import api_from, part
from embermq.cli.commands import Commands
from embermq.cli.errors import CommandFailed

TIMEOUT_S = 2.0
NAMES_MAX = 500
# What a list is asked for by; {vhost} is the one of the command line.
PATHS = {
    "queue": "/api/queues/{vhost}",
    "exchange": "/api/exchanges/{vhost}",
    "vhost": "/api/vhosts",
    "user": "/api/users",
    "policy": "/api/policies/{vhost}",
    "connection": "/api/connections",
}
BY_METAVAR = {"QUEUE": "queue", "TO": "queue", "EXCHANGE": "exchange", "USER": "user"}
BY_OPTION = {"--vhost": "vhost", "--exchange": "exchange", "--user": "user"}
BY_GROUP = {**{kind: kind for kind in PATHS}, "stream": "queue"}
NEW_NAMES = ("declare", "add", "set", "super-declare")  # what they name is not there yet


def add_names(commands: Commands) -> None:
    parser = commands.add_parser("__names")
    parser.add_argument("words", nargs=argparse.REMAINDER)

    def run(options: argparse.Namespace) -> int:
        from embermq.cli.main import parser as top

        for name in names(top(), options.words):
            print(name)
        return 0

    parser.set_defaults(run=run)


def names(parser: argparse.ArgumentParser, words: Sequence[str]) -> Iterator[str]:
    line = CommandLine(parser, words)
    kind = line.kind()
    if kind is None:
        return
    told = SimpleNamespace(url=None, user=None, password_file=None)
    for option, value in line.values.items():
        setattr(told, option, value)
    if told.password_file == "-":
        return  # asking for it here would be in the way
    path = PATHS[kind].format(vhost=part(line.values.get("vhost", "/")))
    try:
        api = api_from(told)
        api.timeout_s = TIMEOUT_S
        with closing(api):
            found = api.get(path, columns="name", page=1, page_size=NAMES_MAX, name=line.typed)
    except CommandFailed:
        return
    rows = found["items"] if isinstance(found, dict) else found
    for row in rows:
        if row["name"].startswith(line.typed) and row["name"].isprintable():
            yield row["name"]


class CommandLine:
    """What was typed so far, as the parser would take it."""

    def __init__(self, parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
        self.path: list[str] = []
        self.values: dict[str, str] = {}  # of options, by the name that the parser has for them
        self.positionals = 0
        self.open_option: argparse.Action | None = None  # one whose value is typed now
        *before, self.typed = words or [""]
        self.parser = parser
        for word in before:
            self.take(word)

    def take(self, word: str) -> None:
        option, equals, value = word.partition("=")
        if self.open_option is not None:
            self.values[self.open_option.dest] = word
            self.open_option = None
        elif word.startswith("-"):
            action = self.parser._option_string_actions.get(option)
            if action is not None and equals:
                self.values[action.dest] = value
            elif action is not None and action.nargs != 0:
                self.open_option = action
        else:
            below = next((a for a in self.parser._actions if isinstance(a, argparse._SubParsersAction)), None)
            if below is not None and word in below.choices:
                self.path.append(word)
                self.parser = below.choices[word]
            else:
                self.positionals += 1

    def kind(self) -> str | None:
        """Of the thing whose name may stand where somebody types."""
        if self.open_option is not None:
            if self.path == ["publish"] and self.open_option.dest == "routing_key":
                return "queue"  # by the default exchange
            return next((BY_OPTION[o] for o in self.open_option.option_strings if o in BY_OPTION), None)
        if self.typed.startswith("-"):
            return None
        places = self.parser._get_positional_actions()
        if self.positionals >= len(places) or not self.path:
            return None
        metavar = places[self.positionals].metavar
        if metavar == "NAME":
            return None if self.path[-1] in NEW_NAMES else BY_GROUP.get(self.path[0])
        return BY_METAVAR.get(str(metavar))
