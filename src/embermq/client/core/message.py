"""A message that came from the broker, as light as can be: its properties are decoded when asked for."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import TracebackType
from typing import Protocol

from embermq.wire.properties import Properties
from embermq.wire.times import MILLISECOND, moment_of

ACK, NACK, REJECT = range(3)
STREAM_OFFSET = "x-stream-offset"
STREAM_OFFSET_FIELD = b"\x0fx-stream-offsetl"  # name and type as brokers write them


class Settling(Protocol):
    """What a message asks of its channel."""

    epoch: int

    def settle_delivery(self, message: Message, kind: int, multiple: bool, requeue: bool) -> int: ...

    def settled_before(self, message: Message) -> None: ...

    def ack_batch_now(self, batch: list[Message]) -> int: ...


class Message:
    """A delivery, the answer to a `get`, or a message that was returned.

    `ack`, `nack` and `reject` never wait: they write into the connection's buffer, which is sent within a
    millisecond. Settling a message whose connection has broken meanwhile does nothing, because
    the broker has taken it back and will deliver it again; settling a message twice does nothing either. With
    `strict_acks` both raise NotSettled.
    """

    __slots__ = (
        "_channel",
        "_decoded",
        "_epoch",
        "_raw_properties",
        "body",
        "consumer_tag",
        "delivery_tag",
        "exchange",
        "message_count",
        "redelivered",
        "reply_text",
        "routing_key",
        "settled",
        "told",
    )

    def __init__(
        self,
        channel: Settling | None,
        epoch: int,
        consumer_tag: str,
        delivery_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        raw_properties: bytes,
        body: bytes,
    ) -> None:
        self._channel = channel
        self._epoch = epoch
        self.consumer_tag = consumer_tag
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self._raw_properties = raw_properties
        self.body = body
        self._decoded: Properties | None = None
        self.settled = False  # by a call on this very message, or because it needs no ack
        self.told = False  # the broker has been, by the one thread that writes
        self.message_count = 0  # of a `get`: how many wait in the queue behind this one
        self.reply_text = ""  # of a returned message: why

    @property
    def raw_properties(self) -> bytes:
        """The properties as they stand on the wire; they can be published again without being decoded."""
        return self._raw_properties

    @property
    def properties(self) -> Properties:
        decoded = self._decoded
        if decoded is None:
            decoded = Properties.decode(self._raw_properties, 0, len(self._raw_properties))
            self._decoded = decoded
        return decoded

    @property
    def headers(self) -> dict[str, object]:
        return self.properties.headers or {}

    @property
    def timestamp(self) -> datetime | None:
        """The property timestamp, in UTC."""
        timestamp = self.properties.timestamp
        return None if timestamp is None else moment_of(timestamp)

    @property
    def expiration(self) -> timedelta | None:
        """The property expiration: how long the message might wait in its queue."""
        expiration = self.properties.expiration
        return None if expiration is None else int(expiration) * MILLISECOND

    @property
    def stream_offset(self) -> int | None:
        """Where the message stands in its stream; None when it comes from a queue of another kind."""
        raw = self._raw_properties
        if raw.count(STREAM_OFFSET_FIELD) == 1:  # without decoding everything: it is asked for every message
            at = raw.index(STREAM_OFFSET_FIELD) + len(STREAM_OFFSET_FIELD)
            return int.from_bytes(raw[at : at + 8], "big")
        offset = self.headers.get(STREAM_OFFSET)
        return offset if isinstance(offset, int) else None

    @property
    def stale(self) -> bool:
        """The connection has broken since: the message cannot be settled any more and will come again."""
        return self._channel is None or self._channel.epoch != self._epoch

    def ack(self, multiple: bool = False) -> None:
        """Done with it; with `multiple`, with everything the channel delivered up to it as well."""
        channel = self._channel
        if channel is None:
            return
        if self.settled:
            channel.settled_before(self)
        else:
            channel.settle_delivery(self, ACK, multiple, False)
            self.settled = True  # afterwards: what a signal interrupts here can be repeated

    def nack(self, requeue: bool = True, multiple: bool = False) -> None:
        """Not done: back into the queue, or without `requeue` to the dead-letter exchange if there is one."""
        self._refuse(NACK, multiple, requeue)

    def reject(self, requeue: bool = False) -> None:
        """As `nack` for one message, by the method of the original protocol."""
        self._refuse(REJECT, False, requeue)

    def _refuse(self, how: int, multiple: bool, requeue: bool) -> None:
        channel = self._channel
        if channel is None:
            return
        if self.settled:
            channel.settled_before(self)
        else:
            channel.settle_delivery(self, how, multiple, requeue)
            self.settled = True

    def process(self, *, requeue: bool = False) -> Processing:
        """For a `with` or `async with` block: the message is acked at its end, unless the block settled it.

        If the block raises, it goes back into the queue, or without `requeue` to the dead-letter exchange.
        """
        return Processing(self, requeue)

    def __repr__(self) -> str:
        return (
            f"<Message {self.delivery_tag} exchange={self.exchange!r} routing_key={self.routing_key!r} "
            f"{len(self.body)} bytes>"
        )


class Processing:
    """A block in which one message is worked on."""

    def __init__(self, message: Message, requeue: bool) -> None:
        self.message = message
        self.requeue = requeue

    def __enter__(self) -> Message:
        return self.message

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.message.settled:
            return
        if kind is None:
            self.message.ack()
        elif issubclass(kind, Exception):
            self.message.reject(requeue=self.requeue)
        else:
            self.message.nack(requeue=True)  # Ctrl-C or a cancelled task: the message is not to blame

    async def __aenter__(self) -> Message:
        return self.message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
