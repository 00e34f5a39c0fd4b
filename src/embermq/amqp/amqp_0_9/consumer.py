"""A consumer of class message: each delivery is a request, and its answer the acknowledgement.

What does not fit into a frame is sent as a reference: open, append, transfer, close.
"""

from __future__ import annotations

from embermq.amqp.amqp_0_9.channel import Channel09
from embermq.amqp.amqp_0_9.requests import REQUEST_HEAD, Delivery
from embermq.amqp.channel.consumer import FRAME_BYTES, ChannelConsumer
from embermq.broker.message.message import Message
from embermq.broker.message.rewrite import with_header
from embermq.broker.queue.level import Entry
from embermq.wire import methods_0_9
from embermq.wire.primitive import Content
from embermq.wire.properties import Properties

TRANSACTION_ID, SECURITY_TOKEN = "x-transaction-id", "x-security-token"  # 0-9-1 has no properties for them
OFFSET = "x-stream-offset"


class MessageConsumer(ChannelConsumer):
    __slots__ = ()
    channel: Channel09

    def deliver(self, entry: Entry) -> int:
        channel = self.channel
        channel.delivery_tag += 1
        tag = 0 if self.no_ack else channel.delivery_tag
        transfer(channel, entry.message, self.tag, bool(entry.redelivered), tag)
        if self.no_ack:
            channel.no_ack_count += 1
        else:
            self.note_unacked(entry)
        return 0

    def deliver_stored(
        self,
        entry: Entry | None,
        block: bytes,
        names_at: int,
        content_at: int,
        stop: int,
        header_size: int,
        offset: int,
    ) -> int:
        channel = self.channel
        channel.delivery_tag += 1
        message = Message(block[names_at:content_at], block[content_at:stop], header_size, True, 0, 0)
        tag = 0 if entry is None else channel.delivery_tag
        transfer(channel, with_header(message, (OFFSET, "l", offset)), self.tag, False, tag)
        if entry is not None:
            self.note_unacked(entry)
        return 0

    def note_unacked(self, entry: Entry) -> None:
        channel, size = self.channel, entry.message.size
        entry.delivery_tag = channel.delivery_tag
        channel.unacked[entry.delivery_tag] = entry
        self.unacked += 1
        self.unacked_bytes += size
        channel.shared_unacked += 1
        channel.shared_unacked_bytes += size


def transfer(
    channel: Channel09, message: Message, destination: str, redelivered: bool, tag: int, room: int = 0
) -> None:
    """Give a message to the client; `room` is that of a request, as large as frames may be."""
    body = message.body
    method = transfer_method(message, destination, redelivered)
    room = room or channel.connection.frame_max - FRAME_BYTES - REQUEST_HEAD.size
    first_id = channel.outgoing.last_id + 1
    delivery = Delivery(tag, destination, first_id, room) if tag else None
    method.body = Content(body)
    if len(method.encode()) <= room:
        channel.request(method, delivery)
        return
    name = b"amq.%d" % first_id
    method.body = Content(name, by_reference=True)
    channel.request(methods_0_9.MessageOpen(name))
    step = room - len(methods_0_9.MessageAppend(name).encode())
    for start in range(0, len(body), step):
        channel.request(methods_0_9.MessageAppend(name, body[start : start + step]))
    channel.request(method, delivery)
    channel.request(methods_0_9.MessageClose(name))


def transfer_method(message: Message, destination: str, redelivered: bool) -> methods_0_9.MessageTransfer:
    """All of a message but its body."""
    properties = message.properties
    headers = dict(properties.headers or {})
    transaction_id, security_token = headers.pop(TRANSACTION_ID, ""), headers.pop(SECURITY_TOKEN, b"")
    ttl = int(properties.expiration) if properties.expiration else 0
    timestamp = properties.timestamp or 0
    return methods_0_9.MessageTransfer(
        destination=destination,
        redelivered=redelivered,
        ttl=ttl,
        priority=properties.priority or 0,
        timestamp=timestamp,
        delivery_mode=properties.delivery_mode or 0,
        expiration=timestamp + ttl // 1000 if ttl and timestamp else 0,
        exchange=message.exchange,
        routing_key=message.routing_key,
        message_id=properties.message_id or "",
        correlation_id=properties.correlation_id or "",
        reply_to=properties.reply_to or "",
        content_type=properties.content_type or "",
        content_encoding=properties.content_encoding or "",
        user_id=properties.user_id or "",
        app_id=properties.app_id or "",
        transaction_id=transaction_id if isinstance(transaction_id, str) else "",
        security_token=security_token if isinstance(security_token, bytes) else b"",
        application_headers=headers,
    )


def properties_of(method: methods_0_9.MessageTransfer, now_s: int) -> Properties:
    """The properties of class basic that a transfer's fields are: empty ones are absent."""
    headers = dict(method.application_headers)
    if method.transaction_id:
        headers[TRANSACTION_ID] = method.transaction_id
    if method.security_token:
        headers[SECURITY_TOKEN] = method.security_token
    return Properties(
        content_type=method.content_type or None,
        content_encoding=method.content_encoding or None,
        headers=headers or None,
        delivery_mode=method.delivery_mode or None,
        priority=method.priority or None,
        correlation_id=method.correlation_id or None,
        reply_to=method.reply_to or None,
        expiration=str(method.ttl) if method.ttl else None,
        message_id=method.message_id or None,
        timestamp=now_s,  # set on arrival by the broker
        user_id=method.user_id or None,
        app_id=method.app_id or None,
    )
