"""basic.consume with `x-describe`, `x-browse` or `x-list-...`: queries that take nothing from a queue.

x-describe       one message with what there is to know about a queue, stream or super stream, as JSON
x-browse         a copy of every message that waits in a queue at this moment, in order
x-list-bindings  the bindings of a queue
x-list-queues    the queues whose whole name matches a regular expression; the name of the queue is empty

All end with basic.cancel, but for one that follows. Reading needs the permission to read, as consuming does.
"""

from __future__ import annotations

from embermq.amqp.channel.channel import Channel
from embermq.amqp.channel.consumer import ChannelConsumer
from embermq.broker.describe import (
    description_message,
    description_of_queue,
    description_of_super_stream,
    list_of_bindings,
    list_of_queues,
)
from embermq.broker.queue.arguments import boolean, selector_from
from embermq.broker.queue.browse import Place
from embermq.broker.queue.browse_queue import BrowseQueue, browse_of, single_message
from embermq.broker.queue.queue import Queue, describe
from embermq.broker.security.safe_regex import PatternError, compile_pattern
from embermq.errors import PreconditionFailed
from embermq.wire import methods

DESCRIBE, DESCRIBE_TIME, BROWSE, LIST = "x-describe", "x-describe-time", "x-browse", "x-list-queues"
BINDINGS = "x-list-bindings"

FOLLOW, POSITION = "x-browse-follow", "x-browse-position"
QPID_BROWSE, QPID_END = "x-filter-no-consume", "x-filter-auto-close"


def is_browse(arguments: dict[str, object]) -> bool:
    asked = any(arguments.get(name) is True for name in (DESCRIBE, BROWSE, BINDINGS))
    return asked or QPID_BROWSE in arguments


def is_list(arguments: dict[str, object]) -> bool:
    return LIST in arguments


def consume_list(channel: Channel, method: methods.BasicConsume) -> None:
    pattern = method.arguments[LIST]
    if not isinstance(pattern, str):
        raise PreconditionFailed(f"invalid arg '{LIST}': expected a regular expression")
    try:
        matches = compile_pattern(f"^(?:{pattern})$")
    except PatternError as error:
        raise PreconditionFailed(f"invalid arg '{LIST}': {error}") from error
    vhost, user, connection = channel.vhost, channel.user, channel.connection

    def is_listed(queue: Queue) -> bool:
        return (
            matches(queue.name)
            and queue.owner in (None, connection)
            and user.allows("read", vhost.name, queue.name)
        )

    start_browse(channel, method, BrowseQueue(vhost, "", list_of_queues(vhost, is_listed)))


def consume_browse(channel: Channel, method: methods.BasicConsume, name: str) -> None:
    channel.user.require("read", channel.vhost.name, "queue", name)
    start_browse(channel, method, browse_for(channel, method, name))


def start_browse(channel: Channel, method: methods.BasicConsume, queue: BrowseQueue) -> None:
    tag = method.consumer_tag
    consumer = ChannelConsumer(channel, queue, tag, method.no_ack, False, 0, method.arguments)
    channel.consumers[tag] = consumer
    if not method.no_wait:
        channel.send(methods.BasicConsumeOk(tag))
    queue.add_consumer(consumer)
    queue.begin()


def browse_as_asked(queue: Queue, arguments: dict[str, object]) -> BrowseQueue:
    what = describe(queue)
    follow = arguments.get(FOLLOW, QPID_BROWSE in arguments and QPID_END not in arguments)
    problem = boolean(follow)
    if problem is not None:
        raise PreconditionFailed(f"invalid arg '{FOLLOW}' for {what}: {problem}")
    position = arguments.get(POSITION)
    try:
        place = None if position is None else Place.parse(str(position))
        return browse_of(queue, selector_from(what, arguments), place, follow is True)
    except ValueError as error:
        raise PreconditionFailed(f"invalid arg '{POSITION}' for {what}: {error}") from error


def browse_for(channel: Channel, method: methods.BasicConsume, name: str) -> BrowseQueue:
    vhost = channel.vhost
    if method.arguments.get(BINDINGS) is True:
        return BrowseQueue(vhost, name, list_of_bindings(vhost.queue_for(name, channel.connection)))
    if method.arguments.get(DESCRIBE) is not True:
        queue = vhost.queue_for(name, channel.connection)
        if not queue.messages_leave:
            raise PreconditionFailed(f"{BROWSE} is for queues; a stream is read without taking anything")
        return browse_as_asked(queue, method.arguments)
    time_ms = method.arguments.get(DESCRIBE_TIME)
    if time_ms is not None and (isinstance(time_ms, bool) or not isinstance(time_ms, int) or time_ms < 0):
        raise PreconditionFailed(f"invalid arg '{DESCRIBE_TIME}': expected milliseconds since 1970")
    facts = None
    if name not in vhost.queues:
        facts = description_of_super_stream(vhost, name)
    if facts is None:
        facts = description_of_queue(vhost.queue_for(name, channel.connection), time_ms)
    return single_message(vhost, name, description_message(name, facts))
