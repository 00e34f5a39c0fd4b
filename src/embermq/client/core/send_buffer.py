"""The send buffer of a connection: what waits to be sent, and the payload of basic.publish for each route."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from embermq.wire.kernel import Output
from embermq.wire.methods import BasicPublish

ROUTES_MAX = 4096  # payloads of basic.publish that are kept
FRAME_MAX_BEFORE_TUNE = 131072


class SendBuffer:
    __slots__ = ("_on_output", "_routes", "awake", "frame_max", "full", "lock", "out")

    def __init__(self, on_output: Callable[[], None]) -> None:
        self.lock: Any = threading.RLock()  # with asyncio, other threads may settle messages
        self.out = Output()
        self.frame_max = FRAME_MAX_BEFORE_TUNE
        self.awake = False  # the shell knows that there is output
        self.full = False  # the transport takes nothing now: publishes wait as they are, not as bytes besides
        self._on_output = on_output
        self._routes: dict[tuple[str, str, bool], bytes] = {}

    def clear(self) -> None:
        """Another transport: nothing of what waited counts, and the limits are those of the beginning."""
        self.out = Output()
        self.frame_max = FRAME_MAX_BEFORE_TUNE

    def write(self, frame: bytes) -> None:
        self.out.write(frame)

    def wake(self) -> int:
        """There is output that was not caused by what arrived."""
        if not self.awake:
            self.awake = True
            self._on_output()
        return 0

    def route(self, exchange: str, routing_key: str, mandatory: bool) -> bytes:
        """The payload of basic.publish; made once for each route."""
        key = (exchange, routing_key, mandatory)
        payload = self._routes.get(key)
        if payload is None:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            payload = BasicPublish(exchange, routing_key, mandatory).encode()
            self._routes[key] = payload
        return payload
