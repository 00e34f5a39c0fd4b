"""The outgoing side of a connection, as its channels see it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from embermq.client.core.inbox import Inbox
from embermq.wire.kernel import Output
from embermq.wire.methods import BasicPublish

ROUTES_MAX = 4096  # payloads of basic.publish that are kept
FRAME_MAX_BEFORE_TUNE = 131072


AWAKE, LINGERING, ASLEEP = range(3)


class Outlet:
    """With `commands` one thread has the connection, and all others leave there what it is to do."""

    __slots__ = (
        "awake",
        "commands",
        "frame_max",
        "full",
        "lock",
        "out",
        "resting",
        "ring",
        "routes",
        "touched",
    )

    def __init__(self) -> None:
        self.lock: Any = threading.RLock()
        self.out = Output()
        self.frame_max = FRAME_MAX_BEFORE_TUNE
        self.awake = False  # the shell knows that there is output
        self.full = False  # the transport takes nothing now: publishes wait as they are, not as bytes besides
        self.commands: Any = None  # a deque: of acked messages, and of functions with their arguments
        self.resting = AWAKE  # what that thread does at the moment: `ring` to have it look
        self.ring: Callable[[bytes], object] = len
        self.touched: list[Inbox] = []  # consumers that got something in this `feed`
        self.routes: dict[tuple[str, str, bool], bytes] = {}

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have the thread of the connection call it, after everything that was posted before.

        Python looks for signals when a function begins, after a call and when a loop goes round. So an
        exception out of a handler comes before the append or after it, and the bell rings in any case.
        """
        self.commands.append((function, arguments))
        if self.resting:
            self.resting = AWAKE
            self.ring(b"\0")

    def route(self, exchange: str, routing_key: str, mandatory: bool) -> bytes:
        """The payload of basic.publish; made once for each route."""
        key = (exchange, routing_key, mandatory)
        payload = self.routes.get(key)
        if payload is None:
            if len(self.routes) >= ROUTES_MAX:
                self.routes.clear()
            payload = BasicPublish(exchange, routing_key, mandatory).encode()
            self.routes[key] = payload
        return payload

    def routes_as(self, payload: bytes, exchange: str, routing_key: str) -> bool:
        return payload == self.route(exchange, routing_key, True)
