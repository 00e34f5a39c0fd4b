"""A scanner of encoded field tables: checks one and finds some of its fields, in one walk over its bytes.

The interpreted twin of `field_scan.pyx`.

    scan = FieldScan(("CC", "BCC"))
    stop = scan.read(buf, headers_at, len(buf))   # SyntaxFault where the table is not well formed
    if scan.found and scan.has(0): ... scan.value(buf, 0)
"""

from __future__ import annotations

from embermq.wire.primitive import Buffer
from embermq.wire.table import decode_table

NAMES_MAX = 16


class FieldScan:
    def __init__(self, names: tuple[str, ...]) -> None:
        if len(names) > NAMES_MAX:
            raise ValueError(f"{len(names)} names, {NAMES_MAX} are the most")
        self.names = tuple(name.encode("utf-8", "surrogateescape") for name in names)
        self.wanted = names
        self.fields: dict[str, object] = {}
        self.found = 0  # how many of the names the table has that was read last

    def read(self, buf: Buffer, pos: int, end: int) -> int:
        """Check the table at `pos` and note where the wanted fields are; the position behind it."""
        if pos < 0 or end > len(buf):
            raise IndexError(f"bytes {pos}..{end} of a buffer of {len(buf)}")
        self.fields, self.found = {}, 0
        self.fields, stop = decode_table(buf, pos, end)
        self.found = sum(name in self.fields for name in self.wanted)
        return stop

    def has(self, number: int) -> bool:
        """Was there a field with that name (the number of it among those of the scan)?"""
        if not 0 <= number < len(self.wanted):
            raise IndexError(number)
        return self.wanted[number] in self.fields

    def value(self, buf: Buffer, number: int) -> object:
        """Its value, as `decode_table` would give it; None where there is none."""
        return self.fields.get(self.wanted[number]) if self.has(number) else None
