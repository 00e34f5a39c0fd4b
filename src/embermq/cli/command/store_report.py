"""Output of `embermq store`: a table of queues, or the messages of one as JSON lines."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from embermq.broker.message.record import message_of
from embermq.cli.output import shown
from embermq.errors import AMQPError
from embermq.store.definitions import definitions_damage, definitions_doubt
from embermq.store.disk.filesystem import FileSystem
from embermq.store.disk.layout import DELAYED_PREFIX, Layout, owner_id
from embermq.store.log.record import PERSISTENT, Record
from embermq.store.recovery.adopt import adopt as adopt_all
from embermq.store.recovery.check import QueueReport, check_directory, queue_names
from embermq.store.recovery.dump import dump_queue

COLUMNS = ("vhost", "queue", "segments", "messages", "bytes", "on disk", "damage")
NO_NAME = "(no queue)"
DELAYED_NAME = "(delayed messages)"
UNCLAIMED = "(unclaimed)"


@dataclass
class Row:
    """A queue in the table: the logs of its two priority levels together."""

    vhost: str
    name: str
    reports: list[QueueReport] = field(default_factory=list)

    def total(self, attribute: str) -> int:
        return sum(getattr(report, attribute) for report in self.reports)

    @property
    def damage(self) -> str:
        if any(report.refused for report in self.reports):
            return "cannot be read"
        files = sum(len(report.damages) for report in self.reports)
        return counted(files, "file") if files else "-"

    def cells(self) -> list[str]:
        numbers = ("segments", "messages", "message_bytes", "bytes_on_disk")
        named = [shown(self.vhost), shown(self.name)]
        return [*named, *(f"{self.total(name):,}" for name in numbers), self.damage]


def check(directory: str) -> bool:
    """Print what is there; whether something is damaged, or belongs to no queue."""
    layout = Layout(directory)
    layout.check_version(FileSystem())
    needed_for = layout.queues if layout.queue_ids(FileSystem()) else ""
    broken_definitions = definitions_damage(layout.definitions, needed_for)
    reports = list(check_directory(directory, names_known=not broken_definitions))
    rows = rows_of(reports, {} if broken_definitions else queue_names(layout, FileSystem()))
    print_table([row.cells() for row in rows])
    doubt = str(broken_definitions) if broken_definitions else definitions_doubt(layout.definitions)
    damage = [doubt] if doubt else []
    for report in reports:
        damage += [str(one) for one in report.damages]
        damage += [report.refused] if report.refused else []
    unclaimed = [unclaimed_line(report) for report in reports if report.unclaimed]
    print()
    for line in [*damage, *unclaimed]:
        print(line)
    for note in notes_on(reports):
        print(note)
    if unclaimed:
        print(f"'embermq store adopt {directory}' makes queues of them; yours to delete if they are no use")
    queues = sum(row.name not in (NO_NAME, DELAYED_NAME, UNCLAIMED) for row in rows)
    messages = sum(report.messages for report in reports)
    verdicts = [f"DAMAGED in {counted(len(damage), 'place')}"] if damage else []
    verdicts += [f"{counted(len(unclaimed), 'log')} WITHOUT A QUEUE"] if unclaimed else []
    print(f"{counted(queues, 'queue')}, {counted(messages, 'message')}: {', '.join(verdicts) or 'sound'}")
    return bool(damage or unclaimed)


def unclaimed_line(report: QueueReport) -> str:
    whose = "it does not say whose" if report.label is None else f"once of {report.label}"
    return f"{report.unclaimed} belongs to no queue ({whose}): {counted(report.messages, 'message')}"


def adopt(directory: str, ids: list[str], vhost: str | None, queue: str | None) -> int:
    """Make queues of directories that belong to none."""
    for line in adopt_all(directory, ids, vhost, queue):
        print(line)
    return 0


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rows_of(reports: Iterable[QueueReport], names: dict[str, tuple[str, str]]) -> list[Row]:
    """A row per queue that is defined, whether it has files or not; then what belongs to none."""
    rows = {queue_id: Row(vhost, name) for queue_id, (vhost, name) in names.items()}
    strays = []
    for report in reports:
        row = rows.get(owner_id(report.queue_id))
        if row is None:
            name = DELAYED_NAME if report.queue_id.startswith(DELAYED_PREFIX) else NO_NAME
            name = UNCLAIMED if report.unclaimed else name
            strays.append(Row(report.queue_id, name, [report]))
        else:
            row.reports.append(report)
    return [*sorted(rows.values(), key=lambda row: (row.vhost, row.name)), *strays]


def notes_on(reports: Iterable[QueueReport]) -> Iterable[str]:
    for report in reports:
        if report.torn_bytes:
            yield (
                f"{report.queue_id}: the last write was cut off, {report.torn_bytes} bytes will be dropped "
                "at the next start (nothing in them was confirmed)"
            )
        for name in report.set_aside:
            yield f"{report.queue_id}: {name} was set aside by an earlier start; yours to keep or delete"


def print_table(rows: list[list[str]]) -> None:
    table = [list(COLUMNS), *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(COLUMNS))]
    for row in table:
        cells = [
            cell.rjust(width) if 2 <= at <= 5 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def dump(directory: str, vhost: str, queue: str) -> int:
    """Print the messages of a queue: the higher priorities first, as they would be delivered."""
    for record in dump_queue(directory, vhost, queue):
        print(json.dumps(record_view(record), default=plain))
    return 0


def record_view(record: Record) -> dict[str, Any]:
    when = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    view: dict[str, Any] = {
        "sequence": record.sequence,
        "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "persistent": record.flags & PERSISTENT != 0,
    }
    try:
        message = message_of(record.payload, record.flags)
        properties = message.properties
        view |= {"exchange": message.exchange, "routing_key": message.routing_key}
        view["properties"] = {
            name: value for name in properties.__slots__ if (value := getattr(properties, name)) is not None
        }
        body = message.body
    except (AMQPError, struct.error, IndexError):
        body = record.payload  # the checksum is right, but it is no message of ours: show it all the same
        view["unknown"] = True
    try:
        view |= {"body": body.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        view |= {"body": base64.b64encode(body).decode(), "encoding": "base64"}
    return view


def plain(value: object) -> object:
    """What a field table may hold and JSON has no word for."""
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    return str(value)  # a decimal keeps its digits
