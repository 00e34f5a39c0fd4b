"""Times in the units of AMQP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from embermq.wire.properties import Properties
from embermq.wire.table import decode_table, encode_table
from embermq.wire.times import expiration_of, moment_of, timestamp_of

MOMENT = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)


def test_moments() -> None:
    assert timestamp_of(MOMENT) == timestamp_of(MOMENT.replace(tzinfo=None)) == int(MOMENT.timestamp())
    assert timestamp_of(MOMENT.astimezone(timezone(timedelta(hours=5)))) == int(MOMENT.timestamp())
    assert timestamp_of(17) == 17
    assert moment_of(timestamp_of(MOMENT)) == MOMENT


def test_durations() -> None:
    assert expiration_of(timedelta(seconds=1.5)) == "1500"
    assert expiration_of("60000") == "60000"


def test_in_properties_and_tables() -> None:
    properties = Properties(timestamp=MOMENT, expiration=timedelta(minutes=1))
    raw = properties.encode()
    assert Properties.decode(raw, 0, len(raw)) == Properties(
        timestamp=int(MOMENT.timestamp()), expiration="60000"
    )
    table = encode_table({"x-message-ttl": timedelta(seconds=2)})
    assert decode_table(table, 0, len(table))[0] == {"x-message-ttl": 2000}
