"""One channel, sans-IO: what was published and not confirmed, who consumes, which answers are awaited.

A channel outlives its connection. While there is none (`ready` is false) publishes and requests are kept, and
`open` says everything again on the new one. `epoch` counts openings and losses: a delivery tag means
something only in the epoch it came from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from embermq.client.core.incoming import Incoming
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, Outgoing, Publication, Receipt, as_bytes, raw_properties
from embermq.client.core.request import Answer, Request
from embermq.client.core.topology import QueueInfo
from embermq.client.errors import ChannelClosed, ClientError, ConnectionLost, TransactionLost
from embermq.wire.frame import method_frame
from embermq.wire.methods import (
    BasicGet,
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


class ChannelCore(Incoming):
    __slots__ = (
        "acked_through",
        "closing",
        "confirming",
        "error",
        "flow_active",
        "last_queue",
        "lowest_unconfirmed",
        "mandatory_count",
        "publish_tag",
        "qos",
        "ready",
        "requests",
        "transaction_lost",
        "transaction_open",
        "transactional",
        "unconfirmed",
        "unsent",
        "waiting",
    )

    def __init__(self, engine: Engine, number: int, *, confirming: bool) -> None:
        super().__init__(engine, number)
        self.confirming = confirming
        self.transactional = False
        self.transaction_open = False  # something was done since the last commit
        self.transaction_lost = False
        self.ready = False
        self.closing = False
        self.flow_active = True
        self.error: ClientError | None = None  # why the channel is closed for good
        self.qos: list[BasicQos | None] = [None, None]  # per consumer, and for the channel as a whole
        self.requests: deque[Request] = deque()  # sent, not answered
        self.waiting: list[Request] = []  # to be sent when there is a connection
        self.unconfirmed: dict[int, Publication] = {}
        self.unsent: list[Publication] = []  # of a channel without confirms, while there is no connection
        self.last_queue: QueueInfo | None = None  # the one that a request without a name means
        self.acked_through = 0  # all deliveries up to this tag are settled
        self.publish_tag = 0
        self.lowest_unconfirmed = 1
        self.mandatory_count = 0  # unconfirmed ones that may be returned

    # -- publishing

    def publish(
        self, method: bytes, properties: bytes, body: bytes, mandatory: bool, receipt: Receipt | None
    ) -> int:
        """Send a message, or keep it until that is possible. The caller has the lock and knows of `error`."""
        if self.confirming:
            publication = Publication(method, properties, body, mandatory, receipt)
            self.publish_tag += 1
            self.unconfirmed[self.publish_tag] = publication
            if mandatory:
                self.mandatory_count += 1
        elif self.transactional:
            self.transaction_open = True
            self.transaction_lost = self.transaction_lost or not self.ready
        if self.ready:
            self.engine.out.put_publish(self.number, method, properties, body, self.engine.frame_max)
        elif not self.confirming and not self.transactional:
            self.unsent.append(Publication(method, properties, body, mandatory, None))
        return 0

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
        engine = self.engine
        route = engine.route(exchange, routing_key, mandatory)
        size = 0
        for item in messages:
            if receipt is not None and self.confirming:
                receipt.outstanding += 1
            if isinstance(item, Outgoing):
                size += self.publish_outgoing(item, exchange, routing_key, properties, mandatory, receipt)
            else:
                body = item if isinstance(item, bytes) else as_bytes(item)
                self.publish(route, properties, body, mandatory, receipt)
                size += len(body)
            if size >= bytes_max or engine.out.size >= bytes_max:
                return True
        return False

    def publish_outgoing(
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
        self.publish(
            self.engine.route(exchange, routing_key, mandatory), properties, body, mandatory, receipt
        )
        return len(body)

    def on_confirm(self, tag: int, multiple: bool, acked: bool) -> int:
        if not multiple:
            self.settle(self.unconfirmed.pop(tag, None), acked)
            return 0
        if tag == 0 or tag > self.publish_tag:
            tag = self.publish_tag
        lowest = self.lowest_unconfirmed
        while lowest <= tag:
            self.settle(self.unconfirmed.pop(lowest, None), acked)
            lowest += 1
        self.lowest_unconfirmed = lowest
        return 0

    def settle(self, publication: Publication | None, acked: bool) -> int:
        if publication is not None:
            if publication.mandatory:
                self.mandatory_count -= 1
            if publication.receipt is not None:
                publication.receipt.settle(acked, publication.returned)
        return 0

    def on_got(self, message: Message) -> None:
        request = self.requests.popleft()
        assert isinstance(request.method, BasicGet)
        message.settled = request.method.no_ack
        request.answered(message)

    def on_return(self, method: BasicReturn, message: Message) -> None:
        """Find the publication. Returns carry no tag, but they come in order and before the confirm."""
        message.reply_text = f"{method.reply_code} {method.reply_text}"
        publication = self.find_returned(message) if self.mandatory_count else None
        if publication is not None:
            publication.returned = message
        self.engine.happened("returned", self, message)

    def find_returned(self, message: Message) -> Publication | None:
        """The first one that looks like it; the broker may have changed its properties (direct reply-to)."""
        similar: Publication | None = None
        for publication in self.unconfirmed.values():
            if (
                publication.mandatory
                and publication.returned is None
                and publication.body == message.body
                and self.engine.routes_as(publication.method, message.exchange, message.routing_key)
            ):
                if publication.properties == message.raw_properties:
                    return publication
                similar = similar or publication
        return similar

    # -- settling deliveries

    def ack(self, delivery_tag: int, multiple: bool, epoch: int) -> int:
        engine = self.engine
        with engine.lock:
            if epoch == self.epoch and self.ready:
                self.transaction_open = self.transactional
                if delivery_tag == self.acked_through + 1 or (multiple and delivery_tag > self.acked_through):
                    self.acked_through = delivery_tag
                engine.out.put_ack(self.number, delivery_tag, multiple)
            else:
                self.transaction_lost = self.transactional
        if not engine.awake:
            engine.wake()
        return 0

    def ack_batch(self, batch: list[Message]) -> None:
        """Settle all of these: with one ack for many where that settles nothing else."""
        if not batch:
            return
        first, last = batch[0].delivery_tag, batch[-1].delivery_tag
        everything = first == self.acked_through + 1 and last - first + 1 == len(batch)
        if everything and not batch[-1].settled:
            batch[-1].ack(multiple=True)
            for message in batch:
                message.settled = True
        else:
            for message in batch:
                message.ack()

    def nack(self, delivery_tag: int, multiple: bool, requeue: bool, epoch: int) -> None:
        self._settle_by(BasicNack(delivery_tag, multiple, requeue), epoch)

    def reject(self, delivery_tag: int, requeue: bool, epoch: int) -> None:
        self._settle_by(BasicReject(delivery_tag, requeue), epoch)

    def _settle_by(self, method: Method, epoch: int) -> None:
        with self.engine.lock:
            if epoch == self.epoch and self.ready:
                self.transaction_open = self.transactional
                self.engine.out.write(method_frame(self.number, method))
            else:
                self.transaction_lost = self.transactional
        self.engine.wake()

    # -- requests

    def request(self, request: Request) -> None:
        """Send it, or keep it until there is a connection. The caller has the lock and wakes the engine."""
        if self.error is not None:
            request.failed(self.error)
        elif isinstance(request.method, (TxCommit, TxRollback)) and (self.transaction_lost or not self.ready):
            self.end_lost_transaction(request)
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
        self.engine.topology.rename(method)
        self.engine.out.write(method_frame(self.number, method))
        if getattr(method, "no_wait", False) or not method.RESPONSES:
            request.answered(method)
        else:
            self.requests.append(request)

    def note(self, method: Method, answer: Answer) -> object:
        """The broker has done it: remember it for the next connection. The result is what the user gets."""
        result = self.engine.topology.note(method, answer)
        if isinstance(result, QueueInfo):
            self.last_queue = result
        return result

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
            opening = waiting.pop(0)  # somebody waits for the answer
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

    def publish_again(self) -> None:
        """What was never confirmed goes out again, in order, before anything new."""
        kept = [*self.unconfirmed.values(), *self.unsent]
        self.unconfirmed, self.unsent = {}, []
        self.publish_tag, self.lowest_unconfirmed, self.mandatory_count = 0, 1, 0
        for publication in kept:
            self.publish(
                publication.method,
                publication.properties,
                publication.body,
                publication.mandatory,
                publication.receipt,
            )

    def suspend(self) -> None:
        """The connection is gone, another may come."""
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
            if request.waiter is None:
                continue  # one of our own, from `open`
            if request.repeatable:
                again.append(request)
            else:
                request.failed(self.no_connection(request))
        self.waiting = again + self.waiting
        for inbox in self.consumers.values():
            inbox.interrupted()

    def end(self, error: ClientError) -> None:
        """Closed for good: everybody who waits for something of it hears why."""
        if self.error is not None:
            return
        self.error = error
        self.ready = False
        for request in [*self.requests, *self.waiting]:
            request.failed(error)
        self.requests.clear()
        self.waiting.clear()
        for publication in self.unconfirmed.values():
            if publication.receipt is not None:
                publication.receipt.abandon(error)
        self.unconfirmed.clear()
        self.unsent.clear()
        for inbox in list(self.consumers.values()):
            inbox.end(error)
        self.consumers.clear()
