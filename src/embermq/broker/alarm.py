"""Alarms: while one is raised, publishers wait and consumers go on.

Each has a name ("memory", "disk") and a reason to be shown. What stops publishers is in higher rooms:
these ask `turn.alarmed` and are told when the last alarm is cleared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from embermq.broker.events import Events, alarm
from embermq.broker.turn import Turn

log = logging.getLogger("embermq.alarm")


class Alarms:
    def __init__(self, turn: Turn, events: Events | None = None) -> None:
        self.turn = turn
        self.events = events or Events()
        self.raised: dict[str, str] = {}
        self.on_clear: Callable[[], None] = lambda: None  # the last one is cleared

    @property
    def reason(self) -> str:
        """In RabbitMQ's words: "low on memory", "low on disk", "low on memory & disk"."""
        return f"low on {' & '.join(sorted(self.raised, reverse=True))}" if self.raised else ""

    def set_tight(self, tight: bool) -> None:
        """Memory is not short yet, but may be soon: queues keep less of it for messages that are on disk."""
        self.turn.tight = tight

    def set(self, name: str, active: bool, detail: str = "") -> None:
        if active == (name in self.raised):
            return
        if active:
            self.raised[name] = detail
            log.warning("%s alarm: %s; publishers are held until it clears", name, detail)
        else:
            del self.raised[name]
            log.warning("%s alarm cleared", name)
        self.events.emit("alarm.set" if active else "alarm.cleared", alarm, name)
        self.turn.alarmed = bool(self.raised)
        if not self.raised:
            self.on_clear()
