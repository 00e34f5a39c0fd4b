"""Columns out of blocks of a stream (embermq.wire.columns.block): each delivery holds many messages.

The broker sends stored messages as they are, one behind the other, and we take them apart: three
frames for each are neither written nor read. Only where the broker says that it can, see `known_arguments`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from embermq.client.core.columns import Columns
from embermq.errors import SyntaxFault
from embermq.wire.columns.block import BlockRows
from embermq.wire.columns.column import field_value
from embermq.wire.delivery_headers import COUNT_FIELD

BLOCKS = "x-stream-blocks"
TIMES = "x-stream-timestamps"
CAPABILITY = "embermq.stream_blocks"
BLOCK_FIELD = COUNT_FIELD


def known_arguments(
    arguments: dict[str, object], server_properties: Mapping[str, object]
) -> dict[str, object]:
    """Without blocks if the broker has none: one that does not know them would send ordinary deliveries."""
    capabilities = server_properties.get("capabilities")
    if isinstance(capabilities, dict) and capabilities.get(CAPABILITY) is True:
        return arguments
    return {name: value for name, value in arguments.items() if name != BLOCKS}


def columns_for(wanted: Collection[str], arguments: Mapping[str, object]) -> Columns:
    """For a consumer with these arguments."""
    if arguments.get(BLOCKS) is not True:
        return Columns(wanted)
    return BlockColumns(wanted, arguments.get(TIMES) is True)


class BlockColumns(Columns):
    """A block counts, with all its messages, when its last byte is there."""

    __slots__ = ("promised", "rest", "rows")

    def __init__(self, wanted: Collection[str], timed: bool) -> None:
        super().__init__(wanted)
        self.rows = BlockRows(
            self.bodies,
            self.exchanges,
            self.routing_keys,
            self.properties,
            self.offsets,
            self.redelivered,
            timed,
        )
        self.promised = 0  # messages in this block
        self.rest = bytearray()  # of a record whose end comes with the next frame

    def on_deliver(self, buf: bytearray, tag: int, redelivered: bool, pos: int, stop: int) -> int:
        self.tag = tag
        return 0

    def on_header(self, buf: bytearray, pos: int, stop: int) -> int:
        self.promised = field_value(buf, pos, stop, BLOCK_FIELD)
        if self.promised < 0:
            raise SyntaxFault("a delivery that is no block of a stream, for a consumer that gets blocks")
        self.rows.begin()
        return 0

    def on_body(self, buf: bytearray, pos: int, stop: int) -> int:
        if len(self.rest):
            self.rest += buf[pos:stop]
            done = self.rows.unpack(self.rest, 0, len(self.rest))
            del self.rest[:done]
            return 0
        done = self.rows.unpack(buf, pos, stop)
        if done < stop:
            self.rest += buf[done:stop]
        return 0

    def whole(self) -> int:
        if len(self.rest):
            raise SyntaxFault(f"a block of a stream ends in the middle of its record {self.rows.count}")
        if self.rows.count != self.promised:
            raise SyntaxFault(f"a block of a stream has {self.rows.count} messages, not {self.promised}")
        self.last_tag = self.tag
        self.count += self.rows.count
        return 0

    def forget_part(self) -> None:
        self.rest.clear()
        super().forget_part()
