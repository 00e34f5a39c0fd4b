"""A reader of some headers of messages, by their names: nothing is decoded but the values asked for."""

from __future__ import annotations

from embermq.broker.message.message import headers_at
from embermq.wire.field_scan import FieldScan
from embermq.wire.table import decode_table

NAMES_PER_SCAN = 16
SCANS_MAX = 4  # with more names than these have, the table is decoded


class HeaderReader:
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        parts = [names[at : at + NAMES_PER_SCAN] for at in range(0, len(names), NAMES_PER_SCAN)]
        self.scans = [] if len(parts) > SCANS_MAX else [(part, FieldScan(part)) for part in parts]

    def read(self, content: bytes, header_size: int) -> dict[str, object]:
        """Those of the headers that a message with this content has."""
        at = headers_at(content)
        if at == 0 or not self.names:
            return {}
        if not self.scans:
            return decode_table(content, at, header_size)[0]
        found: dict[str, object] = {}
        for names, scan in self.scans:
            scan.read(content, at, header_size)
            if scan.found:
                for number, name in enumerate(names):
                    if scan.has(number):
                        found[name] = scan.value(content, number)
        return found
