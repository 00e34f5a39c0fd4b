"""The topology that a connection has declared, kept to be declared again after a reconnection.

Queues that the broker named get a new name then. Handles (`QueueInfo`) learn it, and a request that still
uses an old name is sent with the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from embermq.client.core.request import Answer
from embermq.wire.methods import (
    BasicConsume,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueUnbind,
)


class QueueInfo:
    """A declared queue. `name` is the name of today: a reconnection renames what the broker has named."""

    __slots__ = ("consumer_count", "message_count", "name")

    def __init__(self, name: str, message_count: int, consumer_count: int) -> None:
        self.name = name
        self.message_count = message_count
        self.consumer_count = consumer_count

    def __repr__(self) -> str:
        return f"<queue '{self.name}', {self.message_count} messages, {self.consumer_count} consumers>"


@dataclass
class RecordedQueue:
    declare: QueueDeclare
    server_named: bool
    handles: list[QueueInfo] = field(default_factory=list)


Binding = QueueBind | ExchangeBind


class Topology:
    def __init__(self) -> None:
        self.exchanges: dict[str, ExchangeDeclare] = {}
        self.queues: dict[str, RecordedQueue] = {}
        self.bindings: dict[bytes, Binding] = {}  # by their bytes: arguments cannot be hashed
        self.new_names: dict[str, str] = {}

    # -- noting what was declared

    def note(self, method: Method, answer: Answer) -> object:
        """The broker has done it. The result is what the user gets."""
        match method:
            case ExchangeDeclare(passive=False):
                self.exchanges[method.exchange] = method
            case ExchangeDelete():
                self.exchanges.pop(method.exchange, None)
                self._forget_bindings_of(method.exchange, of_queue=False)
            case QueueDeclare():
                return self._queue_declared(method, answer)
            case QueueDelete():
                self.queues.pop(method.queue, None)
                self._forget_bindings_of(method.queue, of_queue=True)
            case QueueBind() | ExchangeBind():
                self.bindings[method.encode()] = method
            case QueueUnbind():
                bind: Binding = QueueBind(
                    method.queue, method.exchange, method.routing_key, False, method.arguments
                )
                self.bindings.pop(bind.encode(), None)
            case ExchangeUnbind():
                bind = ExchangeBind(
                    method.destination, method.source, method.routing_key, False, method.arguments
                )
                self.bindings.pop(bind.encode(), None)
            case _:
                pass
        return answer

    def _queue_declared(self, method: QueueDeclare, answer: Answer) -> object:
        if not isinstance(answer, QueueDeclareOk):  # no_wait: there is no answer
            answer = QueueDeclareOk(method.queue)
        info = QueueInfo(answer.queue, answer.message_count, answer.consumer_count)
        if not method.passive:
            recorded = self.queues.setdefault(answer.queue, RecordedQueue(method, not method.queue))
            recorded.handles.append(info)
            if not recorded.server_named:
                recorded.handles.clear()
        return info

    def consumer_gone(self, queue: str, consumers: list[BasicConsume]) -> None:
        """An auto-delete queue goes with its last consumer and must not come back."""
        recorded = self.queues.get(queue)
        if recorded is not None and recorded.declare.auto_delete:
            if all(consume.queue != queue for consume in consumers):
                del self.queues[queue]
                self._forget_bindings_of(queue, of_queue=True)

    def _forget_bindings_of(self, name: str, *, of_queue: bool) -> None:
        def touches(binding: Binding) -> bool:
            if isinstance(binding, QueueBind):
                return (binding.queue if of_queue else binding.exchange) == name
            return not of_queue and name in (binding.source, binding.destination)

        self.bindings = {key: binding for key, binding in self.bindings.items() if not touches(binding)}

    # -- names that have changed

    def rename(self, method: Method) -> None:
        """Put today's name of a queue into a request that knows it under an old one."""
        if self.new_names and hasattr(method, "queue"):
            method.queue = self.new_names.get(method.queue, method.queue)

    def renamed(self, old: str, new: str) -> None:
        recorded = self.queues.pop(old)
        self.queues[new] = recorded
        for handle in recorded.handles:
            handle.name = new
        for earlier, name in list(self.new_names.items()):
            if name == old:
                self.new_names[earlier] = new
        self.new_names[old] = new
        moved: dict[bytes, Binding] = {}
        for binding in self.bindings.values():
            if isinstance(binding, QueueBind) and binding.queue == old:
                binding.queue = new
            moved[binding.encode()] = binding
        self.bindings = moved
