"""The incoming half of a channel: methods, headers and bodies become messages in the inboxes of consumers.

What repeats from one delivery to the next (consumer, exchange, routing key, properties) is compared as bytes
and shared between the messages, so that a plain delivery costs one object and one copy of its body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from embermq.client.core.inbox import Inbox
from embermq.client.core.message import Message
from embermq.errors import SyntaxFault, UnexpectedFrame
from embermq.wire.columns.column import Delivery
from embermq.wire.kernel import cut, load_u16, load_u64, same
from embermq.wire.methods import BasicGetOk, BasicReturn, Method

if TYPE_CHECKING:
    from embermq.client.core.channel import ChannelCore
    from embermq.client.core.engine import Engine

CLASS_BASIC = 60
ROW_BYTES = 64  # about what a message takes in columns beside its body
CONTENT_HEADER_BYTES = 12  # class, weight, body size; the property flags follow


class Incoming:
    __slots__ = (
        "consumers",
        "delivery",
        "engine",
        "epoch",
        "incoming_body",
        "incoming_consumer",
        "incoming_method",
        "incoming_missing",
        "incoming_parts",
        "incoming_properties",
        "incoming_redelivered",
        "incoming_tag",
        "last_consumer",
        "last_consumer_bytes",
        "last_exchange",
        "last_names_bytes",
        "last_properties",
        "last_routing_key",
        "number",
    )

    def __init__(self, engine: Engine, number: int) -> None:
        self.engine = engine
        self.number = number
        self.epoch = 0
        self.consumers: dict[str, Inbox] = {}
        self.delivery = Delivery()
        self.last_consumer: Inbox | None = None
        self.last_consumer_bytes = b""
        self.last_exchange = ""
        self.last_routing_key = ""
        self.last_names_bytes = b""
        self.last_properties = b"\x00\x00"
        self.incoming_method: Method | None = None  # get-ok or return whose content follows
        self.incoming_consumer: Inbox | None = None  # whose delivery's content follows
        self.incoming_tag = 0
        self.incoming_redelivered = False
        self.incoming_properties = b""
        self.incoming_body = -1  # the size that the header gave; -1: no header yet
        self.incoming_missing = 0
        self.incoming_parts: list[bytes] = []

    def on_deliver(self, buf: bytearray, pos: int, stop: int) -> int:
        """basic.deliver: consumer tag, delivery tag, redelivered, exchange, routing key."""
        known = self.last_consumer_bytes
        if known and same(buf, pos, known):
            pos += len(known)
        else:
            after = pos + 1 + buf[pos]
            self.last_consumer_bytes = cut(buf, pos, after)
            tag = self.last_consumer_bytes[1:].decode("utf-8", "surrogateescape")
            self.last_consumer = self.consumers.get(tag)
            pos = after
        if self.incoming_method is not None or self.incoming_consumer is not None:
            raise UnexpectedFrame("a delivery where content was expected")
        self.incoming_tag = load_u64(buf, pos)
        self.incoming_redelivered = buf[pos + 8] & 1 != 0
        inbox = self.last_consumer
        if inbox is not None and inbox.columns is not None:
            inbox.columns.on_deliver(buf, self.incoming_tag, self.incoming_redelivered, pos + 9, stop)
        else:
            self.read_names(buf, pos + 9, stop)
        self.incoming_consumer = inbox
        self.incoming_body = -1
        return 0

    def on_deliveries(self, buf: bytearray, pos: int, end: int) -> int:
        """Whole messages for the last consumer, if it wants columns, and where the next frame begins."""
        inbox = self.last_consumer
        if inbox is None or inbox.columns is None or not self.last_consumer_bytes:
            return pos  # in the last case another consumer may have come: `on_deliver` sees whose it is
        if self.incoming_method is not None or self.incoming_consumer is not None:
            return pos
        columns, delivery = inbox.columns, self.delivery
        while True:
            after = delivery.find(buf, pos, end, self.number, self.last_consumer_bytes)
            if after == 0:
                return pos
            columns.on_deliver(
                buf, delivery.tag, delivery.redelivered, delivery.names_at, delivery.names_stop
            )
            columns.on_header(buf, delivery.properties_at, delivery.properties_stop)
            columns.on_body(buf, delivery.body_at, delivery.body_stop)
            columns.whole()
            self.came(inbox, delivery.body_stop - delivery.body_at + ROW_BYTES)
            pos = after

    def read_names(self, buf: bytearray, pos: int, stop: int) -> int:
        """Exchange and routing key; most often they are those of the message before."""
        size = stop - pos
        if size == len(self.last_names_bytes) and same(buf, pos, self.last_names_bytes):
            return 0
        names = cut(buf, pos, stop)
        exchange_end = 1 + names[0]
        if exchange_end >= size or exchange_end + 1 + names[exchange_end] != size:
            raise SyntaxFault("basic.deliver is not as long as its fields say")
        self.last_exchange = names[1:exchange_end].decode("utf-8", "surrogateescape")
        self.last_routing_key = names[exchange_end + 1 :].decode("utf-8", "surrogateescape")
        self.last_names_bytes = names
        return 0

    def on_content_method(self, method: Method) -> None:
        """basic.get-ok or basic.return, whose content follows."""
        if self.incoming_method is not None or self.incoming_consumer is not None:
            raise UnexpectedFrame(f"{method.NAME} where content was expected")
        self.incoming_method = method
        self.incoming_body = -1

    def on_header(self, buf: bytearray, pos: int, stop: int) -> int:
        if stop - pos < CONTENT_HEADER_BYTES + 2 or load_u16(buf, pos) != CLASS_BASIC:
            raise SyntaxFault("a content header that is none of class basic")
        if self.incoming_body >= 0:
            raise UnexpectedFrame("a content header where a body was expected")
        self.incoming_body = load_u64(buf, pos + 4)
        self.incoming_missing = self.incoming_body
        pos += CONTENT_HEADER_BYTES
        inbox = self.incoming_consumer
        if inbox is not None and inbox.columns is not None:
            inbox.columns.on_header(buf, pos, stop)
            if self.incoming_body == 0:
                self.arrived_in_columns(inbox)
            return 0
        known = self.last_properties
        if stop - pos != len(known) or not same(buf, pos, known):
            self.last_properties = cut(buf, pos, stop)
        self.incoming_properties = self.last_properties
        if self.incoming_body == 0:
            self.arrived(b"")
        return 0

    def on_body(self, buf: bytearray, pos: int, stop: int) -> int:
        size = stop - pos
        if self.incoming_body < 0 or size > self.incoming_missing:
            raise UnexpectedFrame("more content than the header announced")
        inbox = self.incoming_consumer
        if inbox is not None and inbox.columns is not None:
            inbox.columns.on_body(buf, pos, stop)
            self.incoming_missing -= size
            if self.incoming_missing == 0:
                self.arrived_in_columns(inbox)
            return 0
        if size == self.incoming_body:
            self.arrived(cut(buf, pos, stop))
            return 0
        self.incoming_parts.append(cut(buf, pos, stop))
        self.incoming_missing -= size
        if self.incoming_missing == 0:
            body = b"".join(self.incoming_parts)
            self.incoming_parts = []
            self.arrived(body)
        return 0

    def arrived(self, body: bytes) -> int:
        """A whole message is there: to its consumer, or to whoever asked for it."""
        self.incoming_body = -1
        if self.incoming_method is not None:
            self.content_arrived(body)
            return 0
        inbox = self.incoming_consumer
        self.incoming_consumer = None
        if inbox is None:
            return 0  # no such consumer: the broker counts the message as ours until the channel closes
        message = Message(
            cast("ChannelCore", self),
            self.epoch,
            inbox.tag,
            self.incoming_tag,
            self.incoming_redelivered,
            self.last_exchange,
            self.last_routing_key,
            self.incoming_properties,
            body,
        )
        message.settled = inbox.no_ack
        inbox.messages.append(message)
        self.came(inbox, len(body))
        return 0

    def arrived_in_columns(self, inbox: Inbox) -> int:
        """A whole message is there, and nothing more has to be done with it."""
        assert inbox.columns is not None
        inbox.columns.whole()
        self.came(inbox, self.incoming_body + ROW_BYTES)
        self.incoming_body = -1
        self.incoming_consumer = None
        return 0

    def came(self, inbox: Inbox, size: int) -> int:
        inbox.buffered_bytes += size
        if not inbox.touched:
            inbox.touched = True
            self.engine.touched.append(inbox)
        return 0

    def content_arrived(self, body: bytes) -> None:
        method = self.incoming_method
        self.incoming_method = None
        if isinstance(method, BasicGetOk):
            message = Message(
                cast("ChannelCore", self),
                self.epoch,
                "",
                method.delivery_tag,
                method.redelivered,
                method.exchange,
                method.routing_key,
                self.incoming_properties,
                body,
            )
            message.message_count = method.message_count
            self.on_got(message)
        else:
            assert isinstance(method, BasicReturn)
            message = Message(
                None, 0, "", 0, False, method.exchange, method.routing_key, self.incoming_properties, body
            )
            self.on_return(method, message)

    def on_got(self, message: Message) -> None:
        raise NotImplementedError

    def on_return(self, method: BasicReturn, message: Message) -> None:
        raise NotImplementedError

    def forget_incoming(self) -> None:
        """A new connection begins: nothing of the old one's half messages counts."""
        self.last_consumer_bytes = b""
        self.last_consumer = None
        self.incoming_method = None
        if self.incoming_consumer is not None and self.incoming_consumer.columns is not None:
            self.incoming_consumer.columns.forget_part()
        self.incoming_consumer = None
        self.incoming_parts = []
