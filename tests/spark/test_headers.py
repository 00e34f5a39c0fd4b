"""Headers there and back: what the column `headers_json` has is sent with the types it had."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest

from embermq.wire.table import Timestamp
from pyspark_embermq.decoding.columns import as_json, typed
from pyspark_embermq.encoding.headers import headers_from
from pyspark_embermq.errors import AMQPSourceError


def test_types_come_back() -> None:
    headers = {
        "n": 7,
        "text": "x",
        "at": Timestamp(1_700_000_000),
        "raw": b"\x00\xff",
        "price": Decimal("1.50"),
        "nothing": None,
        "x-death": [{"count": 2, "time": Timestamp(1_700_000_001), "queue": "q"}],
    }
    found = headers_from(json.dumps(typed(headers), default=as_json))
    assert found == headers
    assert isinstance(found["at"], Timestamp) and isinstance(found["x-death"][0]["time"], Timestamp)
    then = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
    assert headers_from(json.dumps({"at": then}, default=as_json)) == {"at": int(then.timestamp())}


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": {"$bytes": "x"}}'])
def test_what_is_none_is_told(text: str) -> None:
    with pytest.raises(AMQPSourceError, match="column 'headers_json' has"):
        headers_from(text)
