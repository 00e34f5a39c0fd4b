"""The state of a connection as its user sees it, and the calls that channels make to a connection."""

from __future__ import annotations

from typing import Any, Protocol

from embermq.client.address import Endpoint, Settings
from embermq.client.core.channel import ChannelCore
from embermq.client.core.engine import CLOSED, OPEN, Engine
from embermq.client.core.request import Request
from embermq.client.errors import Timeout


class ConnectionHandle:
    settings: Settings
    _engine: Engine

    def _place(self) -> Endpoint | None:
        raise NotImplementedError

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed" if self.is_closed else "connecting"
        if self.is_open and self.blocked_reason is not None:
            state = f"blocked: {self.blocked_reason}"
        vhost = self.settings.virtual_host
        return f"<{type(self).__name__} to {self._place() or 'nowhere yet'}, virtual host {vhost!r}, {state}>"

    def no_answer(self, what: str, limit_s: float | None) -> Timeout:
        """The exception for a call that was not answered in time."""
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


class AnyConnection(Protocol):
    """A connection of either shell."""

    settings: Settings

    @property
    def is_closed(self) -> bool: ...

    @property
    def is_embermq(self) -> bool: ...

    @property
    def blocked_reason(self) -> str | None: ...

    def channel(self, *, confirms: bool = True, prefetch: int | None = 1000) -> Any: ...

    def call(self, core: ChannelCore, request: Request, timeout_s: float | None = None) -> Any: ...

    def tell(self, core: ChannelCore, request: Request) -> None: ...

    def forget(self, core: ChannelCore) -> None: ...
