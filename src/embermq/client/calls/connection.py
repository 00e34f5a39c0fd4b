"""The state of a connection as its user sees it, and the methods of AMQP that a user calls on it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from embermq.client.address import Endpoint, Settings
from embermq.client.calls.once import given
from embermq.client.core.channel import ChannelCore
from embermq.client.core.engine import CLOSED, OPEN, Engine
from embermq.client.core.request import Request, Waiter
from embermq.client.core.requests import request_for
from embermq.client.errors import ClientError, Timeout
from embermq.wire.frame import method_frame
from embermq.wire.methods import BasicQos, ChannelClose, ChannelOpen, ConnectionUpdateSecret

C = TypeVar("C")  # the shell's channel


class ConnectionHandle(Generic[C]):
    settings: Settings
    engine: Engine
    channel_type: Callable[[Any, ChannelCore], C]
    _channels: dict[ChannelCore, weakref.ref[C]]

    # -- the shells have these

    def new_waiter(self) -> Any:
        """A future of the shell's kind."""
        raise NotImplementedError

    def wait(self, waiter: Any, what: str, timeout_s: float | None = None) -> Any:
        """The waiter's result; Timeout when there is none in time."""
        raise NotImplementedError

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have it done by the thread that has the engine, and send what that wrote."""
        raise NotImplementedError

    def call(self, core: ChannelCore, request: Request, timeout_s: float | None = None) -> Any:
        """Send a request and wait for its answer. If the wait is interrupted, what was done is undone."""
        raise NotImplementedError

    def tell(self, core: ChannelCore, request: Request) -> None:
        """Send a request without waiting for its answer."""
        raise NotImplementedError

    def _tell_user(self, callback: Any, *arguments: object) -> None:
        """Have a callback of the user's called, if there is one: not here, where it might wait."""
        raise NotImplementedError

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
        return self.engine.state == OPEN

    @property
    def is_closed(self) -> bool:
        """Closed for good."""
        return self.engine.state == CLOSED

    @property
    def blocked_reason(self) -> str | None:
        """Why the broker takes no publishes at the moment; None: it does."""
        return self.engine.blocked_reason

    @property
    def server_properties(self) -> dict[str, object]:
        return self.engine.server_properties

    @property
    def is_embermq(self) -> bool:
        """The broker is one of ours."""
        return self.server_properties.get("product") == "EmberMQ"

    # -- its channels

    def adopt(self, core: ChannelCore) -> C:
        channel = self.channel_type(self, core)
        self._channels[core] = weakref.ref(channel)
        return channel

    def forget(self, core: ChannelCore) -> None:
        self._channels.pop(core, None)

    # -- what happens to it

    def happened(self, event: str, subject: Any, detail: Any) -> None:
        """Tell the user, by the callback that there is for it."""
        if event in ("blocked", "lost"):
            self._tell_user(getattr(self, f"on_{event}"), detail)
        elif event in ("unblocked", "reconnected"):
            self._tell_user(getattr(self, f"on_{event}"))
        elif event == "returned":
            known = self._channels.get(subject)
            channel: Any = None if known is None else known()
            if channel is not None:
                self._tell_user(channel.on_return, detail)
        elif event == "channel_closed":
            self.forget(subject)


async def channel(
    connection: ConnectionHandle[C], *, confirms: bool = True, prefetch: int | None = 1000
) -> C:
    """Open a channel. With `confirms` every publish is answered for by the broker.

    `prefetch` is how many deliveries each consumer may have unsettled (None: no limit).
    """
    waiter: Waiter = connection.new_waiter()
    opening: list[ChannelCore] = []

    def begin() -> None:
        try:
            opening.append(
                connection.engine.open_channel(Request(ChannelOpen(), waiter), confirming=confirms)
            )
        except ClientError as error:
            waiter.set_exception(error)

    def give_up() -> None:
        for core in opening:
            core.request(Request(ChannelClose(200, "not wanted any more")))
            connection.forget(core)

    try:
        connection.post(begin)
        await given(connection.wait(waiter, ChannelOpen.NAME))
        (core,) = opening
        opened = connection.adopt(core)
        if prefetch is not None:
            await given(connection.call(core, request_for(core, BasicQos(0, prefetch, False))))
        return opened
    except BaseException:
        connection.post(give_up)
        raise


async def update_secret(connection: ConnectionHandle[Any], secret: str, reason: str = "") -> None:
    """Give the broker a new token before the old one expires (OAuth 2)."""
    waiter: Waiter = connection.new_waiter()
    method = ConnectionUpdateSecret(secret.encode(), reason)

    def begin() -> None:
        engine = connection.engine
        if engine.error is not None:
            waiter.set_exception(engine.error)
            return
        engine.update_secret.append(Request(method, waiter))
        engine.buffer.write(method_frame(0, method))

    connection.post(begin)
    await given(connection.wait(waiter, method.NAME))
