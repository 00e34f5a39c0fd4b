"""Logs: lines for people on a terminal, JSON for programs; and an audit log of users' actions.

What a record knows of a connection (`connection.log_extra()`) stands behind the text, or in its own fields:

    12:00:00 WARNING login refused for user 'eve'  [connection=192.0.2.1:50000 -> 192.0.2.2:5672] {"time":
    "2026-01-01T12:00:00.000Z", "level": "warning", "logger": "embermq.connection", "message": "login ...

Secrets are not logged: nothing that holds one is ever given to a logger.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import TextIO

from embermq.broker.events import Event, Events
from embermq.config import Config, ConfigError

FIELDS = ("connection", "channel", "user", "vhost")
AUDIT = "embermq.audit"
# What is told of: logins, refusals, and what an administrator changes. Not the coming and going of clients.
AUDITED = ("user.", "permission.", "topic.permission.", "vhost.", "policy.", "parameter.", "queue.deleted",
           "queue.created", "exchange.created", "exchange.deleted",
           "definitions.", "alarm.", "access.")  # fmt: skip
VALUE_CHARACTERS_MAX = 1000
LOGIN = "user.authentication."
LOGGED_IN = f"{LOGIN}success"
REPEATED_MS = 600_000
SEEN_MAX = 1000
COMPLAIN_EVERY_S = 10.0
# A pipe that is not read from, or a FIFO without a reader, must not hold the broker.
OPEN_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK


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


class LogFile(logging.Handler):
    """A log file, opened anew when it was moved away (logrotate), and never a reason to stop.

    While a new file cannot be opened, lines go to the one that was moved away. Lines that cannot be written
    (the disk is full) are lost. Both are said on standard error, now and then and not for each line.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = os.path.abspath(path)  # whatever becomes of the working directory
        self.descriptor = os.open(self.path, OPEN_FLAGS, 0o666)
        self.torn = False  # the last line is there in part
        self.lost_count = 0
        self.complained_at = -COMPLAIN_EVERY_S

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        try:
            self.follow()
        except OSError as error:
            self.complain(f"cannot be opened anew, the log goes on where it was: {error.strerror}")
        try:
            self.write(line)
        except OSError as error:
            self.lost_count += 1
            self.complain(f"{error.strerror}; lines lost so far: {self.lost_count}")

    def follow(self) -> None:
        """To another file, where the path names one."""
        here = os.fstat(self.descriptor)
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            there = None
        if there is not None and os.path.samestat(here, there):
            return
        new = os.open(self.path, OPEN_FLAGS, 0o666)
        old, self.descriptor, self.torn = self.descriptor, new, False
        os.close(old)

    def write(self, line: str) -> None:
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        if self.torn:
            data = b"\n" + data
        written = os.write(self.descriptor, data)
        self.torn = written < len(data)
        if self.torn:
            self.torn = os.write(self.descriptor, data[written:]) < len(data) - written

    def complain(self, problem: str) -> None:
        now = time.monotonic()
        if now - self.complained_at < COMPLAIN_EVERY_S:
            return
        self.complained_at = now
        try:
            print(f"embermq: log file {self.path}: {problem}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass  # there is no place left to say it

    def close(self) -> None:
        self.acquire()
        try:
            if self.descriptor >= 0:
                os.close(self.descriptor)
            self.descriptor = -1
        finally:
            self.release()
        super().close()


class Logs:
    """The handlers that the settings ask for: made first, which may fail, and put to use later."""

    def __init__(self, config: Config, stream: TextIO | None = None) -> None:
        """ConfigError for a file that cannot be opened."""
        stream = stream or sys.stderr
        self.level = config.log_level.upper()
        self.main = self.handler("log.file", config.log.file, stream)
        self.main.setFormatter(formatter(config, stream))
        self.audit: logging.Handler | None = None
        if config.log.audit_file:
            try:
                self.audit = self.handler("log.audit_file", config.log.audit_file, stream)
            except ConfigError:
                self.main.close()
                raise
            self.audit.setFormatter(JSONFormatter())

    @staticmethod
    def handler(setting: str, file: str, stream: TextIO) -> logging.Handler:
        if not file:
            return logging.StreamHandler(stream)
        try:
            return LogFile(file)
        except OSError as error:
            raise ConfigError(f"{setting} is {file!r}, which cannot be opened: {error.strerror}") from None

    def use(self) -> None:
        root, audit = logging.getLogger(), logging.getLogger(AUDIT)
        root.setLevel(self.level)
        replace_handlers(root, self.main)
        if root.isEnabledFor(logging.INFO):
            self.main.addFilter(is_news)
        audit.setLevel(logging.INFO)
        audit.propagate = self.audit is None
        replace_handlers(audit, self.audit)

    def close(self) -> None:
        """Where they are not put to use after all."""
        self.main.close()
        if self.audit is not None:
            self.audit.close()


def is_news(record: logging.LogRecord) -> bool:
    """Of a login over AMQP the connection itself writes a line: the audit's would be the second."""
    told = getattr(record, "audit", {})
    return not (told.get("about_connection_type") == "network" and str(told["event"]).startswith(LOGIN))


def set_up(config: Config, stream: TextIO | None = None) -> None:
    Logs(config, stream).use()


def replace_handlers(logger: logging.Logger, new: logging.Handler | None) -> None:
    before = list(logger.handlers)
    if new is not None:
        logger.addHandler(new)
    for old in before:
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
        """The next request of a client that was just noted, and the queues that clients have for
        themselves."""
        about = event.properties
        if event.key == LOGGED_IN and about.get("connection_type") == "http":
            client = (about.get("name"), about.get("peer_host"))
            if event.timestamp_ms - self.seen.get(client, -REPEATED_MS) < REPEATED_MS:
                return True
            if len(self.seen) >= SEEN_MAX:
                self.seen.clear()
            self.seen[client] = event.timestamp_ms
        return bool(about.get("exclusive")) or str(about.get("name", "")).startswith("amq.gen-")


def shown(value: object) -> object:
    return value if isinstance(value, bool | int | float | None) else str(value)[:VALUE_CHARACTERS_MAX]
