"""The last lines of the broker's log, kept in memory for `GET /api/log`."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

LINES_MAX = 2000
MESSAGE_CHARACTERS_MAX = 2000
FIELDS = ("connection", "channel", "user", "vhost")  # of what a line is about, where it says so


@dataclass(frozen=True)
class Line:
    number: int
    time_ms: int
    level: str
    logger: str
    message: str
    about: dict[str, str]

    def view(self) -> dict[str, Any]:
        return asdict(self)


class LogLines(logging.Handler):
    """Hears what goes to the log, whatever the log is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[Line] = deque(maxlen=LINES_MAX)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:
            self.handleError(record)
            return
        if record.exc_info and record.exc_info[1] is not None:
            message = f"{message}: {record.exc_info[1]!r}"
        self.count += 1
        about = {name: str(getattr(record, name)) for name in FIELDS if hasattr(record, name)}
        self.lines.append(
            Line(
                self.count,
                int(record.created * 1000),
                record.levelname.lower(),
                record.name,
                message[:MESSAGE_CHARACTERS_MAX],
                about,
            )
        )

    def after(self, number: int, level: int, count: int) -> list[Line]:
        """The last `count` lines beyond a number, of this level or a graver one."""
        names = logging.getLevelNamesMapping()
        found = [
            line for line in self.lines if line.number > number and names.get(line.level.upper(), 0) >= level
        ]
        return found[-count:]
