"""A channel: content coming in, deliveries going out, what is unacknowledged in between.

Only what happens per message is here; the handlers of rare methods are in the `on_*` modules.

A published message arrives in three steps, and `expects` says which comes next:

    METHOD --basic.publish--> HEADER --content header--> BODY --as many body frames as announced--> METHOD

Small messages skip the middle: a header followed in the same buffer by its whole body becomes a message at
once, with a single copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.amqp.closing import unexpected, unknown_frame
from embermq.amqp.confirming import SOMEWHERE, Confirming
from embermq.amqp.ending import end_channel
from embermq.amqp.publish_rules import BASIC_PUBLISH, check_rare_properties, exchange_to_write, require_topic
from embermq.amqp.settling import settle
from embermq.amqp.special import Wishes, granted, publish_later, wishes_in
from embermq.amqp.straight import Straight
from embermq.broker.access import User
from embermq.broker.exchange import Route
from embermq.broker.message import Message, expiration_ms, make_message
from embermq.broker.queue import KEEPS_ALL, Queue
from embermq.broker.selection import has_ready_consumer
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
    from embermq.amqp.connection import Connection
    from embermq.amqp.consumer import ChannelConsumer
    from embermq.amqp.deliveries import Blocks
    from embermq.amqp.redelivery import Redelivery
    from embermq.amqp.transaction import Transaction

METHOD, HEADER, BODY = 0, 1, 2
MANDATORY, IMMEDIATE = 1, 2
CLASS_BASIC = 60
ROUTES_MAX = 256  # routes remembered per channel
CONTENT_HEADER_BYTES_MIN = 14
FRAME_HEAD_BYTES = 7  # type, channel, size
# The same under names of this module, where they are C numbers.
MODE_TRANSIENT, MODE_PERSISTENT, NOT_THERE, KEPT_ALWAYS = TRANSIENT, PERSISTENT, ABSENT, KEEPS_ALL


class Channel(Confirming):
    __slots__ = (
        "aliases",
        "body_max",
        "body_received",
        "body_size",
        "expects",
        "flow_active",
        "flow_wanted",
        "gathered",
        "header",
        "last_queue",
        "pauses",
        "peek",
        "publish_bits",
        "received_count",
        "redelivery",
        "reply_queue",
        "returned_count",
        "route",
        "routes",
        "straight",
        "transaction",
        "user",
        "vhost",
        "wishes",
    )

    def __init__(
        self, connection: Connection, number: int, vhost: VirtualHost, user: User, body_max: int
    ) -> None:
        super().__init__(connection, number)
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
        self.straight: Straight | None = None
        self.wishes: Wishes | None = None  # of the message that is coming in
        self.reply_queue: Queue | None = None  # for direct replies
        self.received_count = 0  # messages published here
        self.returned_count = 0

        self.transaction: Transaction | None = None

    # -- content in

    def on_publish(self, buf: bytearray, pos: int, stop: int) -> int:
        """basic.publish: find the route and wait for the content. `pos` is at the (unused) ticket."""
        if self.expects != METHOD:
            raise unexpected(self.expects)
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
        if self.link.turn.alarmed:
            self.link.publishing = True
        return 0

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
        if self.link.publishing:
            self.link.stalled = True  # the message waits unread, as its publisher does
            return pos - FRAME_HEAD_BYTES
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
            and size <= self.link.frame_max
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

    def check_properties(self, buf: bytearray) -> int:
        """Properties that RabbitMQ refuses a message for."""
        peek = self.peek
        if peek.user_id_at != NOT_THERE or peek.expiration_at != NOT_THERE:
            check_rare_properties(buf, peek, self.user, self.reply_queue)
        if peek.headers_at != NOT_THERE or peek.reply_to_at != NOT_THERE:
            self.wishes = wishes_in(buf, peek, self.reply_queue, self.link.turn.now_ms)
            if self.wishes is not None and self.route is not None:
                require_topic(self, "write", self.route.exchange, *self.wishes.keys)
        if peek.delivery_mode != MODE_TRANSIENT and peek.delivery_mode != MODE_PERSISTENT:
            raise PreconditionFailed(
                f"invalid message: {{delivery_mode_unknown,{peek.delivery_mode}}}", blame=BASIC_PUBLISH
            )
        return 0

    def on_body(self, buf: bytearray, pos: int, stop: int) -> int:
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
        return 0

    def on_content(self, content: bytes, header_size: int) -> int:
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
            self.link.number,
        )
        if self.peek.expiration_at != NOT_THERE:
            message.ttl_ms = expiration_ms(content, header_size)
        self.received_count += 1
        if self.wishes is not None:
            wishes, self.wishes = self.wishes, None
            message, route = granted(message, route, wishes)
            if wishes.due_ms:
                return publish_later(self, message, route, wishes)
        queues = route.queues
        if route.version == route.exchange.version and not route.varies:
            route.count += 1
        else:
            queues = route.anew(message, self)
        if self.transaction is not None:
            # Routed now, as bindings are now; taken by the queues at commit.
            self.transaction.publishes.append((message, queues, self.publish_bits))
            return 0
        return self.publish(message, queues, self.publish_bits)

    def take_straight(
        self, route: Route, buf: bytearray, pos: int, stop: int, body_stop: int, end: int
    ) -> int:
        """A message for a stream, and those like it that follow; where the next frame starts, 0 if none."""
        if (
            self.peek.headers_at != NOT_THERE
            or self.wishes is not None
            or self.transaction is not None
            or self.publish_bits & IMMEDIATE
        ):
            return 0
        straight = self.straight
        if straight is None:
            straight = self.straight = Straight()
        following_at = straight.take(
            route,
            self.number,
            self.publish_bits,
            self.peek.priority,
            min(self.link.frame_max - 8, self.body_max),
            buf,
            pos,
            stop,
            body_stop,
            end,
        )
        if following_at:
            self.expects = METHOD
            self.received_count += straight.count
            self.keep(SOMEWHERE)
            if self.confirming:
                self.count_published(straight.count)
        return following_at

    def publish(self, message: Message, queues: tuple[Queue, ...], bits: int) -> int:
        """Hand a message to its queues; one that has none goes back where that was asked for."""
        if self.confirming:
            self.count_published(1)
        if len(queues) != 1:
            if len(queues) == 0:
                if bits & (MANDATORY | IMMEDIATE):
                    self.return_message(message, NoRoute("") if bits & MANDATORY else NoConsumers(""))
                return 0
            self.link.count_copies(len(queues))
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
                self.link.pressed_queue = queue
        return 0

    def return_message(self, message: Message, why: NoRoute | NoConsumers) -> None:
        self.returned_count += 1
        self.send(methods.BasicReturn(why.reply_code, why.label, message.exchange, message.routing_key))
        self.link.out.put_content(self.number, message.content, message.header_size, self.link.frame_max)

    # -- acknowledgements in

    def on_ack(self, delivery_tag: int, multiple: bool) -> int:
        if self.expects != METHOD:
            raise unexpected(self.expects)
        if self.transaction is None and not (multiple and self.spans_blocks(delivery_tag)):
            return self.settle(self.take_unacked(delivery_tag, multiple))
        settle(self, self.take_blocks(delivery_tag, multiple))
        return 0

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
        """Take part in nothing any more; what was out and who consumed here, for others to look after."""
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
