"""Headers from the column `headers_json`, with the types that they had (columns.py writes it)."""

from __future__ import annotations

import base64
import datetime
import json
from decimal import Decimal
from typing import Any

from embermq.wire.table import Timestamp
from pyspark_embermq.errors import AMQPSourceError


def headers_from(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_hook=value_of)
    except ValueError as error:
        raise AMQPSourceError(f"column 'headers_json' has {text[:100]!r}: {error}") from None
    if not isinstance(found, dict):
        raise AMQPSourceError(f"column 'headers_json' has {text[:100]!r}; expected a JSON object")
    return found


def value_of(found: dict[str, Any]) -> Any:
    """A JSON object: a table, or one of the types that JSON has not."""
    if len(found) != 1:
        return found
    ((name, value),) = found.items()
    if name == "$timestamp":
        is_text = isinstance(value, str)
        return Timestamp(int(datetime.datetime.fromisoformat(value).timestamp() if is_text else value))
    if name == "$bytes":
        return base64.b64decode(value)
    return Decimal(value) if name == "$decimal" else found
