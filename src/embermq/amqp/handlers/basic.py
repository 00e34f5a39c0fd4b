"""Class basic, all but what happens per message: qos, consume, cancel, get, reject, nack, recover."""

from __future__ import annotations

from collections.abc import Callable

from embermq.amqp.channel.bulk_settle import discard, give_back, in_pieces
from embermq.amqp.channel.channel import BLOCK_COUNT, Blocks, Channel
from embermq.amqp.channel.consumer import PREFETCH_COUNT, ChannelConsumer
from embermq.amqp.channel.publish_checks import REPLY_TO
from embermq.amqp.channel.publish_headers import REPLY_TO_PREFIX
from embermq.amqp.channel.recover import deliver_again
from embermq.amqp.connection.state import wait_while
from embermq.amqp.events import emit_consumer_created, emit_consumer_deleted
from embermq.amqp.handlers.browse import consume_browse, consume_list, is_browse, is_list
from embermq.amqp.handlers.lease import ACTION, LEASE, act_on_lease, lease_consumer
from embermq.amqp.handlers.queue import queue_name, serve_consumers
from embermq.broker.queue.arguments import selector_from
from embermq.broker.queue.dispatch import awaits_disk
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue, describe
from embermq.broker.vhost import generated_name
from embermq.errors import AccessRefused, NotAllowed, PreconditionFailed
from embermq.wire import methods

Put = Callable[[Entry | None, int], None]


def on_basic_qos(channel: Channel, method: methods.BasicQos) -> None:
    set_qos(channel, method.prefetch_size, method.prefetch_count, method.global_)
    channel.send(methods.BasicQosOk())


def set_qos(channel: Channel, prefetch_size: int, prefetch_count: int, is_global: bool) -> None:
    """RabbitMQ's meaning: `global` is the whole channel, otherwise each consumer to come."""
    if is_global or channel.connection.spec_qos:
        channel.shared_prefetch_count = prefetch_count
        channel.shared_prefetch_size = prefetch_size
        channel.credit_returned()
    else:
        channel.prefetch_count = prefetch_count
        channel.prefetch_size = prefetch_size


def on_basic_consume(
    channel: Channel,
    method: methods.BasicConsume,
    consumer_class: type[ChannelConsumer] = ChannelConsumer,
) -> None:
    lists = is_list(method.arguments)
    name = "" if lists else queue_name(channel, method.queue)  # before the tag, as RabbitMQ checks them
    tag = method.consumer_tag = method.consumer_tag or generated_name("amq.ctag-")
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    if lists:
        consume_list(channel, method)
        return
    if name == REPLY_TO:
        consume_replies(channel, method)
        return
    if is_browse(method.arguments):
        consume_browse(channel, method, name)
        return
    channel.user.require("read", channel.vhost.name, "queue", name)
    queue: Queue = channel.vhost.queue_for(name, channel.connection)
    wait_while(queue in channel.vhost.leaving)
    if LEASE in method.arguments and ACTION in method.arguments:
        act_on_lease(channel, queue, method)
        return
    if LEASE in method.arguments:
        refuse_selector(queue, method.arguments)
        begin_consuming(channel, lease_consumer(channel, queue, tag, method), method)
        return
    check_prefetch(queue, method.arguments)
    queue.check_consumer(method.arguments, bool(method.no_ack), channel.prefetch_count)
    selector = selector_from(describe(queue), method.arguments)
    single_active = queue.rules is not None and queue.rules.single_active
    taken = queue.consumers and queue.consumers[0].exclusive  # by an exclusive consumer
    if taken or (method.exclusive and (queue.consumers or single_active)):
        raise AccessRefused(f"{describe(queue)} in exclusive use")
    consumer = consumer_class(
        channel,
        queue,
        tag,
        method.no_ack,
        method.exclusive,
        channel.connection.number if method.no_local else 0,
        method.arguments,
    )
    consumer.selector = selector
    begin_consuming(channel, consumer, method)


def refuse_selector(queue: Queue, arguments: dict[str, object]) -> None:
    if selector_from(describe(queue), arguments) is not None:
        raise PreconditionFailed(f"a lease of {describe(queue)} takes all messages: it has no selector")


def check_prefetch(queue: Queue, arguments: dict[str, object]) -> None:
    count = arguments.get(PREFETCH_COUNT, 0)
    if type(count) is not int or not 0 <= count < 1 << 31:
        raise PreconditionFailed(
            f"invalid arg '{PREFETCH_COUNT}' for {describe(queue)}: expected a count, got {count!r}"
        )


def begin_consuming(channel: Channel, consumer: ChannelConsumer, method: methods.BasicConsume) -> None:
    channel.consumers[consumer.tag] = consumer
    if not method.no_wait:
        channel.send(methods.BasicConsumeOk(consumer.tag))
    consumer.queue.add_consumer(consumer)
    emit_consumer_created(consumer)


def consume_replies(channel: Channel, method: methods.BasicConsume) -> None:
    """basic.consume on amq.rabbitmq.reply-to."""
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply_queue is not None:
        raise PreconditionFailed("reply consumer already set")
    tag = method.consumer_tag
    queue: Queue = channel.vhost.add_reply_queue(REPLY_TO_PREFIX, channel.connection)
    channel.reply_queue = queue
    consumer = ChannelConsumer(channel, queue, tag, True, False, 0, method.arguments)
    channel.consumers[tag] = consumer
    if not method.no_wait:
        channel.send(methods.BasicConsumeOk(tag))
    queue.add_consumer(consumer)
    emit_consumer_created(consumer)


def on_basic_cancel(channel: Channel, method: methods.BasicCancel) -> None:
    consumer = channel.consumers.get(method.consumer_tag)
    if consumer is not None:
        serve_consumers(consumer.queue)
        del channel.consumers[method.consumer_tag]
        consumer.queue.remove_consumer(consumer)
        emit_consumer_deleted(consumer)
        if consumer.queue is channel.reply_queue:
            channel.reply_queue = None
    if not method.no_wait:
        channel.send(methods.BasicCancelOk(method.consumer_tag))


def on_basic_get(channel: Channel, method: methods.BasicGet) -> None:
    def put(entry: Entry | None, ready_count: int) -> None:
        if entry is None:
            channel.send(methods.BasicGetEmpty())
            return
        message = entry.message
        channel.send(
            methods.BasicGetOk(
                channel.delivery_tag, entry.redelivered, message.exchange, message.routing_key, ready_count
            )
        )
        channel.connection.out.put_content(
            channel.number, message.content, message.header_size, channel.connection.frame_max
        )

    get_from(channel, method.queue, method.no_ack, put)


def get_from(channel: Channel, queue: str, no_ack: bool, put: Put) -> None:
    """The next message of a queue (None: there is none) and how many are left, to `put`; perhaps later."""
    name = queue_name(channel, queue)
    channel.user.require("read", channel.vhost.name, "queue", name)
    found: Queue = channel.vhost.queue_for(name, channel.connection)
    wait_while(found in channel.vhost.leaving)
    serve_consumers(found)
    wait_while(awaits_disk(found))
    rules = found.rules
    if rules is not None and rules.expiry.expire_heads(channel.connection.turn.now_ms):
        in_pieces(channel, rules.expiry.pieces(), lambda: get(channel, found, no_ack, put))
    else:
        get(channel, found, no_ack, put)


def get(channel: Channel, queue: Queue, no_ack: bool, put: Put) -> None:
    if channel.closing:
        return  # while many messages that have expired were cleared away
    entry = queue.get(no_ack)
    if entry is None:
        put(None, 0)
        return
    if channel.vhost.trace is not None:
        channel.vhost.trace.delivered(queue, entry, channel)
    channel.delivery_tag += 1
    put(entry, queue.ready_count)
    if no_ack:
        channel.no_ack_count += 1
    else:
        entry.delivery_tag = channel.delivery_tag
        channel.unacked[channel.delivery_tag] = entry
        if len(channel.unacked) >= BLOCK_COUNT:
            channel.begin_block()


def on_basic_ack(channel: Channel, method: methods.BasicAck) -> None:
    channel.on_ack(method.delivery_tag, method.multiple)


def on_basic_nack(channel: Channel, method: methods.BasicNack) -> None:
    reject(channel, channel.take_blocks(method.delivery_tag, method.multiple), method.requeue)


def on_basic_reject(channel: Channel, method: methods.BasicReject) -> None:
    reject(channel, channel.take_blocks(method.delivery_tag, False), method.requeue)


def reject(channel: Channel, blocks: Blocks, requeue: bool) -> None:
    if channel.transaction is not None:
        channel.transaction.reject(blocks, requeue)
    elif requeue:
        give_back(channel, blocks)
    else:
        discard(channel, blocks)


def on_basic_recover(channel: Channel, method: methods.BasicRecover) -> None:
    channel.send(methods.BasicRecoverOk())  # first: no effect is seen before the response (002, 4.6)
    recover(channel, method.requeue)


def on_basic_recover_async(channel: Channel, method: methods.BasicRecoverAsync) -> None:
    recover(channel, method.requeue)


def recover(channel: Channel, requeue: bool) -> None:
    """All that is unacknowledged goes back to its queue, or again to the consumer that had it."""
    blocks = channel.take_all_and_rest()
    if requeue:
        give_back(channel, blocks)
    else:
        deliver_again(channel, blocks)
