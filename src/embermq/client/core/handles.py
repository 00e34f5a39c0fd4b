"""What a connection and a channel tell of themselves, alike for those who await and those who block."""

from __future__ import annotations

from embermq.client.core.channel import ChannelCore
from embermq.client.core.engine import CLOSED, OPEN, Engine
from embermq.client.errors import Timeout


class ConnectionHandle:
    _engine: Engine

    def no_answer(self, what: str, limit_s: float | None) -> Timeout:
        """What to say to a call whose time is over."""
        if not self.is_open:
            why = "there is no connection at the moment"
        elif self.blocked_reason is not None:
            why = f"the broker has blocked publishing: {self.blocked_reason}"
        else:
            why = "connected, and not blocked"
        return Timeout(f"{what} was not answered within {limit_s:g} s ({why})")

    @property
    def is_open(self) -> bool:
        """Connected at this moment; while a reconnection is under way it is not."""
        return self._engine.state == OPEN

    @property
    def is_closed(self) -> bool:
        """Closed for good."""
        return self._engine.state == CLOSED

    @property
    def blocked_reason(self) -> str | None:
        """Why the broker takes no publishes at the moment; None: it does."""
        return self._engine.blocked_reason

    @property
    def server_properties(self) -> dict[str, object]:
        return self._engine.server_properties

    @property
    def is_embermq(self) -> bool:
        """The broker is one of ours."""
        return self.server_properties.get("product") == "EmberMQ"


class ChannelHandle:
    _core: ChannelCore

    @property
    def core(self) -> ChannelCore:
        """The sans-IO half of the channel."""
        return self._core

    @property
    def number(self) -> int:
        return self._core.number

    @property
    def is_closed(self) -> bool:
        return self._core.error is not None

    @property
    def unconfirmed_count(self) -> int:
        return self._core.unconfirmed_count
