"""Class message: transfer, consume, cancel, get, recover, qos, and references.

Its methods are requests: each comes in a request frame and has a response.
"""

from __future__ import annotations

from embermq.amqp.amqp_0_9.channel import Channel09
from embermq.amqp.amqp_0_9.consumer import MessageConsumer, properties_of, transfer
from embermq.amqp.amqp_0_9.reference import append, open_reference, reference
from embermq.amqp.channel.publish_checks import exchange_to_write
from embermq.amqp.handlers import basic
from embermq.broker.queue.level import Entry
from embermq.errors import CommandInvalid, NotFound, PreconditionFailed
from embermq.wire import methods, methods_0_9
from embermq.wire.frame import content_header
from embermq.wire.primitive import encode_shortstr

MANDATORY, IMMEDIATE = 1, 2


def on_transfer(channel: Channel09, method: methods_0_9.MessageTransfer) -> None:
    if channel.confirming:
        raise CommandInvalid("confirm.select is for basic.publish: message.transfer has a response")
    exchange_to_write(channel, method.destination, method.routing_key)  # an error is not for later
    if method.body.by_reference:
        target = reference(channel, method.body.data)
        target.transfers.append((request_of(channel), method))
    else:
        publish(channel, request_of(channel), method, method.body.data)


def request_of(channel: Channel09) -> int:
    """The number of the request at hand, which is answered later."""
    request_id, _ = channel.pending.pop()
    return request_id


def publish(channel: Channel09, request_id: int, method: methods_0_9.MessageTransfer, body: bytes) -> None:
    names = encode_shortstr(method.destination) + encode_shortstr(method.routing_key)
    bits = method.mandatory * MANDATORY | method.immediate * IMMEDIATE
    properties = properties_of(method, channel.connection.turn.now_ms // 1000)
    channel.transfer(request_id, names, bits, content_header(len(body), properties.encode()), body)


def on_consume(channel: Channel09, method: methods_0_9.MessageConsume) -> None:
    consume = methods.BasicConsume(
        method.queue,
        method.destination,
        method.no_local,
        method.no_ack,
        method.exclusive,
        True,  # no-wait: the answer is `ok`
        method.arguments,
    )
    basic.on_basic_consume(channel, consume, MessageConsumer)
    channel.send(methods_0_9.MessageOk())


def on_cancel(channel: Channel09, method: methods_0_9.MessageCancel) -> None:
    basic.on_basic_cancel(channel, methods.BasicCancel(method.destination, no_wait=True))
    channel.send(methods_0_9.MessageOk())


def on_get(channel: Channel09, method: methods_0_9.MessageGet) -> None:
    def put(entry: Entry | None, ready_count: int) -> None:
        if entry is None:
            channel.send(methods_0_9.MessageEmpty())
            return
        tag = 0 if method.no_ack else channel.delivery_tag
        transfer(channel, entry.message, method.destination, bool(entry.redelivered), tag)
        channel.send(methods_0_9.MessageOk())

    basic.get_from(channel, method.queue, method.no_ack, put)


def on_recover(channel: Channel09, method: methods_0_9.MessageRecover) -> None:
    if channel.transaction is not None:
        raise PreconditionFailed("message.recover is not for channels with transactions")
    channel.send(methods_0_9.MessageOk())
    channel.outgoing.unanswered.clear()  # they come as new requests
    basic.recover(channel, method.requeue)


def on_qos(channel: Channel09, method: methods_0_9.MessageQos) -> None:
    basic.set_qos(channel, method.prefetch_size, method.prefetch_count, method.global_)
    channel.send(methods_0_9.MessageOk())


# -- references


def on_open(channel: Channel09, method: methods_0_9.MessageOpen) -> None:
    open_reference(channel, method.reference)
    channel.send(methods_0_9.MessageOk())


def on_append(channel: Channel09, method: methods_0_9.MessageAppend) -> None:
    append(channel, method.reference, method.data)
    channel.send(methods_0_9.MessageOk())


def on_close(channel: Channel09, method: methods_0_9.MessageClose) -> None:
    """The reference is whole: publish the messages that refer to it."""
    closed = reference(channel, method.reference)
    del channel.references[method.reference]
    channel.send(methods_0_9.MessageOk())
    for request_id, transferred in closed.transfers:
        publish(channel, request_id, transferred, bytes(closed.data))


def on_checkpoint(channel: Channel09, method: methods_0_9.MessageCheckpoint) -> None:
    saved = bytes(reference(channel, method.reference).data)
    interrupted = channel.connection.broker.interrupted
    interrupted.put(channel.user.name, checkpoint_key(channel, method.identifier), saved, lambda: None)
    channel.send(methods_0_9.MessageOk())


def on_resume(channel: Channel09, method: methods_0_9.MessageResume) -> None:
    key = checkpoint_key(channel, method.identifier)
    saved = channel.connection.broker.interrupted.take(channel.user.name, key)
    if saved is None:
        raise NotFound(f"no checkpoint '{method.identifier}'")
    open_reference(channel, method.reference, saved)
    channel.send(methods_0_9.MessageOffset(len(saved)))


def checkpoint_key(channel: Channel09, identifier: str) -> bytes:
    return f"{channel.vhost.name}\0{identifier}".encode("utf-8", "surrogateescape")
