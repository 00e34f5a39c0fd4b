"""Management as a whole: the API behind a listener, started and stopped by the composition root."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from embermq.broker.broker import Broker
from embermq.http.server.context import Context, Listener, Sessions
from embermq.http.server.dispatcher import Api
from embermq.http.server.routes import all_routes
from embermq.http.server.server import HTTPServer

LOG = logging.getLogger("embermq")
TASKS_POLL_S = 0.005
TASKS_POLLS_MAX = 600


class Management:
    def __init__(self, broker: Broker, sessions: Sessions, loop: asyncio.AbstractEventLoop) -> None:
        self.context = Context(broker, sessions)
        self.api = Api(self.context, all_routes())
        self.server = HTTPServer(self.api.answer, loop, self.context.scheduler)
        self.loop = loop

    def measure(self, **measures: Callable[[], float]) -> None:
        """Numbers of rooms that this one does not know, for the metrics."""
        self.context.measures |= measures

    def announce(self, protocol: str, host: str, port: int) -> None:
        """A listener that the overview and the health checks speak of."""
        self.context.listeners.append(Listener(protocol, host, port))

    def start(self) -> None:
        LOG.addHandler(self.context.log_lines)
        self.context.history.start(self.loop)

    async def stop(self) -> None:
        for _ in range(TASKS_POLLS_MAX):
            if not self.context.broker.tasks.cancel_all():
                break  # none is left with messages in its hands
            await asyncio.sleep(TASKS_POLL_S)
        await self.context.traces.stop_all()
        await self.context.history.stop()
        await self.context.live.stop()
        await self.server.stop()
        LOG.removeHandler(self.context.log_lines)
