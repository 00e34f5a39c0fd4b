"""`embermq completion SHELL`: a script for the shell that completes commands, options and names.

It is written from the parser itself, so it knows every command that there is. For names of queues, exchanges
and the like it calls `embermq __names WORDS...` with the command line so far, whose last word is being typed;
names that begin with it are printed, a line each. A broker that does not answer soon, or refuses, has no
names: typing must not be disturbed.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import NamedTuple

from embermq.cli.api import api_from, part
from embermq.cli.commands import Commands
from embermq.cli.errors import CommandFailed
from embermq.cli.parser import LayoutWithText

SHELLS = ("bash", "zsh", "fish")
HOW = """for this shell, or in its start file (~/.bashrc, ~/.zshrc, ~/.config/fish/config.fish) for all:
  bash:  eval "$(embermq completion bash)"
  zsh:   eval "$(embermq completion zsh)"
  fish:  embermq completion fish | source"""
FILES = ("F", "FILE", "DIR")  # what options say their value is, where it is a file


class Offer(NamedTuple):
    """A word that may follow; none, where a file may."""

    word: str
    about: str
    is_file: bool = False  # what comes after it is one

    @property
    def is_option(self) -> bool:
        return self.word.startswith("--")


Path = tuple[str, ...]  # the words of a command: ("queue", "list")
Table = dict[Path, list[Offer]]


def add_completion(commands: Commands) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a completion script for your shell",
        description="Print a script that completes commands, options and the names of queues and the like.",
        epilog=HOW,
        formatter_class=LayoutWithText,
    )
    parser.add_argument("shell", choices=SHELLS)

    def run(options: argparse.Namespace) -> int:
        from embermq.cli.main import parser as top

        print(script(options.shell, dict(offers(top(), ()))), end="")
        return 0

    parser.set_defaults(run=run)


def offers(parser: argparse.ArgumentParser, path: Path) -> Iterator[tuple[Path, list[Offer]]]:
    """For each command what may follow it."""
    found: list[Offer] = []
    deeper: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        about = (action.help or "").replace("%%", "%")
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            shown = {name: below for name, below in action.choices.items() if not name.startswith("_")}
            found += [Offer(name, told.get(name, "")) for name in shown]
            deeper += list(shown.items())
        elif action.option_strings:
            long = [name for name in action.option_strings if name.startswith("--")]
            found += [Offer(name, about, action.metavar in FILES) for name in long]
        elif action.choices:
            found += [Offer(str(choice), "") for choice in action.choices]
        elif action.metavar in FILES:
            found.append(Offer("", "", is_file=True))
    yield path, sorted(found)
    for name, below in deeper:
        yield from offers(below, (*path, name))


def script(shell: str, table: Table) -> str:
    return {"bash": bash, "zsh": zsh, "fish": fish}[shell](table)


def bash(table: Table) -> str:
    cases = "\n".join(
        f'    "{" ".join(path)}") words="{" ".join(offer.word for offer in found)}" ;;'
        for path, found in sorted(table.items())
    )
    return f"""_embermq() {{
  local path="" words="" index word
  for ((index = 1; index < COMP_CWORD && index <= {depth(table)}; index++)); do
    word="${{COMP_WORDS[index]}}"
    [[ "$word" == -* ]] && break
    path="${{path:+$path }}$word"
  done
  while :; do
    case "$path" in
{cases}
    esac
    [[ -n "$words" || -z "$path" ]] && break
    [[ "$path" == *" "* ]] && path="${{path% *}}" || path=""
  done
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
  if [[ ${{#COMPREPLY[@]}} -eq 0 ]]; then
    while IFS= read -r word; do
      COMPREPLY+=("$(printf %q "$word")")
    done < <(embermq __names "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)
  fi
}}
complete -o default -F _embermq embermq
"""


def zsh(table: Table) -> str:
    """To be evaluated, or kept as `_embermq` in $fpath. A variable `path` would be that of all commands."""
    offered = {path: [described(offer) for offer in found if offer.word] for path, found in table.items()}
    cases = "\n".join(
        f"      {shlex.quote(' '.join(path))}) offered=({' '.join(offered[path])}) ;;"
        for path in sorted(table)
    )
    return f"""#compdef embermq
_embermq() {{
  local command="" word index
  local -a offered options names
  for ((index = 2; index < CURRENT && index <= {depth(table) + 1}; index++)); do
    word="${{words[index]}}"
    [[ "$word" == -* ]] && break
    command="${{command:+$command }}$word"
  done
  while :; do
    case "$command" in
{cases}
    esac
    [[ $#offered -gt 0 || -z "$command" ]] && break
    [[ "$command" == *" "* ]] && command="${{command% *}}" || command=""
  done
  options=("${{(@M)offered:#--*}}")
  offered=("${{(@)offered:#--*}}")
  if [[ "$PREFIX" == -* ]]; then
    _describe embermq options
    return
  fi
  if [[ $#offered -eq 0 ]]; then
    names=("${{(@f)$(embermq __names "${{(@Q)words[2,CURRENT-1]}}" "${{(Q)PREFIX}}" 2>/dev/null)}}")
    names=("${{(@)names:#}}")
  fi
  if (( $#offered )); then
    _describe embermq offered
  elif (( $#names )); then
    compadd -a names || _files
  elif [[ -n "$PREFIX" || "${{words[CURRENT-1]}}" == -* ]]; then
    _files
  else
    _describe embermq options
  fi
}}
if [[ "${{funcstack[1]}}" == _embermq ]]; then
  _embermq "$@"
else
  (( $+functions[compdef] )) || {{ autoload -U compinit && compinit }}
  compdef _embermq embermq
fi
"""


def described(offer: Offer) -> str:
    about = offer.about.replace(":", "\\:")
    return shlex.quote(f"{offer.word}:{about}" if about else offer.word)


def fish(table: Table) -> str:
    known = " ".join(quoted(" ".join(path)) for path in sorted(table))
    typed = "(commandline -opc)[2..] (commandline -ct)"
    lines = [
        f"""function __embermq_command
    set -l command
    for word in (commandline -opc)[2..]
        string match -q -- '-*' $word; and break
        set -a command $word
    end
    while not contains -- "$command" {known}
        set -e command[-1]
    end
    echo "$command"
end
function __embermq_at
    test (__embermq_command) = "$argv"
end
complete -c embermq -f
complete -c embermq -a '(embermq __names {typed} 2>/dev/null)'"""
    ]
    for path, found in sorted(table.items()):
        here = quoted(f"__embermq_at {' '.join(path)}".rstrip())
        for offer in found:
            what = f" -l {offer.word.removeprefix('--')}" if offer.is_option else f" -a '{offer.word}'"
            file = (" -r -F" if offer.word else " -F") if offer.is_file else ""
            about = f" -d {quoted(offer.about)}" if offer.about else ""
            lines.append(f"complete -c embermq -n {here}{what if offer.word else ''}{file}{about}")
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def depth(table: Table) -> int:
    return max(len(path) for path in table)


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
        """What kind of name may stand at the cursor."""
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
