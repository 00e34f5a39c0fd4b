"""Record batches to published messages, column by column: Arrow's buffers in, no Python object for any row.

For what is common: bodies as they are, properties and addresses out of columns of text, headers out of a map
of texts. Rows that need more (typed headers) are taken one by one, see `row_writer`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from embermq.client import Properties
from embermq.client.core.columns import Values
from embermq.wire import properties as wire
from embermq.wire.columns.property_rows import PropertyRows, RowHeaders
from embermq.wire.columns.publish_rows import Cells
from pyspark_embermq.options import Options

DEDUPLICATION_HEADER = "x-deduplication-id"
NUMBERS = ("delivery_mode", "priority")
FLAGS = {name: getattr(wire, f"FLAG_{name.upper()}") for name in Properties.__slots__}
MICROSECONDS = 1_000_000


def goes_as_columns(schema: pa.Schema) -> bool:
    """Whether rows of this schema need nothing that is done row by row."""
    names = set(schema.names)
    if "headers" in names:
        kind = schema.field("headers").type
        return bool(pa.types.is_map(kind)) and is_text(kind.key_type) and is_text(kind.item_type)
    return "headers_json" not in names


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class MessageColumns:
    """One batch. `fixed` are the properties of all rows; a prefix makes ids, counted on from `first_row`."""

    def __init__(
        self, batch: pa.RecordBatch, options: Options, fixed: dict[str, Any], prefix: str, first_row: int
    ) -> None:
        self.batch = batch
        self.options = options
        self.fixed = fixed
        self.prefix = prefix
        self.first_row = first_row
        self.names = set(batch.schema.names)

    def bodies(self) -> Values:
        column = self.batch.column("body")
        return values(column.fill_null("" if is_text(column.type) else b""))

    def address(self, name: str, option: str) -> str | Values:
        """What the option says, for all; else a column, if there is one."""
        return option if option or name not in self.names else values(self.batch.column(name).fill_null(""))

    def properties(self) -> Properties | Values:
        own = self.names.intersection(Properties.__slots__)
        if not own and not self.prefix and "deduplication_id" not in self.names:
            return Properties(**self.fixed)
        made = PropertyRows(self.batch.num_rows)
        for name in Properties.__slots__:  # in the order of their flags
            if name == "headers":
                made.add_headers(self.headers())
            elif name in own:
                self.add(made, name)
            elif self.fixed.get(name) is not None:
                self.add_fixed(made, name)
        return Values(*made.encode())

    def add_fixed(self, made: PropertyRows, name: str) -> None:
        encoded = Properties(**{name: self.fixed[name]}).encode()
        made.add_same(FLAGS[name], encoded[2:])

    def add(self, made: PropertyRows, name: str) -> None:
        column = self.batch.column(name)
        default = self.fixed.get(name)
        if default is not None:
            column = column.fill_null(default)
        if name == "timestamp":
            # Towards zero, as a number of seconds that Python makes of a moment.
            moments = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            seconds = pc.divide(moments, MICROSECONDS)
            made.add_numbers(FLAGS[name], buffer_of(seconds, 8), 8, present(column))
        elif name in NUMBERS:
            made.add_numbers(FLAGS[name], buffer_of(column.cast(pa.int64()), 8), 1, present(column))
        else:
            made.add_texts(FLAGS[name], cells(column), present(column))

    def headers(self) -> RowHeaders:
        headers = RowHeaders()
        if "headers" in self.names:
            column = self.batch.column("headers")
            places = column.buffers()[1].slice(4 * column.offset, 4 * (len(column) + 1))
            headers.add_map(
                places, cells(column.keys), cells(column.items), present(column.items), present(column)
            )
        ids = self.batch.column("deduplication_id") if "deduplication_id" in self.names else None
        if ids is not None or self.prefix:
            headers.add_id(
                DEDUPLICATION_HEADER.encode(),
                f"{self.prefix}/".encode() if self.prefix else None,
                self.first_row,
                None if ids is None else cells(ids),
                None if ids is None else present(ids),
            )
        return headers


def values(column: pa.Array) -> Values:
    """Texts or bytes as the client takes them: Arrow's own buffers."""
    if column.type not in (pa.string(), pa.binary()):
        column = column.cast(pa.binary())
    _, places, data = column.buffers()
    if places is None or not places.size:
        return Values(bytes(4), b"")  # no rows at all
    return Values(places.slice(4 * column.offset, 4 * (len(column) + 1)), b"" if data is None else data)


def cells(column: pa.Array) -> Cells:
    found = values(column)
    return Cells(found.places, found.data)


def buffer_of(column: pa.Array, width: int) -> pa.Buffer:
    return column.buffers()[1].slice(width * column.offset, width * len(column))


def present(column: pa.Array) -> pa.Buffer | None:
    """A byte for each row; None: no row is null."""
    if not column.null_count:
        return None
    marks = column.is_valid().cast(pa.uint8())
    return buffer_of(marks, 1)
