"""The lives of a connection: dial, serve, lose, pause and dial again, until there is no point in it."""

from __future__ import annotations

import logging
import time
from typing import Any

from embermq.client.address import Endpoint, Settings
from embermq.client.calls.once import given
from embermq.client.core.engine import CLOSING, OPEN, Engine
from embermq.client.errors import ClientError, ConnectionClosed
from embermq.client.failure_text import not_connected
from embermq.client.retry_plan import Attempts, is_passing
from embermq.wire.frame import method_frame
from embermq.wire.methods import ConnectionClose

log = logging.getLogger("embermq.client")


class Lives:
    """The shells say how to dial, serve and pause. It is the shell of the engine, too."""

    settings: Settings
    engine: Engine
    endpoint: Endpoint | None = None
    first: Any  # a future of the shell's kind, for the connection to be open, or not to come about
    end: ClientError | None = None  # the engine wants this transport shut
    closed_by_user = False
    was_open = False  # ever
    reached_open = False  # this time

    def dial(self, endpoint: Endpoint) -> Any:
        """A transport; None when the user has closed the connection; OSError when there is none."""
        raise NotImplementedError

    def serve(self, transport: Any) -> Any:
        """Send and receive until the transport ends; why it did."""
        raise NotImplementedError

    def hang_up(self, transport: Any) -> Any:
        raise NotImplementedError

    def pause(self, seconds: float) -> Any:
        """Wait so long, or until the user closes the connection; whether that was why."""
        raise NotImplementedError

    # -- for the engine

    def opened(self) -> None:
        again, self.was_open = self.was_open, True
        self.reached_open = True
        if not self.first.done():
            self.first.set_result(None)
        if again:
            log.info("connection to %s is back, everything is restored", self.endpoint)
            self.happened("reconnected", None, None)

    def ended(self, error: ClientError) -> None:
        self.end = error

    def happened(self, event: str, subject: Any, detail: Any) -> None:
        raise NotImplementedError

    # -- for the user

    def finish(self, politely: bool) -> None:
        """End the connection, with connection.close or without."""
        self.closed_by_user = True
        if self.engine.state == OPEN and politely:
            self.engine.buffer.write(method_frame(0, ConnectionClose(200, "goodbye")))
            self.engine.state = CLOSING
        elif self.engine.state != CLOSING:
            self.ended(closed_by_user())


async def live(lives: Lives) -> ClientError:
    """Connect again and again; why there is no point in it any more."""
    attempts = Attempts(lives.settings)
    try:
        while True:
            began_s = time.monotonic()
            error = await live_once(lives, attempts.endpoint)
            if lives.closed_by_user:
                return lives.end or error  # also when it broke just before
            lived_s = time.monotonic() - began_s
            pause_s = attempts.pause_after(error, was_open=lives.reached_open, lived_s=lived_s)
            if pause_s is None:
                return error
            if await given(lives.pause(pause_s)):
                return closed_by_user()
    except Exception as fault:
        log.exception("the client failed")
        return ConnectionClosed(f"a fault in the client: {type(fault).__name__}: {fault}")


async def live_once(lives: Lives, endpoint: Endpoint) -> ClientError:
    """From dialling to the end of the transport; why it ended."""
    lives.reached_open, lives.end = False, None
    try:
        transport = await given(lives.dial(endpoint))
    except OSError as failure:  # TimeoutError is one
        return not_connected(endpoint, lives.settings, failure)
    if transport is None:
        return closed_by_user()
    lives.endpoint = endpoint
    try:
        lives.engine.start()
        error: ClientError = await given(lives.serve(transport))
    finally:
        await given(lives.hang_up(transport))
    lives.engine.lost(error, final=False)
    if lives.reached_open and is_passing(error) and not lives.closed_by_user:
        log.warning("connection to %s lost: %s", endpoint, error)
        lives.happened("lost", None, error)
    return error


def closed_by_user() -> ConnectionClosed:
    return ConnectionClosed("the connection was closed by its user")
