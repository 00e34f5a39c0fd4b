"""A channel of AMQP 0-9: requests are answered by responses, and a content may be broken off.

A message that comes by message.transfer takes the way of every published message. Its answer is what a
confirm is in 0-9-1: `ok` when it is safe, `reject` where no queue would have it.
"""

from __future__ import annotations

import secrets
from collections import deque
from typing import TYPE_CHECKING

from embermq.amqp.amqp_0_9.reference import Reference
from embermq.amqp.amqp_0_9.requests import Delivery, IncomingRequests, OutgoingRequests
from embermq.amqp.channel.channel import Blocks, Channel
from embermq.broker.message.message import Message
from embermq.broker.security.user import User
from embermq.broker.vhost import VirtualHost
from embermq.errors import AMQPError, NoConsumers, NoRoute
from embermq.wire import methods, methods_0_9

if TYPE_CHECKING:
    from embermq.amqp.channel.consumer import ChannelConsumer

METHOD_EXPECTED = 0  # see Channel.expects
CHANNEL_ID_BYTES = 24
MESSAGE_OK = methods_0_9.MessageOk().encode()
QUEUE_FULL = methods_0_9.MessageReject(506, "RESOURCE_ERROR - a queue is full").encode()


class Channel09(Channel):
    __slots__ = (
        "awaiting",
        "channel_id",
        "incoming",
        "outgoing",
        "pending",
        "references",
        "rejections",
        "tickets",
        "transferring",
    )

    def __init__(
        self, connection: object, number: int, vhost: VirtualHost, user: User, body_max: int
    ) -> None:
        super().__init__(connection, number, vhost, user, body_max)  # type: ignore[arg-type]
        self.channel_id = secrets.token_bytes(CHANNEL_ID_BYTES)
        self.incoming = IncomingRequests()
        self.outgoing = OutgoingRequests()
        # Requests under way: their numbers, and the methods that may answer each.
        self.pending: deque[tuple[int, tuple[int, ...]]] = deque()
        self.awaiting: deque[tuple[int, int]] = deque()  # transfers: number of the publish, of the request
        self.rejections: dict[int, bytes] = {}  # by the number of the publish
        self.references: dict[bytes, Reference] = {}
        self.transferring = 0

    def open_ok(self) -> methods.Method:
        return methods_0_9.ChannelOpenOk(self.channel_id)

    @property
    def is_resumable(self) -> bool:
        """Has it been used with request frames, so that there is something to resume?"""
        return self.channel_id in self.connection.broker.interrupted.resumable

    @property
    def is_kept(self) -> bool:
        """Has it lost its connection?"""
        return self.connection.channels.get(self.number) is not self

    def part(self) -> tuple[Blocks, list[ChannelConsumer]]:
        self.connection.broker.interrupted.resumable.pop(self.channel_id, None)
        return Channel.part(self)

    # -- content in

    def interrupt_content(self) -> None:
        """Any other frame in the middle of a content breaks that off (000, 4.2.6)."""
        self.expects = METHOD_EXPECTED
        self.gathered = bytearray()

    def take(self, names: bytes, bits: int, header: bytes, body: bytes) -> None:
        """A whole message, as if its frames had come."""
        buf = bytearray(b"\0\0" + names + bytes((bits,)))
        self.transferring = 1
        try:
            self.on_publish(buf, 0, len(buf))
            header_stop = len(header)
            frame_head = b"\xce\x03" + self.number.to_bytes(2, "big") + len(body).to_bytes(4, "big")
            buf = bytearray(header + frame_head + body + b"\xce")
            end = len(buf)
            pos = self.on_header(buf, 0, header_stop, end if body else header_stop)
            if pos < end and self.expects:
                self.on_body(buf, pos + 7, end - 1)
        finally:
            self.transferring = 0

    def on_publish(self, buf: bytearray, pos: int, stop: int) -> None:
        if self.expects:
            self.interrupt_content()
        Channel.on_publish(self, buf, pos, stop)

    # -- answers

    def transfer(self, request_id: int, names: bytes, bits: int, header: bytes, body: bytes) -> None:
        """Publish what came by message.transfer; it is answered when it is safe."""
        published = self.published
        self.confirming = True
        try:
            self.take(names, bits, header, body)
        finally:
            self.confirming = False
        if self.published == published:  # in a transaction: it is safe when that is committed
            self.respond([(request_id, MESSAGE_OK)])
        else:
            self.awaiting.append((self.published, request_id))

    def refused(self) -> None:
        if self.transferring:
            self.turned_away = True
            self.rejections[self.published] = QUEUE_FULL
        else:
            Channel.refused(self)

    def return_message(self, message: Message, why: NoRoute | NoConsumers) -> None:
        if self.transferring:
            self.returned_count += 1
            self.rejections[self.published] = rejection(why)
        else:
            Channel.return_message(self, message, why)

    def put_ack(self) -> None:
        """Answer the transfers that are safe."""
        if self.confirming:
            Channel.put_ack(self)
            return
        answered = []
        while self.awaiting and self.awaiting[0][0] <= self.safe:
            published, request_id = self.awaiting.popleft()
            answered.append((request_id, self.rejections.pop(published, MESSAGE_OK)))
        self.confirmed = self.safe
        if answered:
            self.respond(answered)

    def respond(self, answered: list[tuple[int, bytes]]) -> None:
        for response in self.incoming.respond(answered):
            self.connection.out.write(response.frame(self.number))
        self.connection.touch()

    def send(self, method: methods.Method) -> None:
        """An answer to a request goes out as a response, anything else as a method."""
        for index, (request_id, responses) in enumerate(self.pending):
            if method.ID in responses:
                del self.pending[index]
                payload = self.connection.dialect.method(method).encode()
                self.respond([(request_id, payload)])
                return
        Channel.send(self, method)

    def request(self, method: methods.Method, delivery: Delivery | None = None) -> None:
        """Ask the client something, or give it a message."""
        self.connection.out.write(self.outgoing.frame(self.number, method.encode(), delivery))
        self.connection.touch()


def rejection(error: AMQPError) -> bytes:
    return methods_0_9.MessageReject(error.reply_code, error.label).encode()
