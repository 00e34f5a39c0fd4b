"""Messages on their way out, and the receipt for them."""

from __future__ import annotations

from typing import Any

from embermq.client.core.message import Message
from embermq.client.errors import ClientError, PublishFailed
from embermq.wire.properties import Properties

Body = bytes | bytearray | memoryview | str
NO_PROPERTIES = b"\x00\x00"


class Outgoing:
    """A message of a batch that has its own address or properties; what is None is taken from the batch."""

    __slots__ = ("body", "exchange", "mandatory", "properties", "routing_key")

    def __init__(
        self,
        body: Body,
        routing_key: str | None = None,
        exchange: str | None = None,
        properties: Properties | bytes | None = None,
        mandatory: bool | None = None,
    ) -> None:
        self.body = body
        self.routing_key = routing_key
        self.exchange = exchange
        self.properties = properties
        self.mandatory = mandatory


def as_bytes(body: Body) -> bytes:
    """What goes out: bytes as they are, text as UTF-8."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    raise TypeError(
        f"a body must be bytes or str, not {type(body).__name__}: encode it first (JSON, pickle...)"
    )


def raw_properties(properties: Properties | bytes | None) -> bytes:
    """Flags and values as they stand on the wire. Bytes are taken as what `Properties.encode` gave."""
    if properties is None:
        return NO_PROPERTIES
    if isinstance(properties, bytes):
        if len(properties) < 2:
            raise ValueError("properties as bytes must be what Properties.encode() gave")
        return properties
    try:
        return properties.encode()
    except (AttributeError, TypeError, OverflowError) as fault:
        raise wrong_property(properties) or fault from None


def wrong_property(properties: object) -> TypeError | None:
    """Which one is of the wrong kind, and what it should be."""
    if not isinstance(properties, Properties):
        return TypeError(f"properties must be Properties(...) or bytes, not {type(properties).__name__}")
    numbers = {"delivery_mode": 0xFF, "priority": 0xFF, "timestamp": 0xFFFF_FFFF_FFFF_FFFF}
    for name in Properties.__slots__:
        value = getattr(properties, name)
        if value is None:
            continue
        if name in numbers:
            if not isinstance(value, int) or not 0 <= value <= numbers[name]:
                return TypeError(
                    f"the property {name} must be a number from 0 to {numbers[name]}, not {value!r}"
                )
        elif name == "headers":
            if not isinstance(value, dict):
                return TypeError(f"the property headers must be a dict, not {type(value).__name__}")
        elif not isinstance(value, str):
            return TypeError(f"the property {name} must be text, not {value!r}")
    return None


class Receipt:
    """Waits for the confirms of one publish or of a whole batch.

    `waiter` is whatever the shell waits with; it is told once, when the last confirm has come.
    """

    __slots__ = ("error", "nacked", "outstanding", "returned", "waiter")

    def __init__(self, outstanding: int) -> None:
        self.outstanding = outstanding
        self.nacked = 0
        self.returned: list[Message] | None = None
        self.error: Exception | None = None  # the channel or connection ended first
        self.waiter: Any = None

    @property
    def done(self) -> bool:
        return self.outstanding == 0

    def failure(self) -> Exception | None:
        """What went wrong, once everything is settled."""
        if self.error is not None:
            return self.error
        if self.nacked or self.returned:
            return PublishFailed(self.nacked, self.returned or [])
        return None

    def settle(self, acked: bool, returned: Message | None) -> int:
        if not acked:
            self.nacked += 1
        elif returned is not None:
            if self.returned is None:
                self.returned = []
            self.returned.append(returned)
        self.outstanding -= 1
        if self.outstanding == 0 and self.waiter is not None:
            self.tell()
        return 0

    def settle_many(self, count: int, acked: bool, returned: list[Message]) -> None:
        """So many at once, `returned` among them."""
        if not acked:
            self.nacked += count
        elif returned:
            self.returned = [*(self.returned or ()), *returned]
        self.outstanding -= count
        if self.outstanding == 0 and self.waiter is not None:
            self.tell()

    def abandon(self, error: ClientError, count: int = 1) -> None:
        """The channel of `count` publications has ended: what became of them is not known."""
        self.error = error
        self.outstanding -= count
        if self.outstanding == 0 and self.waiter is not None:
            self.tell()

    def tell(self) -> None:
        failure = self.failure()
        if self.waiter.done():
            return  # the caller has stopped waiting
        if failure is None:
            self.waiter.set_result(None)
        else:
            self.waiter.set_exception(failure)


class Publication:
    """One message in the form in which it can be sent, and sent again after a reconnection."""

    __slots__ = ("body", "mandatory", "method", "properties", "receipt", "refusals", "returned")

    def __init__(
        self,
        method: bytes,
        properties: bytes,
        body: bytes,
        mandatory: bool,
        receipt: Receipt | None,
        refusals: int = 0,
    ) -> None:
        self.method = method  # payload of basic.publish
        self.properties = properties  # flags and values
        self.body = body
        self.mandatory = mandatory
        self.receipt = receipt
        self.refusals = refusals  # so often the broker closed the connection while this was unconfirmed
        self.returned: Message | None = None
