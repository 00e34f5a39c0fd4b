"""The registry of Spark pipelines that report to this broker.

A pipeline that runs tells how it is every few seconds. One that falls silent without a word of its end has
died, wherever it ran; one that has ended or died is remembered for a day. Nothing of this is kept on disk:
pipelines that run report again soon after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from embermq.broker.turn import Turn
from embermq.broker.vhost import VirtualHost

SILENT_MS = 30_000  # six times unheard of
FORGOTTEN_MS = 24 * 3600 * 1000
PIPELINES_MAX = 1000
RUNNING, WAITING, ENDED, FAILED, DIED = "running", "waiting", "ended", "failed", "died"
ALIVE = (RUNNING, WAITING)
STATES = (*ALIVE, ENDED, FAILED)

Told = dict[str, Any]  # what a pipeline says of itself


@dataclass(frozen=True)
class Heard:
    told: Told
    at_ms: int


class KnownPipelines:
    """What was heard of each, by virtual host and name."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.heard: dict[tuple[str, str], Heard] = {}

    def tell(self, vhost: str, name: str, told: Told) -> bool:
        """False: there are too many."""
        now_ms = self.now_ms()
        for key in [key for key, heard in self.heard.items() if now_ms - heard.at_ms > FORGOTTEN_MS]:
            del self.heard[key]
        if (vhost, name) not in self.heard and len(self.heard) >= PIPELINES_MAX:
            return False
        self.heard[vhost, name] = Heard(told, now_ms)
        return True

    def now_ms(self) -> int:
        self.turn.refresh()
        return self.turn.now_ms

    def views(self, vhosts: Iterable[VirtualHost]) -> Iterator[Told]:
        names = {vhost.name for vhost in vhosts}
        now_ms = self.now_ms()
        for (vhost, name), heard in sorted(self.heard.items(), key=lambda item: item[0]):
            silence_ms = now_ms - heard.at_ms
            if vhost not in names or silence_ms > FORGOTTEN_MS:
                continue
            view = {"name": name, "vhost": vhost, **heard.told, "heard_at": heard.at_ms / 1000}
            if view["state"] in ALIVE and silence_ms > SILENT_MS:
                view |= {"state": DIED, "reason": "not heard of any more"}
            yield view
