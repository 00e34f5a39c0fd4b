"""Output of commands: tables and sentences, or JSON for scripts (`--json`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

# A column: its title, and the field of a row, or how to get it from the row.
Column = tuple[str, str | Callable[[Mapping[str, Any]], object]]


class Output:
    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def console(self, to_stderr: bool = False, width: int = 500) -> Console:
        from rich.console import Console

        stream = sys.stderr if to_stderr else sys.stdout
        # Into a pipe nothing is cut: the program that reads it wants all of it.
        fitting = None if stream.isatty() else width
        return Console(file=stream, highlight=False, soft_wrap=not stream.isatty(), width=fitting)

    def table(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], nothing: str) -> None:
        """Rows as a table; with --json whole, as the broker gave them."""
        if self.as_json:
            self.json(list(rows))
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        found = list(rows)
        if not found:
            print(nothing)
            return
        cells = [[shown(value_of(row, field)) for _, field in columns] for row in found]
        for title, field in columns:
            numbers = all(is_number(value_of(row, field)) for row in found)
            table.add_column(title, justify="right" if numbers else "left", overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))  # names are text, whatever markup they hold
        self.console().print(table)

    def one(self, row: Mapping[str, Any], columns: Sequence[Column]) -> None:
        """One thing: a line per field."""
        if self.as_json:
            self.json(row)
            return
        width = max(len(title) for title, _ in columns)
        for title, field in columns:
            print(f"{title:<{width}}  {shown(value_of(row, field)) or '-'}")

    def said(self, text: str, **facts: Any) -> None:
        """What was done: a sentence, or with --json the facts."""
        if self.as_json:
            self.json(facts)
        else:
            print(text)

    def json(self, value: object) -> None:
        print(json.dumps(value, indent=2, ensure_ascii=False))

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A bar on a terminal, nothing elsewhere; call what it gives with how much is done."""
        if self.as_json or not sys.stderr.isatty():
            yield lambda done: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = self.console(to_stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)


def value_of(row: Mapping[str, Any], field: str | Callable[[Mapping[str, Any]], object]) -> object:
    if callable(field):
        return field(row)
    value: Any = row
    for step in field.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, dict):  # settings, which people type again as they see them
        return ", ".join(
            f"{name}={item if isinstance(item, str) else json.dumps(item)}" for name, item in value.items()
        )
    # A name may hold anything: control characters would do things to a terminal.
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in str(value))


def counted(count: int, thing: str) -> str:
    """1 message, 2 messages, 1,000 batches."""
    ending = "es" if thing.endswith(("ch", "s")) else "s"
    return f"{count:,} {thing}{'' if count == 1 else ending}"


def size(count: object) -> str:
    """Bytes as people say them."""
    if not isinstance(count, int | float):
        return ""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"
