"""`embermq completion SHELL`: a script for the shell that completes commands, options and names.

It is written from the parser itself, so it knows every command that there is. Names are asked of the broker
(see completed_names).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from embermq.cli.commands import Commands

SHELLS = ("bash", "zsh", "fish")


def add_completion(commands: Commands) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a completion script for your shell",
        description="Print a script that completes commands, options and the names of queues and the like.",
        epilog='bash: eval "$(embermq completion bash)"   zsh: the same with zsh   '
        "fish: embermq completion fish | source",
    )
    parser.add_argument("shell", choices=SHELLS)

    def run(options: argparse.Namespace) -> int:
        from embermq.cli.main import parser as top

        print(script(options.shell, dict(words(top(), ()))), end="")
        return 0

    parser.set_defaults(run=run)


def words(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """For each command what may follow it."""
    found: list[str] = []
    deeper: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            shown = {name: below for name, below in action.choices.items() if not name.startswith("_")}
            found += list(shown)
            deeper += list(shown.items())
        elif action.option_strings:
            found += [name for name in action.option_strings if name.startswith("--")]
        elif action.choices:
            found += [str(choice) for choice in action.choices]
    yield path, sorted(found)
    for name, below in deeper:
        yield from words(below, (*path, name))


def script(shell: str, table: dict[tuple[str, ...], list[str]]) -> str:
    if shell == "fish":
        return fish(table)
    cases = "\n".join(
        f'    "{" ".join(path)}") words="{" ".join(found)}" ;;' for path, found in sorted(table.items())
    )
    depth = max(len(path) for path in table)
    bash = f"""_embermq() {{
  local path="" words="" index word
  for ((index = 1; index < COMP_CWORD && index <= {depth}; index++)); do
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
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash}" if shell == "zsh" else bash


def fish(table: dict[tuple[str, ...], list[str]]) -> str:
    lines = ["complete -c embermq -f"]
    typed = "(commandline -opc)[2..] (commandline -ct)"
    lines.append(f"complete -c embermq -a '(embermq __names {typed} 2>/dev/null)'")
    for path, found in sorted(table.items()):
        seen = (
            "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path) or "__fish_use_subcommand"
        )
        options = [word.removeprefix("--") for word in found if word.startswith("--")]
        names = " ".join(word for word in found if not word.startswith("--"))
        if names:
            lines.append(f"complete -c embermq -n '{seen}' -a '{names}'")
        lines += [f"complete -c embermq -n '{seen}' -l {option}" for option in options]
    return "\n".join(lines) + "\n"
