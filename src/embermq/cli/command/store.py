"""`embermq store`: look at a data directory while no broker uses it. Only `adopt` changes something.

These commands do not ask a broker, there is none: they read the files themselves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

SOUND, DAMAGED, USAGE_ERROR = 0, 1, 2


def add_store(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    store = commands.add_parser(
        "store",
        help="look at the data of a stopped broker",
        description="Look at the data directory of a stopped broker. Only 'adopt' changes something in it.",
    )
    actions = store.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="verify every record, show a table of queues",
        description="Read and verify every record of every queue, and show what is there.",
        epilog="Exit code: 0 all is sound, 1 something is damaged or belongs to no queue, 2 the directory "
        "cannot be checked.",
    )
    check.add_argument("directory", metavar="DIR", help="the data directory of a stopped broker")
    check.set_defaults(run=run_check)
    dump = actions.add_parser(
        "dump",
        help="print the messages of a queue as JSON lines",
        description="Print the persistent messages of a queue, one JSON object per line, in the order in "
        "which they would be delivered.",
        epilog="A body that is not UTF-8 is printed as base64; the field 'encoding' says which it is.",
    )
    dump.add_argument("directory", metavar="DIR", help="the data directory of a stopped broker")
    dump.add_argument(
        "--queue", metavar="Q", required=True, help="its name (or the id that 'check' shows if it has none)"
    )
    dump.add_argument("--vhost", metavar="V", default="/", help="its virtual host (/)")
    dump.set_defaults(run=run_dump)
    adopt = actions.add_parser(
        "adopt",
        help="bring back queues whose definitions were lost",
        description="Make queues of directories that belong to none: what 'check' calls unclaimed. "
        "Definitions that have lost something, with which no broker starts, are accepted as they are.",
        epilog="Bindings, policies and users that were lost are not in these directories: declare them anew.",
    )
    adopt.add_argument("directory", metavar="DIR", help="the data directory of a stopped broker")
    adopt.add_argument("ids", metavar="ID", nargs="*", help="of a directory, as 'check' shows it (all)")
    adopt.add_argument("--queue", metavar="Q", help="the queue's name (the one it had)")
    adopt.add_argument("--vhost", metavar="V", help="its virtual host (the one it was in)")
    adopt.set_defaults(run=run_adopt)


def run_check(options: argparse.Namespace) -> int:
    from embermq.cli.command.store_report import check

    return reading(options.directory, lambda: DAMAGED if check(options.directory) else SOUND)


def run_dump(options: argparse.Namespace) -> int:
    from embermq.cli.command.store_report import dump

    return reading(options.directory, lambda: dump(options.directory, options.vhost, options.queue))


def run_adopt(options: argparse.Namespace) -> int:
    from embermq.cli.command.store_report import adopt

    return told(lambda: adopt(options.directory, options.ids, options.vhost, options.queue))


def reading(directory: str, action: Callable[[], int]) -> int:
    """Keep brokers out meanwhile."""
    from embermq.store.disk.layout import Layout
    from embermq.store.disk.lock import held_for_reading

    def read() -> int:
        with held_for_reading(Layout(directory).lock):
            return action()

    return told(read)


def told(action: Callable[[], int]) -> int:
    """Turn what cannot be done into a sentence."""
    from embermq.store.errors import StoreFailure

    try:
        return action()
    except BrokenPipeError:
        raise  # the reader of our output has gone: `main` handles that
    except (OSError, StoreFailure) as error:
        print(f"embermq: {error}", file=sys.stderr)
        return USAGE_ERROR
