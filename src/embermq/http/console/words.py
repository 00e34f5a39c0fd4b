"""Numbers, times and sizes as text for pages."""

from __future__ import annotations


def duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    shown = [f"{count} {unit}" for count, unit in parts if count][:2]
    return " ".join(shown) or "0 s"


def many(count: float) -> str:
    """12,345; small rates with their tenths."""
    return f"{count:,.1f}" if 0 < count < 10 and count != int(count) else f"{count:,.0f}"


def size(count: float) -> str:
    if count == 1:
        return "1 byte"
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return (
                f"{count:,.0f} {unit}" if unit in ("bytes", "KiB") or count >= 100 else f"{count:,.1f} {unit}"
            )
        count /= 1024
    return f"{count:,.1f} TiB"
