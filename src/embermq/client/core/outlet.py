"""The outgoing side of a connection, as its channels see it."""

from __future__ import annotations

import threading

from embermq.client.core.inbox import Inbox
from embermq.wire.kernel import Output
from embermq.wire.methods import BasicPublish

ROUTES_MAX = 4096  # payloads of basic.publish that are kept
FRAME_MAX_BEFORE_TUNE = 131072


class Outlet:
    __slots__ = ("awake", "frame_max", "lock", "out", "routes", "touched")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.out = Output()
        self.frame_max = FRAME_MAX_BEFORE_TUNE
        self.awake = False  # the shell knows that there is output
        self.touched: list[Inbox] = []  # consumers that got something in this `feed`
        self.routes: dict[tuple[str, str, bool], bytes] = {}

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
