"""Times as Python has them, in the units of AMQP: seconds since 1970 and milliseconds."""

from __future__ import annotations

from calendar import timegm
from datetime import UTC, datetime, timedelta

MILLISECOND = timedelta(milliseconds=1)


def timestamp_of(moment: int | datetime) -> int:
    """Seconds since 1970. A time without a zone counts as UTC, as pika has it."""
    return timegm(moment.utctimetuple()) if isinstance(moment, datetime) else moment


def expiration_of(duration: str | timedelta) -> str:
    """The property expiration: milliseconds, as text."""
    return str(duration // MILLISECOND) if isinstance(duration, timedelta) else duration


def moment_of(timestamp: int) -> datetime:
    return datetime.fromtimestamp(timestamp, UTC)
