"""Bodies that are flat JSON objects taken apart, into a column for each wanted field.

Only what is plain is taken: a number, text without escapes, boolean, day or time where the column is of that
kind, and null; other fields are passed over. Every other body (broken, of another type, a field twice, nested
where something is wanted, ...) is left to the caller, which decodes it otherwise. `json_columns.pyx` beside
this file is the compiled form. Interpreted there is nothing to gain: all bodies are left.

    kinds      int8 int16 int32 int64   double   bool   string   date (days since 1970)
               timestamp (microseconds since 1970; UTC if it names no zone)   local (likewise; names no zone)
               other: taken if it is absent or null
    columns    texts: bits of those that are there (or None: all are), places, data; everything else: bits (or
               None), 64-bit integers or doubles; None where no body has it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from embermq.wire.columns.publish_rows import Buffer

Made = list[tuple[Any, ...] | None]


class JsonColumns:
    """For batch after batch; fields are names and kinds."""

    __slots__ = ("_count",)

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self._count = len(fields)

    def decode(self, places: Buffer, data: Buffer, start: int, stop: int) -> tuple[Made, list[int]]:
        """The columns of the bodies [start, stop), and which of them are left, counted from `start`.

        What stands in the columns at their places means nothing.
        """
        return [None] * self._count, list(range(stop - start))
