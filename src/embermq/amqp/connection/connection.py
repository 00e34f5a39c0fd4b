"""A connection: frames in, channels in between, frames out; and the one place where errors become closes.

    HEADER -> START -> TUNE -> OPENING -> OPEN -> CLOSING -> CLOSED
              (SECURE)

`feed` takes the bytes that arrived and answers how many it used. It never waits: what it wants to say it
puts into `out`, which the shell (net) sends at the end of the turn, in one piece. Where something in it is
not true before it is on disk (`hold_output`), all of it waits for that.
"""

from __future__ import annotations

import logging
import math
from time import perf_counter
from typing import Any

from embermq.amqp.channel.channel import Channel
from embermq.amqp.channel.teardown import end_connection
from embermq.amqp.connection.amqp_0_8 import newer, older_frame
from embermq.amqp.connection.control_frames import on_control_frame
from embermq.amqp.connection.handshake_refusal import refuse_handshake
from embermq.amqp.connection.link import Link
from embermq.amqp.connection.state import CHECKING, CLOSED, CLOSING, HEADER, OPEN, START, NotYet
from embermq.amqp.connection.transport import Limits, Shell
from embermq.amqp.events import emit_access_refused
from embermq.amqp.handlers.connection import start_method
from embermq.amqp.handlers.table import CHANNEL_HANDLERS
from embermq.amqp.reply_text import (
    bad_frame_end,
    channel_close_method,
    close_method,
    frame_too_large,
    unexpected,
    unknown_frame,
)
from embermq.broker.broker import Broker
from embermq.broker.events import INTERNAL_USER
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
from embermq.wire.frame import HEARTBEAT_FRAME, PROTOCOL_HEADER, method_frame
from embermq.wire.kernel import load_u16, load_u32, load_u64

log = logging.getLogger("embermq.connection")

BASIC_PUBLISH = methods.BasicPublish.ID
BASIC_ACK = methods.BasicAck.ID
BASIC_ACK_BYTES = 13
# The same as numbers of this module, which are C numbers.
STATE_HEADER, STATE_CHECKING, STATE_OPEN, STATE_CLOSED = HEADER, CHECKING, OPEN, CLOSED
# The header of 0-9-1, and those of 0-9 and 0-8, whose clients use what is common with it; the version we
# answer each with in connection.start.
ACCEPTED_HEADERS = {
    PROTOCOL_HEADER: (0, 9),
    b"AMQP\x01\x01\x00\x09": (0, 9),
    b"AMQP\x01\x01\x08\x00": (8, 0),
    b"AMQP\x01\x01\x09\x01": (8, 0),
}
FRAME_BYTES_MAX_BEFORE_TUNE = 8192
FRAME_ERROR_PAUSE_S = 1.0  # for the last words to be read, before the socket is shut
REPLIES_BYTES_MAX = 4 * 1024 * 1024  # a few bytes of basic.get or basic.recover may ask for whole messages
LAST_WORDS_S = 10.0  # how long a close may take to reach the peer before the socket is shut


class Connection(Link):
    __slots__ = (
        "announced",
        "broker",
        "capabilities",
        "certificate_name",
        "channel_max",
        "channels",
        "client_properties",
        "connected_at",
        "current_channel",
        "current_method",
        "exclusive_queues",
        "expires_at",
        "frame_size_max",
        "heartbeat_s",
        "last_channel",
        "limits",
        "mechanism",
        "name",
        "next_frame",
        "parting_s",
        "peer_address",
        "received_bytes",
        "sasl",
        "sent_bytes",
        "shell",
        "speaks_0_8",
        "spec_qos",
        "state",
        "tls",
        "user",
        "vhost",
    )

    def __init__(
        self,
        broker: Broker,
        turn: Turn,
        shell: Shell,
        limits: Limits,
        number: int,
        peer_address: str,
        name: str,
        certificate_name: str = "",
    ) -> None:
        super().__init__(turn, number, limits.frame_max)
        self.shell = shell
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
        self.speaks_0_8 = False
        self.exclusive_queues: set[Queue] = set()
        self.last_channel: Channel | None = None
        # Of the frame at hand, for those who refuse it.
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
            if self.stalled:
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
                    self.stalled = True  # what follows is for one who has logged in
                    return pos
            elif frame_type == 1:
                if size < 4:
                    raise unknown_frame(frame_type, buf, pos + 7, stop)
                method_id = load_u32(buf, pos + 7)
                self.current_method = method_id
                if method_id == BASIC_PUBLISH:
                    channel.on_publish(buf, pos + 11, stop)
                elif method_id == BASIC_ACK and size == BASIC_ACK_BYTES:
                    channel.on_ack(load_u64(buf, pos + 11), buf[pos + 19] & 1 != 0)
                    if self.stalled:
                        return stop + 1
                else:
                    if not self.on_channel_method(channel, buf, pos + 7, stop):
                        return pos
                    if self.stalled:
                        return stop + 1
                pos = stop + 1
            elif frame_type == 2:
                pos = channel.on_header(buf, pos + 7, stop, end)
                if self.stalled:
                    return pos
            elif frame_type == 3:
                channel.on_body(buf, pos + 7, stop)
                pos = stop + 1
            else:
                on_control_frame(self, frame_type, number, buf, pos + 7, stop)
                pos = stop + 1
        return pos

    def take_protocol_header(self, buf: bytearray, end: int) -> int:
        """The first eight bytes; anything but AMQP we speak is told what we do speak, and shut."""
        start = bytes(buf[: min(end, 8)])
        if end < 8 and any(header.startswith(start) for header in ACCEPTED_HEADERS):
            return 0
        if start in ACCEPTED_HEADERS:
            self.state = START
            self.speaks_0_8 = ACCEPTED_HEADERS[start] == (8, 0)
            self.send(0, start_method(self, *ACCEPTED_HEADERS[start]))
            return 8
        log.info("%s: not an AMQP 0-9-1 header: %r", self.name, start, extra=self.log_extra())
        self.out.write(PROTOCOL_HEADER)
        self.touch()
        self.end()
        return end

    def on_channel_method(self, channel: Channel, buf: bytearray, pos: int, stop: int) -> bool:
        """False: it is too early for that, and it must be read again in another turn."""
        if channel.expects != 0:
            raise unexpected(channel.expects)
        if self.speaks_0_8:
            buf = newer(buf, pos, stop)
            pos, stop = 0, len(buf)
        method = methods.decode_method(buf, pos, stop)
        handler = CHANNEL_HANDLERS.get(method.ID)
        if handler is None:
            raise CommandInvalid("unimplemented method")
        self.broker.events.actor = channel.user.name
        self.broker.catalog.changed = False  # what changed by itself is not this one's to wait for
        began_s = perf_counter()
        try:
            handler(channel, method)
        except NotYet:
            self.broker.events.actor = INTERNAL_USER
            self.stalled = True
            return False
        self.count_time(perf_counter() - began_s)
        self.broker.events.actor = INTERNAL_USER
        if self.broker.catalog.changed:
            # An -ok for something durable leaves when that is on disk.
            self.hold_output()
            self.broker.catalog.when_safe(self.release_output)
        if self.out.size + self.out.pieces_size > REPLIES_BYTES_MAX:
            self.stalled = True
        return True

    def send(self, number: int, method: methods.Method) -> None:
        self.out.write(older_frame(number, method) if self.speaks_0_8 else method_frame(number, method))
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
        self.shut(in_order=isinstance(error, ConnectionForced))  # by a stop or an operator: nobody's fault
        self.state = CLOSING
        self.send(0, close_method(error, blame))
        if isinstance(error, FrameError):
            # What follows cannot be told apart any more, so no close-ok will be understood.
            self.state = CLOSED
            self.shell.close(FRAME_ERROR_PAUSE_S)
        else:
            self.shell.close(LAST_WORDS_S)

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
                self.shell.send(self.out.take())
            else:
                self.shell.send_pieces(self.out.take_pieces())
        if self.starved:
            self.starved = False
            self.wake_consumers()
        return 0

    # -- promises that are not true yet

    def release_output(self) -> None:
        super().release_output()
        if self.parting_s is not None and not self.holds:
            self.shell.close(self.parting_s)
            self.parting_s = None

    def part(self, after_s: float) -> None:
        """These were the last words: shut the socket behind them."""
        if self.holds:
            self.parting_s = after_s
        else:
            self.shell.close(after_s)

    # -- a peer that does not keep up

    @property
    def has_consumers(self) -> bool:
        return any(channel.consumers for channel in self.channels.values())

    def wake_consumers(self) -> None:
        for channel in self.channels.values():
            channel.credit_returned()
            if channel.redelivery is not None:
                channel.redelivery.go_on()

    def pause(self) -> None:
        """The peer does not read what we send; deliver no more for now."""
        self.writable = False

    def resume(self) -> None:
        self.writable = True
        self.wake_consumers()

    # -- said without having been asked

    def put_blocked(self, reason: str) -> None:
        """Publishers are held; tell a client that understands it."""
        if self.capabilities.get("connection.blocked") and self.state == OPEN:
            self.send(0, methods.ConnectionBlocked(reason))

    def put_unblocked(self) -> None:
        if self.capabilities.get("connection.blocked") and self.state == OPEN:
            self.send(0, methods.ConnectionUnblocked())

    def put_heartbeat(self) -> None:
        """Past everything that waits: held output must not make us look dead."""
        self.sent_bytes += len(HEARTBEAT_FRAME)
        self.shell.send(HEARTBEAT_FRAME)

    def notify_cancel(self, channel: Channel, tag: str) -> None:
        """Tell a client that understands it that its consumer is no more."""
        if self.capabilities.get("consumer_cancel_notify") and not channel.closing:
            channel.send(methods.BasicCancel(tag, no_wait=True))
