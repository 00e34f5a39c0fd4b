"""A channel: content coming in, deliveries going out, what is unacknowledged in between.

Only what happens per message is here; rare methods are in `amqp/handlers`.

A published message arrives in three steps, and `expects` says which comes next:

    METHOD --basic.publish--> HEADER --content header--> BODY --as many body frames as announced--> METHOD

Small messages skip the middle: a header followed in the same buffer by its whole body becomes a message at
once, with a single copy.

Confirms: `published` counts, `safe` says up to where no sync is needed any more, `confirmed` what the client
was told. Deliveries that are out stand in one table by their tags; a consumer without a prefetch limit may
be sent millions, so beyond `BLOCK_COUNT` they are in blocks, of which a range can be taken out at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Iterator
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from embermq.amqp.channel.bulk_settle import settle
from embermq.amqp.channel.publish_checks import (
    BASIC_PUBLISH,
    check_rare_properties,
    exchange_to_write,
    require_topic,
)
from embermq.amqp.channel.publish_headers import (
    UNKNOWN_QUEUES,
    SpecialHeaders,
    publish_later,
    special_headers_in,
    with_special_headers,
)
from embermq.amqp.channel.stream_publish import StreamPublish
from embermq.amqp.channel.teardown import end_channel
from embermq.amqp.reply_text import unexpected, unknown_frame
from embermq.broker.exchange.exchange import Route
from embermq.broker.message.message import Message, expiration_ms, make_message
from embermq.broker.queue.dispatch import has_ready_consumer
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import KEEPS_ALL, Queue
from embermq.broker.queue.requeue import by_queue
from embermq.broker.security.user import User
from embermq.broker.vhost import VirtualHost
from embermq.errors import (
    FrameError,
    NoConsumers,
    NoRoute,
    PreconditionFailed,
    UnexpectedFrame,
)
from embermq.wire import methods
from embermq.wire.content import ABSENT, PERSISTENT, TRANSIENT, Peek
from embermq.wire.kernel import cut, join, load_u16, load_u32, load_u64, same

if TYPE_CHECKING:
    from embermq.amqp.channel.consumer import ChannelConsumer
    from embermq.amqp.channel.recover import Redelivery
    from embermq.amqp.channel.transaction import Transaction
    from embermq.amqp.connection.connection import Connection

METHOD, HEADER, BODY = 0, 1, 2
MANDATORY, IMMEDIATE = 1, 2
CLASS_BASIC = 60
ROUTES_MAX = 256  # routes remembered per channel
CONTENT_HEADER_BYTES_MIN = 14
# The same under names of this module, where they are C numbers.
MODE_TRANSIENT, MODE_PERSISTENT, NOT_THERE, KEPT_ALWAYS = TRANSIENT, PERSISTENT, ABSENT, KEEPS_ALL


BLOCK_COUNT = 4096  # deliveries in a block
SPARSE_COUNT = BLOCK_COUNT // 16
Blocks = list[Collection[Entry]]


class Channel:
    __slots__ = (
        "acked_count",
        "aliases",
        "body_max",
        "body_received",
        "body_size",
        "closing",
        "confirm_pending",
        "confirmed",
        "confirming",
        "connection",
        "consumers",
        "delivery_tag",
        "expects",
        "flow_active",
        "flow_wanted",
        "gathered",
        "header",
        "kept_in",
        "last_queue",
        "nacks",
        "no_ack_count",
        "number",
        "older",
        "older_ends",
        "pauses",
        "peek",
        "prefetch_count",
        "prefetch_size",
        "publish_bits",
        "published",
        "received_count",
        "redelivery",
        "reply_queue",
        "returned_count",
        "route",
        "routes",
        "safe",
        "shared_prefetch_count",
        "shared_prefetch_size",
        "shared_unacked",
        "shared_unacked_bytes",
        "special_headers",
        "stream_publish",
        "syncs_under_way",
        "transaction",
        "turned_away",
        "unacked",
        "unsafe",
        "user",
        "vhost",
    )

    def __init__(
        self, connection: Connection, number: int, vhost: VirtualHost, user: User, body_max: int
    ) -> None:
        self.consumers: dict[str, ChannelConsumer] = {}
        self.delivery_tag = 0  # of the last one: how many there were
        self.no_ack_count = 0  # of these, those of no-ack consumers
        self.acked_count = 0
        self.unacked: dict[int, Entry] = {}  # the latest of them
        self.older: list[dict[int, Entry]] = []  # blocks of those before, where there are so many
        self.older_ends: list[int] = []  # the last tag that each may have
        self.prefetch_count = 0  # for consumers to come
        self.prefetch_size = 0
        self.shared_prefetch_count = 0  # for all consumers of the channel together
        self.shared_prefetch_size = 0
        self.shared_unacked = 0
        self.shared_unacked_bytes = 0
        self.connection = connection
        self.number = number
        self.closing = False  # channel.close sent, close-ok awaited
        self.confirming = self.confirm_pending = False
        self.published = self.confirmed = 0
        self.safe = 0  # publishes up to here need no further sync
        self.unsafe = False  # some publish since the last end of turn is not on disk yet
        self.kept_in = UNKNOWN_QUEUES  # the queues which that went to
        self.syncs_under_way = 0
        self.nacks: deque[int] = deque()  # publishes that a full queue refused
        self.turned_away = False  # there was one, with confirms or without
        self.vhost = vhost
        self.user = user
        self.body_max = body_max
        self.flow_active = self.flow_wanted = True  # may there be deliveries; would the client have them
        self.pauses = 0  # reasons of ours against it, for the moment
        self.redelivery: Redelivery | None = None  # of very many, under way
        self.last_queue = ""
        self.aliases: dict[str, str] = {}  # names of queues in their namespaces, and without

        self.expects = METHOD
        self.route: Route | None = None
        self.routes: dict[bytes, Route] = {}
        self.publish_bits = 0
        self.peek = Peek()
        self.header = b""
        self.gathered = bytearray()  # header and body so far, in one piece however small the frames
        self.body_size = self.body_received = 0
        self.stream_publish: StreamPublish | None = None
        self.special_headers: SpecialHeaders | None = None  # of the message that is coming in
        self.reply_queue: Queue | None = None  # for direct replies
        self.received_count = 0  # messages published here
        self.returned_count = 0

        self.transaction: Transaction | None = None

    def open_ok(self) -> methods.Method:
        """The answer to channel.open."""
        return methods.ChannelOpenOk()

    # -- content in

    def interrupt_content(self) -> None:
        """Another frame in the middle of a content."""
        raise unexpected(self.expects)

    def on_publish(self, buf: bytearray, pos: int, stop: int) -> None:
        """basic.publish: find the route and wait for the content. `pos` is at the (unused) ticket."""
        if self.expects != METHOD:
            self.interrupt_content()
        route = self.route
        if (
            route is not None
            and pos + 3 + len(route.names) == stop
            and same(buf, pos + 2, route.names)
            and route.version == route.exchange.version
        ):
            self.publish_bits = buf[stop - 1]
        else:
            self.find_route(buf, pos, stop)
        self.expects = HEADER
        if self.connection.turn.alarmed:
            self.connection.block()

    def find_route(self, buf: bytearray, pos: int, stop: int) -> None:
        """The slow half of on_publish: a route that is not the one of the message before."""
        method = methods.BasicPublish.decode(buf, pos, stop)
        names = cut(buf, pos + 2, stop - 1)
        route = self.routes.get(names)
        if route is None or route.version != route.exchange.version:
            exchange = exchange_to_write(self, method.exchange, method.routing_key)
            route = exchange.route(names, method.routing_key)
            if len(self.routes) >= ROUTES_MAX:
                self.routes.clear()
            self.routes[names] = route
        self.route = route
        self.publish_bits = buf[stop - 1]

    def on_header(self, buf: bytearray, pos: int, stop: int, end: int) -> int:
        """A content header; answers where the next frame starts, behind the body where that is here whole."""
        if self.expects != HEADER:
            raise unexpected(self.expects)
        if stop - pos < CONTENT_HEADER_BYTES_MIN:
            raise unknown_frame(2, buf, pos, stop, blame=0)
        class_id = load_u16(buf, pos)
        if class_id != CLASS_BASIC:
            raise UnexpectedFrame(
                f"expected content header for class 60, got one for class {class_id} instead",
                blame=BASIC_PUBLISH,
            )
        if load_u16(buf, pos + 2) != 0:
            raise unexpected(HEADER)
        size = load_u64(buf, pos + 4)
        next_at = stop + 1
        self.peek.read(buf, pos + 12, stop)
        if size > self.body_max:
            raise PreconditionFailed(
                f"message size {size} is larger than configured max size {self.body_max}", blame=BASIC_PUBLISH
            )
        self.check_properties(buf)
        header_size = stop - pos
        if size == 0:
            self.on_content(cut(buf, pos, stop), header_size)
            return next_at
        if (
            end - next_at > 7
            and buf[next_at] == 3
            and load_u32(buf, next_at + 3) == size
            and size <= self.connection.frame_max
        ):
            body_stop = next_at + 7 + size
            if body_stop < end and buf[body_stop] == 0xCE and load_u16(buf, next_at + 1) == self.number:
                route = self.route
                if route is not None and route.to_stream:
                    following_at = self.take_straight(route, buf, pos, stop, body_stop, end)
                    if following_at:
                        return following_at
                self.on_content(join(buf, pos, stop, next_at + 7, body_stop), header_size)
                return body_stop + 1
        self.header = cut(buf, pos, stop)
        self.gathered = bytearray(self.header)
        self.body_size = size
        self.body_received = 0
        self.expects = BODY
        return next_at

    def check_properties(self, buf: bytearray) -> None:
        """Properties that RabbitMQ refuses a message for."""
        peek = self.peek
        if peek.user_id_at != NOT_THERE or peek.expiration_at != NOT_THERE:
            check_rare_properties(buf, peek, self.user, self.reply_queue)
        if peek.headers_at != NOT_THERE or peek.reply_to_at != NOT_THERE:
            self.special_headers = special_headers_in(
                buf, peek, self.reply_queue, self.connection.turn.now_ms
            )
            if self.special_headers is not None and self.route is not None:
                require_topic(self, "write", self.route.exchange, *self.special_headers.keys)
        if peek.delivery_mode != MODE_TRANSIENT and peek.delivery_mode != MODE_PERSISTENT:
            raise PreconditionFailed(
                f"invalid message: {{delivery_mode_unknown,{peek.delivery_mode}}}", blame=BASIC_PUBLISH
            )

    def on_body(self, buf: bytearray, pos: int, stop: int) -> None:
        if self.expects != BODY:
            raise unexpected(self.expects)
        self.body_received += stop - pos
        if self.body_received > self.body_size:
            raise FrameError(
                f"content body of {self.body_size} bytes announced, {self.body_received} received"
            )
        self.gathered += memoryview(buf)[pos:stop]
        if self.body_received == self.body_size:
            content = bytes(self.gathered)
            self.gathered = bytearray()
            self.on_content(content, len(self.header))

    def on_content(self, content: bytes, header_size: int) -> None:
        """A message is complete."""
        self.expects = METHOD
        route = self.route
        assert route is not None
        message = make_message(
            route.names,
            content,
            header_size,
            self.peek.delivery_mode == MODE_PERSISTENT,
            self.peek.priority,
            self.connection.number,
        )
        if self.peek.expiration_at != NOT_THERE:
            message.ttl_ms = expiration_ms(content, header_size)
        self.received_count += 1
        if self.special_headers is not None:
            special_headers, self.special_headers = self.special_headers, None
            message, route = with_special_headers(message, route, special_headers)
            if special_headers.due_ms:
                publish_later(self, message, route, special_headers)
                return
        queues = route.queues
        if route.version == route.exchange.version and not route.varies:
            route.count += 1
        else:
            queues = route.anew(message, self)
        if self.transaction is not None:
            # Routed now, as bindings are now; taken by the queues at commit.
            self.transaction.publishes.append((message, queues, self.publish_bits))
            return
        self.publish(message, queues, self.publish_bits)

    def take_straight(
        self, route: Route, buf: bytearray, pos: int, stop: int, body_stop: int, end: int
    ) -> int:
        """A message for a stream, and those like it that follow; where the next frame starts, 0 if none."""
        if (
            self.peek.headers_at != NOT_THERE
            or self.special_headers is not None
            or self.transaction is not None
            or self.publish_bits & IMMEDIATE
        ):
            return 0
        straight = self.stream_publish
        if straight is None:
            straight = self.stream_publish = StreamPublish()
        following_at = straight.take(
            route,
            self.number,
            self.publish_bits,
            self.peek.priority,
            min(self.connection.frame_max - 8, self.body_max),
            buf,
            pos,
            stop,
            body_stop,
            end,
        )
        if following_at:
            self.expects = METHOD
            self.received_count += straight.count
            self.keep(UNKNOWN_QUEUES)
            if self.confirming:
                self.count_published(straight.count)
        return following_at

    def publish(self, message: Message, queues: tuple[Queue, ...], bits: int) -> None:
        """Hand a message to its queues; one that has none goes back where that was asked for."""
        if self.confirming:
            self.count_published(1)
        if len(queues) != 1:
            if len(queues) == 0:
                if bits & (MANDATORY | IMMEDIATE):
                    self.return_message(message, NoRoute("") if bits & MANDATORY else NoConsumers(""))
                return
            self.connection.count_copies(len(queues))
        if bits & IMMEDIATE:
            queues = tuple([queue for queue in queues if has_ready_consumer(queue, message)])
            if not queues:
                self.return_message(message, NoConsumers(""))
        for queue in queues:
            if queue.append(message) != 0:
                self.refused()
            if queue.keeps and (message.persistent or queue.keeps == KEPT_ALWAYS):
                self.keep(queues)
            if queue.is_pressed():
                self.connection.pressed_queue = queue

    def return_message(self, message: Message, why: NoRoute | NoConsumers) -> None:
        self.returned_count += 1
        self.send(methods.BasicReturn(why.reply_code, why.label, message.exchange, message.routing_key))
        self.connection.out.put_content(
            self.number, message.content, message.header_size, self.connection.frame_max
        )

    # -- acknowledgements in

    def on_ack(self, delivery_tag: int, multiple: bool) -> None:
        if self.expects != METHOD:
            self.interrupt_content()
        if self.transaction is None and not (multiple and self.spans_blocks(delivery_tag)):
            self.settle(self.take_unacked(delivery_tag, multiple))
        else:
            settle(self, self.take_blocks(delivery_tag, multiple))

    def change_user(self, user: User) -> None:
        """The same one, with other permissions: what was allowed is asked again."""
        self.user = user
        self.route = None
        self.routes.clear()

    # -- deliveries that have to wait

    def set_flow(self, wanted: bool) -> None:
        self.flow_wanted = wanted
        self.flow_active = wanted and self.pauses == 0 and not self.closing
        if self.flow_active:
            self.credit_returned()

    def pause(self) -> None:
        self.pauses += 1
        self.flow_active = False

    def resume(self) -> None:
        self.pauses -= 1
        self.set_flow(self.flow_wanted)

    def take_all_and_rest(self) -> Blocks:
        """Everything that is unacknowledged, also what was about to come again."""
        blocks = self.take_all()
        if self.redelivery is not None:
            blocks += self.redelivery.take_rest()
        return blocks

    # -- the end

    def shut(self, in_order: bool = False) -> None:
        """The channel ends: consumers leave, what they had goes back, open transactions roll back."""
        end_channel(self, in_order)

    def part(self) -> tuple[Blocks, list[ChannelConsumer]]:
        """Take part in nothing any more; the unacknowledged deliveries and the consumers, for `teardown`."""
        self.closing = True
        self.flow_active = False  # what goes back must not come here again when a queue drains at once
        blocks = self.take_all_and_rest()
        if self.transaction is not None:
            blocks += self.transaction.held_blocks()
            self.transaction = None
        consumers = list(self.consumers.values())
        self.consumers.clear()
        self.gathered = bytearray()
        return blocks, consumers

    # -- confirms out

    def send(self, method: methods.Method) -> None:
        self.connection.out.write(self.connection.dialect.frame(self.number, method))
        self.connection.touch()

    # -- confirms

    def count_published(self, count: int) -> None:
        """So many more are to be confirmed."""
        self.published += count
        if not self.confirm_pending:
            self.confirm_pending = True
            self.connection.confirming_channels.append(self)
            self.connection.turn.confirms += 1
            self.connection.touch()

    def keep(self, queues: tuple[Queue, ...]) -> None:
        """What was published just now is not safe before it is on disk in these queues, or gone from them."""
        if not self.unsafe:
            self.unsafe = True
            self.kept_in = queues
        elif self.kept_in is not queues:
            self.kept_in = UNKNOWN_QUEUES

    def put_confirms(self) -> None:
        """At the end of a turn: confirm what is safe, and have the rest synced.

        Confirms go out in order, many as one. A confirmed persistent message is on disk in every durable
        queue that it reached, or was done with there before it was written; what comes behind one that is not
        waits with it.
        """
        self.confirm_pending = False
        unsafe = self.unsafe
        if unsafe:
            self.unsafe = False
            turn = self.connection.turn
            storage = self.connection.broker.storage
            assert storage is not None
            unsafe = not (turn.synced or storage.spares(self.kept_in, turn.count))
            if unsafe:
                self.syncs_under_way += 1
                storage.when_safe(partial(self.on_safe, self.published))
        if not unsafe and self.syncs_under_way == 0:
            self.safe = self.published
        self.put_ack()

    def on_safe(self, published: int) -> None:
        """Everything published up to this number has reached the disk."""
        self.syncs_under_way -= 1
        self.safe = published
        if self.syncs_under_way == 0 and not self.unsafe:
            self.safe = self.published
        if not self.closing:
            self.put_ack()
            self.connection.touch()

    def refused(self) -> None:
        """A full queue would not have the message published last; no confirm for it, but the contrary."""
        self.turned_away = True
        if self.confirming and (not self.nacks or self.nacks[-1] != self.published):
            self.nacks.append(self.published)

    def put_nacks(self) -> None:
        """Acks up to each refused publish, and a nack for it."""
        while self.nacks and self.nacks[0] <= self.safe and not self.closing:
            tag = self.nacks.popleft()
            if tag - 1 > self.confirmed:
                self.connection.out.put_ack(self.number, tag - 1, tag - 1 - self.confirmed > 1)
            self.send(methods.BasicNack(tag))
            self.confirmed = tag

    def put_ack(self) -> None:
        if self.nacks:
            self.put_nacks()
        if self.safe > self.confirmed and not self.closing:
            self.connection.out.put_ack(self.number, self.safe, self.safe - self.confirmed > 1)
            self.confirmed = self.safe

    # -- which are out

    @property
    def unacked_count(self) -> int:
        return len(self.unacked) + sum(map(len, self.older))

    def outstanding(self) -> Iterator[Entry]:
        """All that is unacknowledged, in the order of the tags; nothing may happen meanwhile."""
        for block in self.older:
            yield from block.values()
        yield from self.unacked.values()

    def begin_block(self) -> None:
        """Enough for one table: so none has to grow past all measure, or be searched from its beginning."""
        self.older.append(self.unacked)
        self.older_ends.append(self.delivery_tag)
        self.unacked = {}

    def take_unacked(self, delivery_tag: int, multiple: bool) -> list[Entry]:
        """The deliveries that a tag stands for, no longer unacknowledged; tag 0 with `multiple` is all.

        Not for a range of which `spans_blocks` is true.
        """
        unacked = self.unacked
        entry: Entry | None
        if multiple and self.older:
            unacked = self.older[0]
        if not multiple:
            entry = unacked.pop(delivery_tag, None)
            if entry is None:
                entry = self.take_older(delivery_tag)
            return [entry]
        if delivery_tag == 0:
            entries = list(unacked.values())
            unacked.clear()
            return entries
        entries = []
        if delivery_tag <= self.delivery_tag:
            for entry in unacked.values():
                if entry.delivery_tag > delivery_tag:
                    break
                entries.append(entry)
        if not entries:
            raise unknown_tag(delivery_tag)
        for entry in entries:
            del unacked[entry.delivery_tag]
        return entries

    def spans_blocks(self, delivery_tag: int) -> bool:
        """Is the range up to this tag more than a part of one block?"""
        return bool(self.older) and (delivery_tag == 0 or delivery_tag >= self.older_ends[0])

    def take_older(self, delivery_tag: int) -> Entry:
        """A single one that is not among the latest."""
        index = bisect_left(self.older_ends, delivery_tag)
        if index == len(self.older):
            raise unknown_tag(delivery_tag)
        block: dict[int, Entry] = self.older[index]
        entry = block.pop(delivery_tag, None)
        if entry is None:
            raise unknown_tag(delivery_tag)
        if not block:
            del self.older[index], self.older_ends[index]
        elif len(block) == SPARSE_COUNT:
            self.older[index] = dict(block)  # a table keeps its size until it is copied
        return entry

    def take_blocks(self, delivery_tag: int, multiple: bool) -> Blocks:
        """What `take_unacked` answers, in blocks: so many may be meant that a list of them takes long."""
        if not (multiple and self.spans_blocks(delivery_tag)):
            return [self.take_unacked(delivery_tag, multiple)]
        if delivery_tag == 0:
            return self.take_all()
        if delivery_tag > self.delivery_tag:
            raise unknown_tag(delivery_tag)
        whole = bisect_right(self.older_ends, delivery_tag)
        taken: Blocks = [block.values() for block in self.older[:whole]]
        del self.older[:whole], self.older_ends[:whole]
        block: dict[int, Entry] = self.older[0] if self.older else self.unacked
        tags = list(takewhile(lambda tag: tag <= delivery_tag, block))
        if tags:
            taken.append([block.pop(tag) for tag in tags])
            if self.older and not block:
                del self.older[0], self.older_ends[0]
        if not any(taken):  # blocks may be empty
            raise unknown_tag(delivery_tag)
        return taken

    def take_all(self) -> Blocks:
        """Everything, in blocks, no longer unacknowledged."""
        taken: Blocks = [block.values() for block in self.older]
        if self.unacked:
            taken.append(self.unacked.values())
        self.older, self.older_ends, self.unacked = [], [], {}
        return taken

    def hold_again(self, tables: list[dict[int, Entry]]) -> None:
        """They are unacknowledged as before: all that there were when they were taken, in order."""
        if tables and not self.older and not self.unacked:
            self.unacked = tables.pop()
        self.older[:0] = tables
        self.older_ends[:0] = [next(reversed(table)) for table in tables]

    # -- what becomes of them

    def release(self, entry: Entry) -> None:
        """A delivery is no longer out: its consumer has the credit back."""
        consumer = entry.consumer
        if consumer is not None:
            size = entry.message.size
            consumer.unacked -= 1
            consumer.unacked_bytes -= size
            self.shared_unacked -= 1
            self.shared_unacked_bytes -= size

    def settle(self, entries: list[Entry]) -> None:
        queue: Queue | None = None
        self.acked_count += len(entries)
        for entry in entries:
            self.release(entry)
            if entry.level.queue is not queue:
                if queue is not None:
                    queue.mark()
                queue = entry.level.queue
            queue.settle(entry)
        if self.shared_prefetch_count or self.shared_prefetch_size:
            self.credit_returned()
        if queue is not None:
            queue.mark()

    def credit_returned(self) -> None:
        """Any of this channel's consumers may have credit again, each time another one first.

        Queues are served in the order in which they are marked: with a credit that all share, the same one
        first would leave nothing to the others.
        """
        for tag in self.consumers:
            self.consumers[tag] = self.consumers.pop(tag)
            break
        for consumer in self.consumers.values():
            consumer.queue.mark()

    def requeue(self, entries: list[Entry]) -> None:
        """Give deliveries back to their queues, each to its place."""
        self.release_all(entries)
        for queue, returned in by_queue(entries).items():
            queue.requeue(returned, self.has_failed)
        self.credit_returned()

    def has_failed(self, entry: Entry) -> bool:
        """Does a delivery that the client gives back count as a failed try?

        Not where it has cancelled the consumer: libraries do so and then give back what they had fetched for
        an application that wants no more of it.
        """
        consumer = entry.consumer
        return consumer is None or self.consumers.get(consumer.tag) is consumer

    def discard(self, entries: list[Entry]) -> None:
        """Rejected for good: to the dead letters of their queues, where these have such."""
        self.release_all(entries)
        for queue, rejected in by_queue(entries).items():
            queue.discard(rejected)
            queue.mark()
        self.credit_returned()

    def release_all(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.release(entry)


def unknown_tag(delivery_tag: int) -> PreconditionFailed:
    return PreconditionFailed(f"unknown delivery tag {delivery_tag}")
