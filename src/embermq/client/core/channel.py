"""One channel, sans-IO: its consumers, its unconfirmed publishes, and the answers that are awaited.

A channel outlives its connection. While there is none (`ready` is false) publishes and requests are kept, and
`open` says everything again on the new one. `epoch` counts openings and losses: a delivery tag means
something only in the epoch it came from.

What repeats from one delivery to the next (consumer, exchange, routing key, properties) is compared as bytes
and shared between the messages, so that a plain delivery costs one object and one copy of its body.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from embermq.client.core.inbox import Inbox
from embermq.client.core.message import ACK, NACK, Message
from embermq.client.core.publication import Body, Outgoing, Publication, Receipt, as_bytes, raw_properties
from embermq.client.core.request import Answer, Request
from embermq.client.core.topology import QueueInfo
from embermq.client.core.unconfirmed import Unconfirmed, publication_of
from embermq.client.errors import ChannelClosed, ClientError, ConnectionLost, NotSettled, TransactionLost
from embermq.errors import SyntaxFault, UnexpectedFrame
from embermq.wire.columns.column import Delivery
from embermq.wire.columns.publish_rows import Rows
from embermq.wire.frame import method_frame
from embermq.wire.kernel import cut, load_u16, load_u64, same
from embermq.wire.methods import (
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    Method,
    TxCommit,
    TxRollback,
    TxRollbackOk,
    TxSelect,
)

if TYPE_CHECKING:
    from embermq.client.core.engine import Engine

MAXSIZE = sys.maxsize
REFUSALS_MAX = 4  # a message after which the broker closes the connection is sent so often
CLASS_BASIC = 60
ROW_BYTES = 64  # about what a message takes in columns beside its body
CONTENT_HEADER_BYTES = 12  # class, weight, body size; the property flags follow


class ChannelCore:
    __slots__ = (
        "acked_through",
        "buffer",
        "closing",
        "commands",
        "confirming",
        "consumers",
        "delivery",
        "engine",
        "epoch",
        "error",
        "flow_active",
        "held",
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
        "last_queue",
        "last_routing_key",
        "number",
        "qos",
        "ready",
        "requests",
        "strict_acks",
        "touched",
        "transaction_lost",
        "transaction_open",
        "transactional",
        "unconfirmed",
        "unsent",
        "waiting",
    )

    def __init__(self, engine: Engine, number: int, *, confirming: bool) -> None:
        self.engine = engine
        self.buffer = engine.buffer
        self.commands = engine.commands
        self.touched = engine.touched
        self.number = number
        self.epoch = 0
        self.ready = False
        self.closing = False
        self.flow_active = True
        self.error: ClientError | None = None  # why the channel is closed for good
        self.consumers: dict[str, Inbox] = {}
        self.qos: list[BasicQos | None] = [None, None]  # per consumer, and for the channel as a whole
        self.acked_through = 0  # all deliveries up to this tag are settled
        self.strict_acks = engine.settings.strict_acks

        self.confirming = confirming
        self.unconfirmed = Unconfirmed()
        self.held = 0  # the last so many of them are not on their way yet
        self.unsent: list[Publication] = []  # of a channel without confirms, while there is no connection
        self.transactional = False
        self.transaction_open = False  # something was done since the last commit
        self.transaction_lost = False

        self.requests: deque[Request] = deque()  # sent, not answered
        self.waiting: list[Request] = []  # to be sent when there is a connection
        self.last_queue: QueueInfo | None = None  # the one that a request without a name means

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

    # -- what arrives

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
        """A whole message is there: to its consumer, or to the caller that asked for it."""
        self.incoming_body = -1
        if self.incoming_method is not None:
            self.content_arrived(body)
            return 0
        inbox = self.incoming_consumer
        self.incoming_consumer = None
        if inbox is None:
            return 0  # no such consumer: the broker counts the message as ours until the channel closes
        message = Message(
            self,
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
            self.touched.append(inbox)
        return 0

    def content_arrived(self, body: bytes) -> None:
        method = self.incoming_method
        self.incoming_method = None
        if isinstance(method, BasicGetOk):
            message = Message(
                self,
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
        request = next(asked for asked in self.requests if isinstance(asked.method, BasicGet))
        assert isinstance(request.method, BasicGet)
        self.requests.remove(request)
        message.settled = request.method.no_ack
        request.answered(message)

    def on_return(self, method: BasicReturn, message: Message) -> None:
        message.reply_text = f"{method.reply_code} {method.reply_text}"
        route = self.buffer.route(message.exchange, message.routing_key, True)
        self.unconfirmed.note_returned(route, message)
        self.engine.happened("returned", self, message)

    def forget_incoming(self) -> None:
        """A new connection begins: nothing of the old one's half messages counts."""
        self.last_consumer_bytes = b""
        self.last_consumer = None
        self.incoming_method = None
        if self.incoming_consumer is not None and self.incoming_consumer.columns is not None:
            self.incoming_consumer.columns.forget_part()
        self.incoming_consumer = None
        self.incoming_parts = []

    # -- settling deliveries

    def ack(self, delivery_tag: int, multiple: bool, epoch: int) -> int:
        buffer = self.buffer
        with buffer.lock:
            if epoch == self.epoch and self.ready:
                self.transaction_open = self.transactional
                if delivery_tag == self.acked_through + 1 or (multiple and delivery_tag > self.acked_through):
                    self.acked_through = delivery_tag
                buffer.out.put_ack(self.number, delivery_tag, multiple)
            else:
                self.transaction_lost = self.transactional
        buffer.wake()
        return 0

    def settle_delivery(self, message: Message, kind: int, multiple: bool, requeue: bool) -> int:
        """From any thread: at once, or by the thread that has the connection, in the order of the calls."""
        if self.strict_acks and message._epoch != self.epoch:
            raise NotSettled(f"{message!r} came over a connection that is gone (strict_acks): it comes again")
        commands = self.commands
        if commands is None:
            with self.buffer.lock:
                self.settle_delivery_now(message, kind, multiple, requeue)
        elif kind == ACK and not multiple:
            commands.post_ack(message)
        else:
            commands.post(self.settle_delivery_now, message, kind, multiple, requeue)
        return 0

    def settled_before(self, message: Message) -> None:
        """A message is settled for the second time, or came without acks."""
        if self.strict_acks:
            raise NotSettled(f"{message!r} was settled before, or came without acks (strict_acks)")

    def settle_delivery_now(self, message: Message, kind: int, multiple: bool, requeue: bool) -> int:
        if message.told:
            return 0  # a call that was interrupted and repeated
        message.told = True
        tag, epoch = message.delivery_tag, message._epoch
        if kind == ACK:
            self.ack(tag, multiple, epoch)
        elif kind == NACK:
            self._settle_by(BasicNack(tag, multiple, requeue), epoch)
        else:
            self._settle_by(BasicReject(tag, requeue), epoch)
        return 0

    def ack_batch(self, batch: list[Message]) -> None:
        """Settle all of these: with one ack for many where that settles nothing else."""
        batch = [message for message in batch if not message.settled]
        if self.commands is None:
            self.ack_batch_now(batch)
        else:
            self.commands.post(self.ack_batch_now, batch)
        for message in batch:
            message.settled = True

    def ack_batch_now(self, batch: list[Message]) -> int:
        """In any order, of any epoch: what came over a lost connection means nothing now."""
        low, high, count = MAXSIZE, 0, 0
        current = []
        for message in batch:
            if message.told:
                continue
            message.told = True
            if message._epoch != self.epoch or not self.ready:
                self.transaction_lost = self.transactional
                continue
            low, high, count = min(low, message.delivery_tag), max(high, message.delivery_tag), count + 1
            current.append(message)
        if count and low == self.acked_through + 1 and high - low + 1 == count:
            self.ack(high, True, self.epoch)
        else:
            for message in current:
                self.ack(message.delivery_tag, False, message._epoch)
        return 0

    def _settle_by(self, method: Method, epoch: int) -> None:
        with self.buffer.lock:
            if epoch == self.epoch and self.ready:
                self.transaction_open = self.transactional
                self.buffer.write(method_frame(self.number, method))
            else:
                self.transaction_lost = self.transactional
        self.buffer.wake()

    # -- publishing

    def publish(
        self, method: bytes, properties: bytes, body: bytes, mandatory: bool, receipt: Receipt | None
    ) -> int:
        """Send a message, or keep it until that is possible. The caller knows of `error`."""
        buffer = self.buffer
        if self.confirming:
            self.unconfirmed.add(Publication(method, properties, body, mandatory, receipt))
        elif self.transactional:
            self.transaction_open = True
            self.transaction_lost = self.transaction_lost or not self.ready
        if self.ready:
            if self.confirming and (self.held or buffer.full):
                self.held += 1
            else:
                buffer.out.put_publish(self.number, method, properties, body, buffer.frame_max)
        elif not self.confirming and not self.transactional:
            self.unsent.append(Publication(method, properties, body, mandatory, None))
        return 0

    def publish_or_abandon(
        self, method: bytes, properties: bytes, body: bytes, mandatory: bool, receipt: Receipt
    ) -> None:
        """The same, for callers that cannot know of `error` because another thread has the connection."""
        if self.error is None:
            self.publish(method, properties, body, mandatory, receipt)
        elif receipt.outstanding:
            receipt.abandon(self.error)

    def release(self, bytes_max: int) -> None:
        """Send what was held while the transport was full, until so many bytes wait to be sent."""
        buffer = self.buffer
        while self.held and buffer.out.size < bytes_max:
            kept = self.unconfirmed.publications[self.unconfirmed.last_tag - self.held + 1]
            buffer.out.put_publish(self.number, kept.method, kept.properties, kept.body, buffer.frame_max)
            self.held -= 1

    def publish_some(
        self,
        messages: Iterator[Body | Outgoing],
        exchange: str,
        routing_key: str,
        properties: bytes,
        mandatory: bool,
        receipt: Receipt | None,
        bytes_max: int,
    ) -> bool:
        """Publish from the iterator until it is empty or `bytes_max` wait to be sent; is there more?"""
        buffer = self.buffer
        route = buffer.route(exchange, routing_key, mandatory)
        size = 0
        for item in messages:
            if receipt is not None and self.confirming:
                receipt.outstanding += 1
            if isinstance(item, Outgoing):
                size += self._publish_outgoing(item, exchange, routing_key, properties, mandatory, receipt)
            else:
                body = item if isinstance(item, bytes) else as_bytes(item)
                self.publish(route, properties, body, mandatory, receipt)
                size += len(body)
            if size >= bytes_max or buffer.out.size >= bytes_max:
                return True
        return False

    def _publish_outgoing(
        self,
        item: Outgoing,
        exchange: str,
        routing_key: str,
        properties: bytes,
        mandatory: bool,
        receipt: Receipt | None,
    ) -> int:
        if item.exchange is not None:
            exchange = item.exchange
        if item.routing_key is not None:
            routing_key = item.routing_key
        if item.properties is not None:
            properties = raw_properties(item.properties)
        if item.mandatory is not None:
            mandatory = item.mandatory
        body = as_bytes(item.body)
        route = self.buffer.route(exchange, routing_key, mandatory)
        self.publish(route, properties, body, mandatory, receipt)
        return len(body)

    def publish_rows(self, rows: Rows, row: int, mandatory: bool, receipt: Receipt, bytes_max: int) -> int:
        """Publish from `row` on until `bytes_max` wait to be sent; the first row that is left."""
        if not self.ready:
            for one in range(row, rows.count):  # to be sent when there is a connection
                kept = publication_of(rows, one, mandatory, receipt)
                receipt.outstanding += self.confirming
                self.publish(kept.method, kept.properties, kept.body, mandatory, receipt)
            return rows.count
        stop = rows.put(self.buffer.out, self.number, row, self.buffer.frame_max, bytes_max)
        if self.confirming:
            receipt.outstanding += stop - row
            self.unconfirmed.add_rows(rows, row, stop - row, mandatory, receipt)
        elif self.transactional:
            self.transaction_open = True
        return stop

    def publish_again(self) -> None:
        """What was never confirmed goes out again, in order, before anything new."""
        kept = [*self.unconfirmed.take(), *self.unsent]
        self.unsent, self.held = [], 0
        for publication in kept:
            self.publish(
                publication.method,
                publication.properties,
                publication.body,
                publication.mandatory,
                publication.receipt,
            )
            if self.confirming:
                self.unconfirmed.publications[self.unconfirmed.last_tag].refusals = publication.refusals

    # -- requests

    def request(self, request: Request) -> None:
        """Send it, or keep it until there is a connection. The caller wakes the engine."""
        if self.error is not None:
            request.failed(self.error)
        elif isinstance(request.method, (TxCommit, TxRollback)) and (self.transaction_lost or not self.ready):
            self.end_lost_transaction(request)
        elif self.closing:
            self.waiting.append(request)  # for the end, which `end` tells it
        elif not self.ready:
            if isinstance(request.method, ChannelClose):
                self.closed_while_away(request)
            elif request.repeatable:
                self.waiting.append(request)
            else:
                request.failed(self.no_connection(request))
        else:
            self.send(request)

    def end_lost_transaction(self, request: Request) -> None:
        """The broker has forgotten it, which is as good as a rollback."""
        if isinstance(request.method, TxRollback):
            request.answered(TxRollbackOk())
        else:
            self.transaction_lost = False
            request.failed(
                TransactionLost(
                    "the connection broke during the transaction: nothing of it was done, repeat it"
                )
            )

    def closed_while_away(self, request: Request) -> None:
        """The broker has forgotten the channel with its connection; now we do, too."""
        request.answered(ChannelCloseOk())
        self.engine.drop_channel(self, ChannelClosed("the channel was closed by its user: open another"))

    def send(self, request: Request) -> None:
        method = request.method
        self.release(MAXSIZE)  # a request comes behind what was published before it
        self.engine.topology.rename(method)
        self.buffer.write(method_frame(self.number, method))
        if getattr(method, "no_wait", False) or not method.RESPONSES:
            request.answered(method)
        else:
            self.requests.append(request)
        if isinstance(method, ChannelClose):
            self.closing = True
            self.ready = False  # nothing may come behind it, neither acks nor publishes

    def answered_by(self, answer: Method) -> Request | None:
        """The first request that this may be the answer to.

        Answers come in the order of the questions, but for those that RabbitMQ has its queues give: cancel-ok
        may come behind the answer to what was asked next.
        """
        tag = getattr(answer, "consumer_tag", None)
        for request in self.requests:
            method = request.method
            if answer.ID in method.RESPONSES and getattr(method, "consumer_tag", tag) in (tag, ""):
                return request
        return None

    def note(self, method: Method, answer: Answer) -> object:
        """The broker has done it: remember it for the next connection. The result is what the user gets."""
        result = self.engine.topology.note(method, answer)
        if isinstance(result, QueueInfo):
            self.last_queue = result
        return result

    def recovered(self, answer: Answer) -> object:
        """The broker has taken back everything that was not settled: those delivery tags mean nothing now."""
        self.epoch += 1
        for inbox in self.consumers.values():
            inbox.interrupted()
        return answer

    def no_connection(self, request: Request) -> ConnectionLost:
        return ConnectionLost(
            f"the connection broke before {request.method.NAME} was answered: look what became of it, and "
            "repeat it if need be (the client reconnects by itself)"
        )

    # -- coming and going

    def open(self) -> None:
        """Say on the connection that exists now everything that makes this channel what it is."""
        waiting, self.waiting = self.waiting, []
        opening = Request(ChannelOpen())
        if waiting and isinstance(waiting[0].method, ChannelOpen):
            opening = waiting.pop(0)  # a caller waits for the answer
        self.epoch += 1
        self.acked_through = 0
        self.ready = True
        self.forget_incoming()
        self.send(opening)
        if self.confirming:
            self.send(Request(ConfirmSelect()))
        if self.transactional:
            self.send(Request(TxSelect()))
        for qos in self.qos:
            if qos is not None:
                self.send(Request(qos))
        for inbox in self.consumers.values():
            self.send(Request(inbox.consume))
        self.publish_again()
        for request in waiting:
            self.request(request)

    def suspend(self, refusal: ClientError | None = None) -> None:
        """The connection is gone, another may come. A `refusal` is the broker's, for something we sent."""
        if refusal is not None and self.ready:
            self.unconfirmed.refused(refusal, REFUSALS_MAX)
        self.ready = False
        self.epoch += 1  # already: what was delivered and not looked at yet need not be, it will come again
        self.flow_active = True
        if self.transaction_open:
            self.transaction_open, self.transaction_lost = False, True
        for request in self.requests:
            if isinstance(request.method, ChannelClose):
                self.requests.remove(request)
                self.closed_while_away(request)
                return
        requests, self.requests = self.requests, deque()
        again: list[Request] = []
        for request in requests:
            if request.waiter is None or request.abandoned:
                continue  # one of our own, from `open`, or no caller waits for it any more
            request.refusals += refusal is not None
            if refusal is not None and request.refusals >= REFUSALS_MAX:
                request.failed(refusal)
            elif request.repeatable:
                again.append(request)
            else:
                request.failed(refusal or self.no_connection(request))
        self.waiting = again + [request for request in self.waiting if not request.abandoned]
        for inbox in self.consumers.values():
            inbox.interrupted()

    def end(self, error: ClientError) -> None:
        """Closed for good: every call that waits for an answer on it fails with `error`."""
        if self.error is not None:
            return
        self.error = error
        self.ready = False
        for request in [*self.requests, *self.waiting]:
            if isinstance(request.method, ChannelClose) and self.closing:
                request.answered(ChannelCloseOk())
            else:
                request.failed(error)
        self.requests.clear()
        self.waiting.clear()
        self.unconfirmed.abandon(error)
        self.unsent.clear()
        for inbox in list(self.consumers.values()):
            inbox.end(error)
        self.consumers.clear()
