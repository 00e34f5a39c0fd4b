"""A channel for blocking code: every method of the protocol as a call that waits for its answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from embermq.client.blocking.column_consumer import ColumnConsumer
from embermq.client.blocking.consumer import Consumer
from embermq.client.blocking.declaring import Declaring
from embermq.client.blocking.inbox import BlockingInbox
from embermq.client.blocking.publishing import Publishing
from embermq.client.core.channel import ChannelCore
from embermq.client.core.consumers import OnError, check_on_error
from embermq.client.core.handles import ChannelHandle
from embermq.client.core.message import Message
from embermq.client.core.requests import Arguments, consume_method, consume_request, request_for
from embermq.wire.methods import (
    BasicCancel,
    BasicGet,
    BasicQos,
    BasicRecover,
    ChannelClose,
    ChannelFlow,
    ChannelFlowOk,
    Method,
    TxCommit,
    TxRollback,
    TxSelect,
)

if TYPE_CHECKING:
    from embermq.client.blocking.connection import Connection


class Channel(ChannelHandle, Declaring, Publishing):
    """Opened by `Connection.channel`. Any number of threads may publish on it at the same time.

    An error of the broker's closes it for good: the call that caused it raises, later ones raise the same.
    """

    def __init__(self, connection: Connection, core: ChannelCore) -> None:
        self.connection = connection
        self.on_return: Callable[[Message], None] | None = None
        self.closed_by_user = False
        self._core = core
        self._engine = core.engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_closed or self.connection.is_closed:
            return
        if kind is not None and self.connection.blocked_reason is not None:
            # No answer will come while the broker reads nothing, and the error should not wait for one.
            self.forsake()
            return
        self.close()

    def close(self, reply_text: str = "goodbye") -> None:
        self.closed_by_user = True
        if not self.is_closed:
            self.call(ChannelClose(200, reply_text))
        self.connection.forget(self._core)

    def forsake(self) -> None:
        """As `close`, without waiting for the answer."""
        self.closed_by_user = True
        self.connection.tell(self._core, request_for(self._core, ChannelClose(200, "goodbye")))

    def call(self, method: Method, timeout_s: float | None = None) -> Any:
        """Send any method and wait for its answer; what it declares is restored after a reconnection."""
        return self.connection.call(self._core, request_for(self._core, method), timeout_s)

    # -- consuming

    def consume(
        self,
        queue: str = "",
        callback: Callable[[Message], None] | None = None,
        *,
        prefetch: int | None = None,
        no_ack: bool = False,
        exclusive: bool = False,
        no_local: bool = False,
        consumer_tag: str = "",
        arguments: Arguments = None,
        timeout_s: float | None = None,
        on_error: OnError = "stop",
    ) -> Consumer:
        """Begin to consume. Iterate over the result, or give a callback, which runs in a thread of its own.

        With `timeout_s` the iteration ends when nothing came for so long. `prefetch` holds for this consumer
        and for those after it on the channel. No name means the queue declared last. What a callback raises
        ends the consumer; with `on_error` "requeue" or "reject" it is logged, and the consumer goes on.
        """
        check_on_error(on_error)
        if prefetch is not None:
            self.qos(prefetch)
        method = consume_method(queue, consumer_tag, no_local, no_ack, exclusive, arguments)
        consumer = Consumer(self, BlockingInbox(self._core, method), timeout_s)
        self.connection.call(self._core, consume_request(self._core, consumer.inbox))
        if callback is not None:
            consumer.start(callback, on_error)
        return consumer

    def consume_columns(
        self,
        queue: str = "",
        wanted: Collection[str] = ("body",),
        *,
        prefetch: int | None = None,
        no_ack: bool = False,
        arguments: Arguments = None,
    ) -> ColumnConsumer:
        """Begin to consume without an object for each message: `fetch` gives columns, as Apache Arrow does.

        `wanted` says which: body, exchange, routing_key, properties, offset, redelivered.
        """
        if prefetch is not None:
            self.qos(prefetch)
        method = consume_method(queue, "", False, no_ack, False, arguments)
        consumer = ColumnConsumer(self, method, wanted)
        self.connection.call(self._core, consume_request(self._core, consumer.inbox))
        return consumer

    def cancel(self, consumer_tag: str) -> None:
        self.call(BasicCancel(consumer_tag))

    def get(self, queue: str = "", *, no_ack: bool = False) -> Message | None:
        """One message if there is one. For many, consume: that is faster by far."""
        message: Message | None = self.call(BasicGet(queue, no_ack))
        return message

    def qos(self, prefetch_count: int, *, prefetch_size: int = 0, global_: bool = False) -> None:
        """How many deliveries may be unsettled: per consumer from now on, or for the whole channel."""
        self.call(BasicQos(prefetch_size, prefetch_count, global_))

    def recover(self, *, requeue: bool = True) -> None:
        """Have everything that is not settled delivered again."""
        self.call(BasicRecover(requeue))

    def flow(self, active: bool) -> bool:
        """Ask the broker to stop or go on delivering (RabbitMQ refuses to stop)."""
        answer: ChannelFlowOk = self.call(ChannelFlow(active))
        return answer.active

    # -- transactions

    def tx_select(self) -> None:
        """From now on publishes and acks count only once they are committed. Needs `confirms=False`."""
        self.call(TxSelect())

    def tx_commit(self) -> None:
        """Do all of it; TransactionLost when the connection broke in between."""
        self.call(TxCommit())

    def tx_rollback(self) -> None:
        self.call(TxRollback())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end of the block, roll back when it raises."""
        if not self._core.transactional or not self._core.ready:  # asking waits for the connection
            self.tx_select()
        try:
            yield
        except BaseException:
            if not self.is_closed:
                self.tx_rollback()
            raise
        self.tx_commit()
