"""One channel, sans-IO: who consumes, which answers are awaited; what was published is in `publishing`.

A channel outlives its connection. While there is none (`ready` is false) publishes and requests are kept, and
`open` says everything again on the new one. `epoch` counts openings and losses: a delivery tag means
something only in the epoch it came from.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING

from embermq.client.core.message import ACK, NACK, Message
from embermq.client.core.outlet import ASLEEP
from embermq.client.core.publication import Receipt
from embermq.client.core.publishing import REFUSALS_MAX, Publishing
from embermq.client.core.request import Answer, Request
from embermq.client.core.topology import QueueInfo
from embermq.client.errors import ChannelClosed, ClientError, ConnectionLost, TransactionLost
from embermq.wire.frame import method_frame
from embermq.wire.methods import (
    BasicGet,
    BasicNack,
    BasicQos,
    BasicReject,
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


class ChannelCore(Publishing):
    __slots__ = (
        "acked_through",
        "closing",
        "error",
        "flow_active",
        "last_queue",
        "qos",
        "requests",
        "waiting",
    )

    def __init__(self, engine: Engine, number: int, *, confirming: bool) -> None:
        super().__init__(engine, number, confirming)
        self.closing = False
        self.flow_active = True
        self.error: ClientError | None = None  # why the channel is closed for good
        self.qos: list[BasicQos | None] = [None, None]  # per consumer, and for the channel as a whole
        self.requests: deque[Request] = deque()  # sent, not answered
        self.waiting: list[Request] = []  # to be sent when there is a connection
        self.last_queue: QueueInfo | None = None  # the one that a request without a name means
        self.acked_through = 0  # all deliveries up to this tag are settled

    # -- settling deliveries

    def on_got(self, message: Message) -> None:
        request = next(asked for asked in self.requests if isinstance(asked.method, BasicGet))
        assert isinstance(request.method, BasicGet)
        self.requests.remove(request)
        message.settled = request.method.no_ack
        request.answered(message)

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

    def settle_delivery(self, message: Message, kind: int, multiple: bool, requeue: bool) -> int:
        """From any thread: at once, or by the thread that has the connection, in the order of the calls."""
        engine = self.engine
        commands = engine.commands
        if commands is None:
            with engine.lock:
                self.settle_delivery_now(message, kind, multiple, requeue)
            return 0
        if kind == ACK and not multiple:
            commands.append(message)
        else:
            commands.append((self.settle_delivery_now, (message, kind, multiple, requeue)))
        if engine.resting == ASLEEP:
            engine.resting = 0
            engine.ring(b"\0")
        return 0

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
        if self.engine.commands is None:
            self.ack_batch_now(batch)
        else:
            self.engine.post(self.ack_batch_now, batch)
        for message in batch:
            message.settled = True

    def ack_batch_now(self, batch: list[Message]) -> None:
        batch = [message for message in batch if not message.told]
        if not batch:
            return
        first, last = batch[0].delivery_tag, batch[-1].delivery_tag
        if first == self.acked_through + 1 and last - first + 1 == len(batch):
            self.settle_delivery_now(batch[-1], ACK, True, False)
            for message in batch:
                message.told = True
        else:
            for message in batch:
                self.settle_delivery_now(message, ACK, False, False)

    def _settle_by(self, method: Method, epoch: int) -> None:
        with self.engine.lock:
            if epoch == self.epoch and self.ready:
                self.transaction_open = self.transactional
                self.engine.out.write(method_frame(self.number, method))
            else:
                self.transaction_lost = self.transactional
        self.engine.wake()

    # -- publishing

    def publish_or_abandon(
        self, method: bytes, properties: bytes, body: bytes, mandatory: bool, receipt: Receipt
    ) -> None:
        """The same, for those who cannot know of `error` because another thread has the connection."""
        if self.error is None:
            self.publish(method, properties, body, mandatory, receipt)
        elif receipt.outstanding:
            receipt.abandon(self.error)

    # -- requests

    def request(self, request: Request) -> None:
        """Send it, or keep it until there is a connection. The caller has the lock and wakes the engine."""
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
        self.engine.out.write(method_frame(self.number, method))
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

    def suspend(self, refusal: ClientError | None = None) -> None:
        """The connection is gone, another may come. A `refusal` is the broker's, for something we sent."""
        if refusal is not None and self.ready:
            self.refused(refusal)
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
                continue  # one of our own, from `open`, or nobody waits for it any more
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
        """Closed for good: everybody who waits for something of it hears why."""
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
        self.abandon_publications(error)
        for inbox in list(self.consumers.values()):
            inbox.end(error)
        self.consumers.clear()
