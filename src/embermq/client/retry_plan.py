"""The schedule of attempts to connect: all hosts in turn, with growing pauses, until there is no point."""

from __future__ import annotations

import math
import random

from embermq.client.address import Endpoint, Settings
from embermq.client.errors import AuthenticationFailed, ClientError, ConnectionClosed

# Reply codes after which it makes sense to come back; the others are our own mistakes and would be repeated.
PASSING_REPLY_CODES = (320, 541)


def is_passing(error: ClientError) -> bool:
    """Will trying again help?"""
    return not isinstance(error, ConnectionClosed) or error.reply_code in PASSING_REPLY_CODES


class Attempts:
    """The shells connect to `endpoint` and ask `pause_after` how to go on when that has ended."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ever_open = False
        self.rounds = 0  # through all hosts, since the last success
        self._next = 0

    @property
    def endpoint(self) -> Endpoint:
        return self.settings.endpoints[self._next]

    def pause_after(self, error: ClientError, *, was_open: bool, lived_s: float = math.inf) -> float | None:
        """Seconds to wait before the next attempt; None: give up, because of `error`."""
        self.ever_open = self.ever_open or was_open
        if not is_passing(error):
            return None
        if isinstance(error, AuthenticationFailed) and not self.ever_open:
            return (
                None  # a wrong password does not become right; after a success it may be the broker's trouble
            )
        if was_open:
            # A broker that closes what it has just opened would do so again and again.
            refused = isinstance(error, ConnectionClosed) and lived_s < self.settings.reconnect_delay_max_s
            self.rounds = self.rounds + 1 if refused else 0
            self._next = 0
            return self._pause() if self.settings.reconnect else None
        self._next += 1
        if self._next < len(self.settings.endpoints):
            return 0.0
        self._next = 0
        self.rounds += 1
        return self._pause()

    def _pause(self) -> float | None:
        settings = self.settings
        if not self.ever_open:
            return settings.retry_delay_s if self.rounds < settings.connection_attempts else None
        if 0 < settings.reconnect_attempts <= self.rounds:
            return None
        # The exponent is bounded first: 2.0 ** 5000 is an error, not a long time.
        grown_s = settings.reconnect_delay_s * 2.0 ** min(self.rounds, 60)
        # At random, so that a thousand clients of one broker do not come back in the same instant.
        return min(settings.reconnect_delay_max_s, grown_s) * random.uniform(0.5, 1.0)
