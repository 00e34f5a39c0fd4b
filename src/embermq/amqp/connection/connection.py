"""A connection: frames in, channels in between, frames out; and the one place where errors become closes.

    HEADER -> START -> TUNE -> OPENING -> OPEN -> CLOSING -> CLOSED
              (SECURE)

`feed` takes the bytes that arrived and answers how many it used. It never waits: replies and deliveries go to
`out`, which the transport (net) sends at the end of the turn, in one piece. Where something in it is not true
before it is on disk (`hold_output`), all of it waits for that. Where nothing more may be read for now, `feed`
stops between two frames (`pause`).
"""

from __future__ import annotations

import logging
import math
from time import perf_counter
from typing import Any

from embermq.amqp.channel.channel import Channel
from embermq.amqp.channel.teardown import end_connection
from embermq.amqp.connection.control_frames import on_control_frame
from embermq.amqp.connection.dialect import DIALECTS
from embermq.amqp.connection.handshake_refusal import refuse_handshake
from embermq.amqp.connection.state import CHECKING, CLOSED, CLOSING, HEADER, OPEN, START, NotYet, Pause
from embermq.amqp.connection.transport import Limits, Transport
from embermq.amqp.events import emit_access_refused
from embermq.amqp.handlers.connection import start_method
from embermq.amqp.reply_text import (
    bad_frame_end,
    channel_close_method,
    close_method,
    frame_too_large,
    unknown_frame,
)
from embermq.broker.broker import Broker
from embermq.broker.events import INTERNAL_USER
from embermq.broker.interfaces import Sink
from embermq.broker.queue.queue import Queue
from embermq.broker.security.user import User
from embermq.broker.turn import Turn
from embermq.broker.vhost import VirtualHost
from embermq.errors import (
    AccessRefused,
    AMQPError,
    CommandInvalid,
    ConnectionForced,
    FrameError,
    InternalFault,
)
from embermq.wire import methods
from embermq.wire.frame import HEARTBEAT_FRAME, PROTOCOL_HEADER
from embermq.wire.kernel import Output, load_u16, load_u32, load_u64

log = logging.getLogger("embermq.connection")

BASIC_PUBLISH = methods.BasicPublish.ID
BASIC_ACK = methods.BasicAck.ID
BASIC_ACK_BYTES = 13
# The same as numbers of this module, which are C numbers.
STATE_HEADER, STATE_CHECKING, STATE_OPEN, STATE_CLOSED = HEADER, CHECKING, OPEN, CLOSED
FRAME_BYTES_MAX_BEFORE_TUNE = 8192
FRAME_ERROR_PAUSE_S = 1.0  # for the last words to be read, before the socket is shut
OUTPUT_TURN_BYTES_MAX = 1024 * 1024  # deliveries put together in one turn
SMALL_OUTPUT_BYTES_MAX = 2048
REPLIES_BYTES_MAX = 4 * 1024 * 1024  # a few bytes of basic.get or basic.recover may ask for whole messages
LAST_WORDS_S = 10.0  # how long a close may take to reach the peer before the socket is shut
COPIES_PER_TURN_MAX = 20_000  # of messages for several queues, by all connections
COPIES_PER_S = 1_000_000  # a rare method counts for as many copies as could be made in its time


class Connection(Sink):
    __slots__ = (
        "announced",
        "broker",
        "capabilities",
        "certificate_name",
        "channel_max",
        "channels",
        "client_properties",
        "confirming_channels",
        "connected_at",
        "current_channel",
        "current_method",
        "dialect",
        "exclusive_queues",
        "expires_at",
        "frame_max",
        "frame_size_max",
        "heartbeat_s",
        "holds",
        "last_channel",
        "limits",
        "mechanism",
        "name",
        "next_frame",
        "number",
        "out",
        "parting_s",
        "pauses",
        "peer_address",
        "pressed_queue",
        "received_bytes",
        "sasl",
        "sent_bytes",
        "spec_qos",
        "starved",
        "state",
        "tls",
        "transport",
        "turn",
        "user",
        "vhost",
        "writable",
    )

    def __init__(
        self,
        broker: Broker,
        turn: Turn,
        transport: Transport,
        limits: Limits,
        number: int,
        peer_address: str,
        name: str,
        certificate_name: str = "",
    ) -> None:
        super().__init__()
        self.turn = turn
        self.number = number
        self.frame_max = limits.frame_max
        self.transport = transport
        self.pauses = 0  # `Pause` reasons for which nothing is read
        self.pressed_queue: Queue | None = None  # one that this connection published past its mark
        self.out = Output()
        self.writable = True  # the transport takes more; cleared while the peer does not keep up
        self.starved = False  # a consumer was refused because this turn's share of output is used up
        self.holds = 0  # promises in `out` that are not true yet: nothing is sent until they are
        self.confirming_channels: list[Channel] = []  # with something to confirm at the end of the turn
        self.state = HEADER
        self.capabilities: dict[str, object] = {}
        self.channels: dict[int, Channel] = {}
        self.parting_s: float | None = None  # the socket is to be shut once held output has left
        self.sent_bytes = 0
        self.broker = broker
        self.limits = limits
        self.peer_address = peer_address
        self.name = name
        self.user: User | None = None
        self.vhost: VirtualHost | None = None
        self.client_properties: dict[str, object] = {}
        self.certificate_name = certificate_name  # of the client, where TLS has checked one
        self.tls = False
        self.mechanism: object = None
        self.sasl: Any = None  # the login under way
        self.expires_at = math.inf  # seconds since 1970
        self.channel_max = limits.channel_max
        self.frame_size_max = FRAME_BYTES_MAX_BEFORE_TUNE
        self.heartbeat_s = 0
        self.spec_qos = False  # qos means what the specification says
        self.dialect = DIALECTS[PROTOCOL_HEADER]  # until the protocol header says which
        self.exclusive_queues: set[Queue] = set()
        self.last_channel: Channel | None = None
        # Of the frame at hand, for errors.
        self.next_frame = 0
        self.current_method = 0
        self.current_channel = 0
        self.received_bytes = 0
        self.connected_at = 0.0
        self.announced = False  # as an event; its end will be one, too

    def log_extra(self, channel: int = 0) -> dict[str, object]:
        """What a log record knows of the connection besides its text: `log.info("...", extra=...)`."""
        extra: dict[str, object] = {"connection": self.name}
        if channel:
            extra["channel"] = channel
        if self.user is not None:
            extra["user"] = self.user.name
        if self.vhost is not None:
            extra["vhost"] = self.vhost.name
        return extra

    # -- bytes in

    def feed(self, buf: bytearray, end: int) -> int:
        """Work through the whole frames in buf[:end]; how many bytes are done with."""
        pos = 0
        self.turn.refresh()
        if self.state == STATE_HEADER:
            pos = self.take_protocol_header(buf, end)
            if self.state == STATE_HEADER:
                return pos
        while self.state != STATE_CLOSED:
            try:
                pos = self.feed_frames(buf, pos, end)
                break
            except AMQPError as error:
                self.refuse(error)
            except Exception as error:
                log.exception("%s: a fault of ours, closing", self.name, extra=self.log_extra())
                self.refuse(InternalFault(f"{type(error).__name__}"))
            self.broker.events.actor = INTERNAL_USER
            pos = self.next_frame
            if self.pauses:
                break
        if self.state == STATE_CLOSED:
            pos = end
        self.received_bytes += pos
        return pos

    def feed_frames(self, buf: bytearray, pos: int, end: int) -> int:
        while end - pos >= 7:
            frame_type = buf[pos]
            number = load_u16(buf, pos + 1)
            size = load_u32(buf, pos + 3)
            self.current_method = 0
            self.current_channel = number
            if size > self.frame_size_max:
                self.next_frame = end
                raise frame_too_large(frame_type, size, self.frame_size_max)
            stop = pos + 7 + size
            if stop >= end:
                break
            if buf[stop] != 0xCE:
                self.next_frame = end
                raise bad_frame_end(frame_type, buf, pos + 7, stop)
            self.next_frame = stop + 1
            channel = self.last_channel
            if channel is None or channel.number != number:
                channel = self.channels.get(number)
                self.last_channel = channel
            if channel is None or channel.closing or self.state != STATE_OPEN:
                on_control_frame(self, frame_type, number, buf, pos + 7, stop)
                if self.state == STATE_CLOSED:
                    return end
                pos = self.next_frame
                if self.state == STATE_CHECKING:
                    self.pause(Pause.LOGIN)  # what follows is read after the login
                    return pos
            elif frame_type == 1:
                if size < 4:
                    raise unknown_frame(frame_type, buf, pos + 7, stop)
                method_id = load_u32(buf, pos + 7)
                self.current_method = method_id
                if method_id == BASIC_PUBLISH:
                    channel.on_publish(buf, pos + 11, stop)
                    if self.pauses:
                        return stop + 1
                elif method_id == BASIC_ACK and size == BASIC_ACK_BYTES:
                    channel.on_ack(load_u64(buf, pos + 11), buf[pos + 19] & 1 != 0)
                    if self.pauses:
                        return stop + 1
                else:
                    if not self.on_channel_method(channel, buf, pos + 7, stop):
                        return pos
                    if self.pauses:
                        return stop + 1
                pos = stop + 1
            elif frame_type == 2:
                pos = channel.on_header(buf, pos + 7, stop, end)
                if self.pauses:
                    return pos
            elif frame_type == 3:
                channel.on_body(buf, pos + 7, stop)
                pos = stop + 1
            else:
                if not on_control_frame(self, frame_type, number, buf, pos + 7, stop):
                    return pos
                pos = stop + 1
                if self.pauses:
                    return pos
        return pos

    def take_protocol_header(self, buf: bytearray, end: int) -> int:
        """The first eight bytes; anything but AMQP we speak is told what we do speak, and shut."""
        start = bytes(buf[: min(end, 8)])
        if end < 8 and any(header.startswith(start) for header in DIALECTS):
            return 0
        if start in DIALECTS:
            self.state = START
            self.dialect = DIALECTS[start]
            self.send(0, start_method(self))
            return 8
        log.info("%s: not an AMQP 0-9-1 header: %r", self.name, start, extra=self.log_extra())
        self.out.write(PROTOCOL_HEADER)
        self.touch()
        self.end()
        return end

    def on_channel_method(self, channel: Channel, buf: bytearray, pos: int, stop: int) -> bool:
        """False: it is too early for that, and it must be read again in another turn."""
        if channel.expects != 0:
            channel.interrupt_content()
        return self.on_method(channel, self.dialect.decode(buf, pos, stop))

    def on_method(self, channel: Channel, method: methods.Method) -> bool:
        """What `on_channel_method` answers, for a method that is decoded."""
        handler = self.dialect.channel_handlers.get(method.ID)
        if handler is None:
            raise CommandInvalid("unimplemented method")
        self.broker.events.actor = channel.user.name
        self.broker.definitions.changed = False  # other changes are not for this connection to wait for
        began_s = perf_counter()
        try:
            handler(channel, method)
        except NotYet:
            self.broker.events.actor = INTERNAL_USER
            self.rest()
            return False
        self.count_copies(int((perf_counter() - began_s) * COPIES_PER_S))
        self.broker.events.actor = INTERNAL_USER
        if self.broker.definitions.changed:
            # An -ok for something durable leaves when that is on disk.
            self.hold_output()
            self.broker.definitions.when_safe(self.release_output)
        if self.out.size + self.out.pieces_size > REPLIES_BYTES_MAX:
            self.pause(Pause.OUTPUT)
        return True

    def send(self, number: int, method: methods.Method) -> None:
        self.out.write(self.dialect.frame(number, method))
        self.touch()

    # -- errors and ends

    def refuse(self, error: AMQPError) -> None:
        """Turn an error into the close that it asks for."""
        blame = self.current_method if error.blame is None else error.blame
        channel = self.channels.get(self.current_channel)
        if self.state < OPEN:
            refuse_handshake(self, error, blame)
        elif error.scope == "channel" and channel is not None and not channel.closing:
            self.close_channel(channel, error, blame)
        elif self.state == OPEN:
            log.warning("%s: %s", self.name, error, extra=self.log_extra())
            self.close(error, blame)
        else:
            self.end()

    def close_channel(self, channel: Channel, error: AMQPError, blame: int = 0) -> None:
        log.info("%s, channel %d: %s", self.name, channel.number, error, extra=self.log_extra(channel.number))
        if isinstance(error, AccessRefused):
            emit_access_refused(self, channel.number, error)
        channel.shut()
        channel.send(channel_close_method(error, blame))

    def close(self, error: AMQPError, blame: int = 0) -> None:
        """Begin a hand-shaken close from our side."""
        self.shut(in_order=isinstance(error, ConnectionForced))  # not the client's fault
        self.state = CLOSING
        self.send(0, close_method(error, blame))
        if isinstance(error, FrameError):
            # What follows cannot be told apart any more, so no close-ok will be understood.
            self.state = CLOSED
            self.transport.close(FRAME_ERROR_PAUSE_S)
        else:
            self.transport.close(LAST_WORDS_S)

    def shut(self, in_order: bool = False) -> None:
        """Everything that lived by this connection ends: channels, consumers, exclusive queues."""
        self.last_channel = None
        end_connection(self, in_order)

    def end(self, after_s: float = 0.0, in_order: bool = False) -> None:
        """Nothing more will be said: send what is left and shut the socket."""
        if self.state != CLOSED:
            self.shut(in_order)
            self.state = CLOSED
            self.part(after_s)

    def lost(self) -> None:
        """The socket is gone."""
        if self.dialect.on_lost is not None and self.state == OPEN:
            self.dialect.on_lost(self)
        self.shut()
        self.state = CLOSED

    def forget_channel(self, channel: Channel) -> None:
        if self.channels.pop(channel.number, None) is not None:
            channel.user.channel_count -= 1
        if self.last_channel is channel:
            self.last_channel = None

    # -- output

    def end_turn(self) -> int:
        """Confirm what was published, then hand over all output in one piece."""
        if self.confirming_channels:
            channels, self.confirming_channels = self.confirming_channels, []
            for channel in channels:
                channel.put_confirms()
        if self.holds:
            return 0  # released, it comes here again
        if self.out.size:
            self.sent_bytes += self.out.size + self.out.pieces_size
            if self.out.pieces is None:
                self.transport.send(self.out.take())
            else:
                self.transport.send_pieces(self.out.take_pieces())
        if self.starved:
            self.starved = False
            self.wake_consumers()
        if self.pauses and self.writable:
            self.resume(Pause.OUTPUT)
        return 0

    def touch(self) -> None:
        """There is output: send it at the end of the turn."""
        if not self.dirty:
            self.dirty = True
            self.turn.add_sink(self)

    def has_room(self) -> bool:
        """May another delivery be put together in this turn?"""
        if not self.writable:
            return False
        if self.out.size + self.out.pieces_size >= OUTPUT_TURN_BYTES_MAX:
            self.starved = True
            return False
        return True

    def has_little(self) -> bool:
        return self.out.size + self.out.pieces_size <= SMALL_OUTPUT_BYTES_MAX

    # -- promises that are not true yet

    def hold_output(self) -> None:
        """Something in the output must not leave before it is on disk, or done."""
        self.holds += 1

    def release_output(self) -> None:
        self.holds -= 1
        self.touch()
        if self.holds:
            return
        self.resume(Pause.WORK)
        if self.parting_s is not None:
            self.transport.close(self.parting_s)
            self.parting_s = None

    def part(self, after_s: float) -> None:
        """These were the last words: shut the socket behind them."""
        if self.holds:
            self.parting_s = after_s
        else:
            self.transport.close(after_s)

    # -- a peer that does not keep up

    @property
    def has_consumers(self) -> bool:
        return any(channel.consumers for channel in self.channels.values())

    def wake_consumers(self) -> None:
        for channel in self.channels.values():
            channel.credit_returned()
            if channel.redelivery is not None:
                channel.redelivery.go_on()

    def pause_writing(self) -> None:
        """The peer does not read what we send; deliver no more for now."""
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.wake_consumers()
        if not self.holds:
            self.resume(Pause.OUTPUT)

    # -- may it be read from

    def pause(self, reason: int) -> None:
        """Read nothing more, and feed nothing behind the frame at hand, while there is any reason left."""
        if not self.pauses:
            self.transport.pause_reading()
        self.pauses |= reason

    def resume(self, reason: int) -> None:
        if self.pauses & reason:
            self.pauses &= ~reason
            if not self.pauses:
                self.transport.resume_reading()

    def rest(self) -> None:
        """Enough for this turn: others have theirs."""
        if not self.pauses & Pause.TURN:
            self.pause(Pause.TURN)
            self.transport.later(0.0, self.end_rest)

    def end_rest(self) -> None:
        self.resume(Pause.TURN)

    def count_copies(self, count: int) -> None:
        """A few bytes for thousands of queues are work for a whole turn: the rest of what was read waits."""
        self.turn.copies += count
        if self.turn.copies > COPIES_PER_TURN_MAX:
            self.turn.wake()
            self.rest()

    def block(self) -> None:
        """It publishes while an alarm is raised: read no more, and tell a client that understands it why."""
        reason = self.broker.alarms.reason
        if reason and not self.pauses & Pause.ALARM:
            self.pause(Pause.ALARM)
            if self.capabilities.get("connection.blocked") and self.state == OPEN:
                self.send(0, methods.ConnectionBlocked(reason))

    def unblock(self) -> None:
        if self.pauses & Pause.ALARM:
            self.resume(Pause.ALARM)
            if self.capabilities.get("connection.blocked") and self.state == OPEN:
                self.send(0, methods.ConnectionUnblocked())

    # -- said without having been asked

    def put_heartbeat(self) -> None:
        """Past everything that waits: held output must not make us look dead."""
        self.sent_bytes += len(HEARTBEAT_FRAME)
        self.transport.send(HEARTBEAT_FRAME)

    def notify_cancel(self, channel: Channel, tag: str) -> None:
        """Tell a client that understands it that its consumer is no more."""
        if self.capabilities.get("consumer_cancel_notify") and not channel.closing:
            channel.send(methods.BasicCancel(tag, no_wait=True))
