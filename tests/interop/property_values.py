"""Header tables and basic properties that clients send, for the round-trip tests of several clients."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

INSTANT = dt.datetime(2026, 2, 3, 4, 5, 6, tzinfo=dt.UTC)

# Every value type that pika, pamqp and py-amqp can all write. Integers sit at the edges where an encoder
# changes to the next wider type.
HEADERS: dict[str, object] = {
    "short": "value",
    "unicode": "süß ☕ 💥",
    "empty": "",
    "long": "x" * 3_000,
    "true": True,
    "false": False,
    "zero": 0,
    "byte": 127,
    "byte-min": -128,
    "short-max": 32_767,
    "ushort-max": 65_535,
    "int-max": 2**31 - 1,
    "int-min": -(2**31),
    "uint-max": 2**32 - 1,
    "long-max": 2**63 - 1,
    "long-min": -(2**63),
    "nothing": None,
    "when": INSTANT,
    "table": {"inner": {"innermost": [1, "two", {"three": 3}]}},
    "array": ["a", 1, True, None, ["nested", []], {}],
    "empty-table": {},
    "empty-array": [],
}
DECIMALS: dict[str, object] = {"price": Decimal("12.34"), "whole": Decimal("7")}
# Some clients write single precision, some double: these numbers are the same in both.
FLOATS: dict[str, object] = {"quarter": 0.25, "negative": -1.5, "large": 2.0**100}

PROPERTIES: dict[str, object] = {
    "content_type": "application/json",
    "content_encoding": "utf-8",
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "c0rrelation",
    "reply_to": "somewhere",
    "expiration": "3600000",
    "message_id": "m-1",
    "user_id": "guest",
    "app_id": "interop",
}
