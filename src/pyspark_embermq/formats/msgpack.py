"""Bodies in MessagePack: a map of the columns' names to values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats.typed_values import rows_of


def msgpack_module() -> Any:
    try:
        from msgspec import msgpack
    except ImportError:
        raise AMQPSourceError(
            "option 'format' is 'msgpack': that needs msgspec (pip install msgspec)"
        ) from None
    return msgpack


def msgpack_reader() -> Callable[[bytes], Any]:
    decode: Callable[[bytes], Any] = msgpack_module().Decoder().decode
    return decode


def msgpack_bodies(columns: dict[str, pa.Array], count: int) -> pa.Array:
    """Times are timestamps of MessagePack, days and decimals texts; a null is a nil."""
    encode = msgpack_module().Encoder().encode
    return pa.array([encode(row) for row in rows_of(columns, count)], pa.binary())
