"""AMQP values as JSON values."""

from __future__ import annotations

import base64
import math
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """A field value as JSON can have it."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return decoded(value)[0]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def decoded(data: bytes) -> tuple[str, str]:
    """Bytes as text with the name of the encoding: "string" where they are UTF-8, otherwise "base64"."""
    try:
        return data.decode("utf-8"), "string"
    except UnicodeDecodeError:
        return base64.b64encode(data).decode("ascii"), "base64"
