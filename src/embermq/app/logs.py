"""Logs: lines for people on a terminal, JSON for programs; and an audit log of who did what.

What a record knows of a connection (`extra=about(connection)`) stands behind the text, or in fields of its
own:

    12:00:00 WARNING login refused for user 'eve'  [connection=192.0.2.1:50000 -> 192.0.2.2:5672] {"time":
    "2026-01-01T12:00:00.000Z", "level": "warning", "logger": "embermq.connection", "message": "login ...

Secrets are not logged: nothing that holds one is ever given to a logger.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TextIO

from embermq.broker.events import Event, Events
from embermq.config import Config

FIELDS = ("connection", "channel", "user", "vhost")
AUDIT = "embermq.audit"
# What is told of: logins, refusals, and what an administrator changes. Not the coming and going of clients.
AUDITED = ("user.", "permission.", "topic.permission.", "vhost.", "policy.", "parameter.", "queue.deleted",
           "queue.created", "exchange.created", "exchange.deleted",
           "definitions.", "alarm.", "access.")  # fmt: skip
VALUE_CHARACTERS_MAX = 1000
LOGGED_IN = "user.authentication.success"
REPEATED_MS = 600_000
SEEN_MAX = 1000


def timestamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


class JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        told |= getattr(record, "audit", {})
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        # A name with a line break in it must not look like a line of ours.
        line = super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")
        known = {name: str(getattr(record, name)) for name in FIELDS if hasattr(record, name)}
        more = ", ".join(f"{name}={value!r}" for name, value in known.items() if value not in line)
        return f"{line}  [{more}]" if more else line


def formatter(config: Config, stream: TextIO) -> logging.Formatter:
    wanted = config.log.format
    if wanted == "auto":
        wanted = "text" if not config.log.file and stream.isatty() else "json"
    return TextFormatter() if wanted == "text" else JSONFormatter()


def handler(file: str, stream: TextIO) -> logging.Handler:
    if not file:
        return logging.StreamHandler(stream)
    from logging.handlers import WatchedFileHandler  # opens it anew when logrotate has moved it away

    return WatchedFileHandler(file)


def set_up(config: Config, stream: TextIO | None = None) -> None:
    """At start, and again at every reload."""
    stream = stream or sys.stderr
    root = logging.getLogger()
    replace_handlers(root, handler(config.log.file, stream), formatter(config, stream))
    root.setLevel(config.log_level.upper())
    audit = logging.getLogger(AUDIT)
    audit.setLevel(logging.INFO)
    audit.propagate = not config.log.audit_file
    if config.log.audit_file:
        replace_handlers(audit, handler(config.log.audit_file, stream), JSONFormatter())
    else:
        drop_handlers(audit)


def replace_handlers(logger: logging.Logger, new: logging.Handler, style: logging.Formatter) -> None:
    new.setFormatter(style)
    drop_handlers(logger)
    logger.addHandler(new)


def drop_handlers(logger: logging.Logger) -> None:
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()


class Audit:
    """Writes down what is worth an audit, as it happens."""

    def __init__(self, events: Events) -> None:
        self.log = logging.getLogger(AUDIT)
        self.seen: dict[tuple[object, ...], int] = {}  # logins by HTTP, which come with every request
        events.listen(self.note)

    def note(self, event: Event) -> None:
        if not event.key.startswith(AUDITED) or self.is_chatter(event):
            return
        told = {name: shown(value) for name, value in event.properties.items() if name != "pid"}
        fields = {"event": event.key, "actor": event.actor, **{f"about_{k}": v for k, v in told.items()}}
        about = ", ".join(f"{name}={value}" for name, value in told.items())
        self.log.info("%s by %s: %s", event.key, event.actor, about, extra={"audit": fields})

    def is_chatter(self, event: Event) -> bool:
        """The next request of one who was just noted, and the queues that clients have for themselves."""
        about = event.properties
        if event.key == LOGGED_IN and about.get("connection_type") == "http":
            who = (about.get("name"), about.get("peer_host"))
            if event.timestamp_ms - self.seen.get(who, -REPEATED_MS) < REPEATED_MS:
                return True
            if len(self.seen) >= SEEN_MAX:
                self.seen.clear()
            self.seen[who] = event.timestamp_ms
        return bool(about.get("exclusive")) or str(about.get("name", "")).startswith("amq.gen-")


def shown(value: object) -> object:
    return value if isinstance(value, bool | int | float | None) else str(value)[:VALUE_CHARACTERS_MAX]
