"""`embermq config`: check a configuration, show the one that holds, print one to begin with."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from embermq.config import NAMES, Config, ConfigError, load

USAGE_ERROR = 2


def config_file(options: argparse.Namespace) -> Path | None:
    """The file that is named on the command line, or by EMBERMQ_CONFIG."""
    named = getattr(options, "config", None) or os.environ.get("EMBERMQ_CONFIG")
    return Path(named) if named else None


def load_config(options: argparse.Namespace) -> Config:
    flags: Mapping[str, object] = {name: getattr(options, name, None) for name in NAMES}
    return load(config_file(options), os.environ, flags)


def add_config(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    config = commands.add_parser(
        "config",
        help="check, show or begin a configuration",
        description="Check, show or begin a configuration. No broker is needed, none is touched.",
    )
    actions = config.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="is this configuration one that the broker would start with?",
        description="Read a configuration as the broker would, the environment and the files it names "
        "included, and say what is wrong with it. Exit code 2 if anything is.",
    )
    check.add_argument("config", metavar="FILE", type=Path, nargs="?", help="configuration file (TOML)")
    check.set_defaults(run=run_check)
    show = actions.add_parser(
        "show",
        help="the settings that hold, secrets masked; defaults are comments",
        description="Print the settings that hold, from file and environment together, as a configuration "
        "file: secrets masked, defaults as comments.",
    )
    show.add_argument("--config", metavar="FILE", type=Path, help="configuration file (TOML)")
    show.add_argument("--json", action="store_true", help="print JSON, for scripts: all settings that hold")
    show.set_defaults(run=run_show)
    begin = actions.add_parser(
        "example",
        help="a file with every setting, its default and its meaning",
        description="Print a configuration file to begin with: all settings, their defaults and meanings.",
    )
    begin.set_defaults(run=run_example)


def run_check(options: argparse.Namespace) -> int:
    from embermq.app.file_checks import problems

    try:
        found = [problem for _, problem in problems(load_config(options))]
    except ConfigError as error:
        found = [str(error)]
    for problem in found:
        print(f"embermq: {problem}", file=sys.stderr)
    if found:
        return USAGE_ERROR
    print(f"{config_file(options) or 'the environment'}: good")
    return 0


def run_show(options: argparse.Namespace) -> int:
    from embermq.cli.output import Output
    from embermq.config.toml_text import plain, shown

    try:
        config = load_config(options)
        if options.json:
            Output(as_json=True).json(plain(config))
        else:
            print(shown(config), end="")
    except ConfigError as error:
        print(f"embermq: {error}", file=sys.stderr)
        return USAGE_ERROR
    return 0


def run_example(options: argparse.Namespace) -> int:
    from embermq.config.toml_text import example

    print(example(), end="")
    return 0
