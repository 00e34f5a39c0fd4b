"""`embermq completion SHELL`: a script for the shell that completes commands, options and names.

It is written from the parser itself, so it knows every command that there is. Names are asked of the broker
(see completed_names).
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from embermq.cli.commands import Commands
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
