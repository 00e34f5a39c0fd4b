"""The requests of both shells, with what the core has to note when they are answered."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from embermq.client.core.channel import ChannelCore
from embermq.client.core.inbox import Inbox
from embermq.client.core.message import Message
from embermq.client.core.request import Answer, Request
from embermq.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicQos,
    BasicRecover,
    Method,
    QueueDeclare,
    QueueDelete,
    TxCommit,
    TxRollback,
    TxSelect,
)

PREFETCH_MAX, PREFETCH_SIZE_MAX = 0xFFFF, 0xFFFF_FFFF
Arguments = Mapping[str, object] | None


def new_consumer_tag() -> str:
    """Chosen here and not by the broker, so that it stays the same after a reconnection."""
    return f"ctag-{secrets.token_hex(8)}"


def request_for(core: ChannelCore, method: Method) -> Request:
    """Any method, with what has to be noted for it."""
    match method:
        case BasicQos():
            return _qos(core, method)
        case BasicCancel():
            return _cancel(core, method)
        case BasicGet():
            return Request(method, None, _message_or_none, Message.nack)
        case BasicRecover(requeue=True):
            return Request(method, None, core.recovered)
        case TxSelect() | TxCommit() | TxRollback():
            return _transaction(core, method)
        case QueueDeclare(queue=""):  # a name of the broker's choice, not the queue declared last
            return Request(
                method,
                None,
                lambda answer: core.note(method, answer),
                lambda queue: core.request(request_for(core, QueueDelete(queue.name))),
            )
        case _ if getattr(method, "queue", None) == "" and core.last_queue is not None:
            method.queue = core.last_queue.name  # type: ignore[attr-defined]
    return Request(method, None, lambda answer: core.note(method, answer))


def consume_request(core: ChannelCore, inbox: Inbox) -> Request:
    """The inbox is known before the first delivery is looked at: that comes after the answer."""
    if not inbox.consume.queue and core.last_queue is not None:
        inbox.consume.queue = core.last_queue.name

    def note(answer: Answer) -> object:
        core.consumers[inbox.tag] = inbox
        inbox.has_credit = not inbox.no_ack and any(qos and qos.prefetch_count for qos in core.qos)
        return inbox

    def undo(result: object) -> None:
        if core.consumers.get(inbox.tag) is inbox:
            core.request(cancel_request(core, inbox))

    return Request(inbox.consume, None, note, undo)


def cancel_request(core: ChannelCore, inbox: Inbox) -> Request:
    """Ends a consumer. What it has not given to its user goes back to the queue when the broker answers."""
    request = _cancel(core, BasicCancel(inbox.tag))
    note = request.on_answer
    assert note is not None

    def note_and_give_back(answer: Answer) -> object:
        inbox.give_back()
        return note(answer)

    request.on_answer = note_and_give_back
    return request


def consume_method(
    queue: str,
    tag: str,
    no_local: bool,
    no_ack: bool,
    exclusive: bool,
    arguments: Arguments,
    selector: str | None = None,
) -> BasicConsume:
    said = dict(arguments or {})
    if selector is not None:
        said["x-selector"] = selector
    return BasicConsume(queue, tag or new_consumer_tag(), no_local, no_ack, exclusive, False, said)


def _qos(core: ChannelCore, method: BasicQos) -> Request:
    given: list[tuple[str, object, int]] = [
        ("prefetch", method.prefetch_count, PREFETCH_MAX),
        ("prefetch_size", method.prefetch_size, PREFETCH_SIZE_MAX),
    ]
    for name, value, most in given:
        if not isinstance(value, int) or not 0 <= value <= most:
            raise ValueError(f"{name} must be a number from 0 (no limit) to {most:,}, not {value!r}")

    def note(answer: Answer) -> object:
        core.qos[method.global_] = method
        return answer

    return Request(method, None, note)


def _cancel(core: ChannelCore, method: BasicCancel) -> Request:
    def note(answer: Answer) -> object:
        inbox = core.consumers.pop(method.consumer_tag, None)
        core.last_consumer_bytes = b""
        if inbox is not None:
            consumes = [
                other.consume
                for channel in core.engine.channels.values()
                for other in channel.consumers.values()
            ]
            core.engine.topology.consumer_gone(inbox.consume.queue, consumes)
        return answer

    return Request(method, None, note)


def _message_or_none(answer: Answer) -> object:
    return answer if isinstance(answer, Message) else None


def _transaction(core: ChannelCore, method: Method) -> Request:
    def note(answer: Answer) -> object:
        core.transactional = True
        core.transaction_open = False
        core.transaction_lost = False
        return answer

    return Request(method, None, note)
