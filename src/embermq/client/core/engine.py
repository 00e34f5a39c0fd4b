"""A connection to a broker, sans-IO, that outlives the sockets it speaks through.

    IDLE -> HANDSHAKE -> RESTORING -> OPEN -> CLOSING -> CLOSED
      ^__________________________________|

The shell opens a transport and calls `start`, gives what arrives to `feed` and sends what `take` answers.
When the transport breaks it calls `lost`, and may `start` again: channels, consumers, topology and
unconfirmed publishes then come back. One thread has it: the event loop's, or one of its own, to which others
post `commands`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from embermq.client.core.channel import ChannelCore
from embermq.client.core.commands import Commands
from embermq.client.core.inbox import Inbox
from embermq.client.core.login import Login, Silent
from embermq.client.core.message import Message
from embermq.client.core.on_channel import CHANNEL_HANDLERS, on_answer
from embermq.client.core.on_connection import CONNECTION_HANDLERS
from embermq.client.core.recovery import Restoration
from embermq.client.core.request import Request
from embermq.client.core.send_buffer import SendBuffer
from embermq.client.core.topology import Topology
from embermq.client.errors import ClientError, ConnectionClosed, ConnectionFailed, ConnectionLost
from embermq.errors import AMQPError, FrameError
from embermq.wire.frame import HEARTBEAT_FRAME, PROTOCOL_HEADER, method_frame
from embermq.wire.kernel import load_u16, load_u32, load_u64
from embermq.wire.methods import BasicAck, BasicDeliver, ConnectionClose, decode_method

if TYPE_CHECKING:
    from embermq.client.address import Settings

log = logging.getLogger("embermq.client")

IDLE, HANDSHAKE, RESTORING, OPEN, CLOSING, CLOSED = range(6)

BASIC_DELIVER = BasicDeliver.ID
BASIC_ACK = BasicAck.ID
BASIC_ACK_BYTES = 13
INBOX_MESSAGES_MAX = 200_000  # only consumers without acks or prefetch come near it
CONNECTION_FORCED = 320  # an operator's wish, no answer to anything
FRAME_TYPES = (1, 2, 3, 8)
CHANNEL_MAX_WITHOUT_LIMIT = 65535


class Shell(Protocol):
    """What the engine asks of the shell, which has the socket. None of it may wait."""

    def wake(self) -> None:
        """There is output."""

    def opened(self) -> None:
        """The connection is open, everything is as it was."""

    def ended(self, error: ClientError) -> None:
        """The conversation is over: shut the transport. The error says why, and whether to come back."""

    def happened(self, event: str, subject: object, detail: object) -> None:
        """blocked, unblocked, returned, cancelled, flow: for the user's callbacks."""


class Refusing:
    """A lock that cannot be had."""

    def __init__(self, error: ClientError) -> None:
        self.error = error

    def __enter__(self) -> None:
        raise self.error

    def __exit__(self, *error: object) -> None:
        """It was never entered."""


class Engine:
    __slots__ = (
        "blocked_reason",
        "buffer",
        "channel_max",
        "channels",
        "commands",
        "congested",
        "error",
        "heard",
        "heartbeat_s",
        "last_channel",
        "login",
        "restoration",
        "server_properties",
        "settings",
        "shell",
        "spoke",
        "state",
        "topology",
        "touched",
        "update_secret",
        "wanted_bytes",
    )

    def __init__(self, settings: Settings, shell: Shell, commands: Commands | None = None) -> None:
        self.settings = settings
        self.shell = shell
        self.commands = commands  # with these one thread has the connection, and all others post to it
        self.buffer = SendBuffer(shell.wake)
        self.touched: list[Inbox] = []  # consumers that got something in this `feed`
        self.state = IDLE
        self.error: ClientError | None = None  # why the connection is closed for good
        self.topology = Topology()
        self.restoration: Restoration | None = None
        self.channels: dict[int, ChannelCore] = {}
        self.last_channel: ChannelCore | None = None
        self.congested: Inbox | None = None  # one without credit that is full: see `may_read`
        self.server_properties: dict[str, object] = {}
        self.login: Login = Silent("", "")  # before the broker has said what it offers
        self.blocked_reason: str | None = None
        self.update_secret: list[Request] = []
        self.channel_max = CHANNEL_MAX_WITHOUT_LIMIT
        self.heartbeat_s = 0
        self.heard = True  # anything since the last look at the clock
        self.spoke = True
        self.wanted_bytes = 0  # how long the frame is whose end has not come yet

    # -- the shell calls these

    def start(self) -> None:
        """A transport is there: say hello."""
        assert self.state == IDLE
        self.state = HANDSHAKE
        self.heard = self.spoke = True
        self.heartbeat_s = 0
        self.buffer.clear()
        self.buffer.write(PROTOCOL_HEADER)

    def feed(self, buf: bytearray, end: int) -> int:
        """Work through the whole frames in buf[:end]; how many bytes are done with."""
        self.heard = True
        try:
            used = self.feed_frames(buf, 0, end)
        except AMQPError as error:
            # The broker breaks the protocol (or we misread it): tell it, and begin anew.
            self.buffer.write(method_frame(0, ConnectionClose(error.reply_code, error.reply_text[:255])))
            kind = ConnectionFailed if self.state == HANDSHAKE else ConnectionLost
            self.shell.ended(kind(f"what the other side sends is not AMQP 0-9-1 as we know it: {error}"))
            used = end
        for inbox in self.touched:
            inbox.touched = False
            if not inbox.has_credit and (
                inbox.buffered_bytes > inbox.bytes_max or len(inbox.messages) > INBOX_MESSAGES_MAX
            ):
                self.congested = inbox
            inbox.wake()
        self.touched.clear()
        return used

    def feed_frames(self, buf: bytearray, pos: int, end: int) -> int:
        self.wanted_bytes = 0
        while end - pos >= 7:
            frame_type = buf[pos]
            number = load_u16(buf, pos + 1)
            size = load_u32(buf, pos + 3)
            stop = pos + 7 + size
            if stop >= end:
                if frame_type not in FRAME_TYPES:  # before waiting for the rest of what is no frame
                    raise FrameError(f"it says {bytes(buf[pos : pos + 32])!r}")
                self.wanted_bytes = size + 8
                break
            if buf[stop] != 0xCE:
                raise FrameError(f"frame of type {frame_type} without its end mark")
            channel = self.last_channel
            if channel is None or channel.number != number:
                channel = self.channels.get(number)
                self.last_channel = channel
            if channel is None:
                if frame_type == 1 and number == 0:
                    self.on_connection_frame(buf, pos + 7, stop)
            elif frame_type == 1:
                method_id = load_u32(buf, pos + 7)
                if method_id == BASIC_DELIVER:
                    after = channel.on_deliveries(buf, pos, end)
                    if after > pos:
                        pos = after
                        continue
                    channel.on_deliver(buf, pos + 11, stop)
                elif method_id == BASIC_ACK and size == BASIC_ACK_BYTES:
                    channel.unconfirmed.confirm(load_u64(buf, pos + 11), buf[pos + 19] & 1 != 0, True)
                else:
                    self.on_channel_frame(channel, buf, pos + 7, stop)
            elif frame_type == 2:
                channel.on_header(buf, pos + 7, stop)
            elif frame_type == 3:
                channel.on_body(buf, pos + 7, stop)
            pos = stop + 1
        return pos

    def take(self) -> bytes:
        """What is to be sent now."""
        self.sending()
        return self.buffer.out.take()

    def lend(self) -> memoryview:
        """The same, for a caller that sends it at once and keeps no reference: the memory is used again."""
        self.sending()
        return self.buffer.out.lend()

    def sending(self) -> None:
        self.buffer.awake = False
        if self.buffer.out.size:
            self.spoke = True

    def lost(self, error: ClientError, *, final: bool) -> None:
        """The transport is gone. With `final` there will be no other."""
        self.buffer.clear()
        self.restoration = None
        self.last_channel = None
        self.congested = None
        self.blocked_reason = None
        if final:
            self.state = CLOSED
            self.error = error
            for request in self.update_secret:
                request.failed(error)
            for channel in list(self.channels.values()):
                channel.end(error)
            self.channels.clear()
        elif self.state != IDLE:
            self.state = IDLE
            refused = isinstance(error, ConnectionClosed) and error.reply_code != CONNECTION_FORCED
            for channel in list(self.channels.values()):
                channel.suspend(error if refused else None)

    def leave_to_parent(self, error: ClientError) -> None:
        """After a fork, in the child: the connection stays the parent's, and every use of it here raises."""
        self.state, self.error = CLOSED, error
        self.buffer.lock = Refusing(error)
        for channel in self.channels.values():
            channel.error = error

    def put_heartbeat(self) -> None:
        self.buffer.write(HEARTBEAT_FRAME)

    def taken(self, inbox: Inbox) -> list[Message]:
        """All that waits in an inbox; reading goes on if it was the one that stopped it."""
        messages = inbox.take()
        self.relieve(inbox)
        return messages

    def relieve(self, inbox: Inbox) -> None:
        """Its user has taken what was there."""
        if self.congested is inbox:
            self.congested = None
            self.buffer.wake()

    def may_read(self) -> bool:
        """Whether to read on. While an answer or a confirm is awaited always: it may come behind the rest."""
        if self.congested is None or self.state != OPEN or self.update_secret:
            return True
        return any(channel.requests or channel.unconfirmed.count for channel in self.channels.values())

    # -- the parts of the core call these

    def on_connection_frame(self, buf: bytearray, pos: int, stop: int) -> None:
        method = decode_method(buf, pos, stop)
        handler = CONNECTION_HANDLERS.get(method.ID)
        if handler is not None:
            handler(self, method)

    def on_channel_frame(self, channel: ChannelCore, buf: bytearray, pos: int, stop: int) -> None:
        method = decode_method(buf, pos, stop)
        handler = CHANNEL_HANDLERS.get(method.ID)
        if handler is not None:
            handler(self, channel, method)
        else:
            on_answer(channel, method)

    def handshake_done(self) -> None:
        """The broker let us in: bring back what was there, then open."""
        self.state = RESTORING
        self.restoration = Restoration(self)
        self.restoration.go_on()

    def restored(self) -> None:
        self.restoration = None
        self.state = OPEN
        for channel in list(self.channels.values()):
            channel.open()
        self.shell.opened()

    def happened(self, event: str, subject: object, detail: object) -> None:
        self.shell.happened(event, subject, detail)

    # -- channels

    def open_channel(self, request: Request, *, confirming: bool) -> ChannelCore:
        """A new channel under the lowest free number. `request` carries channel.open."""
        if self.error is not None:
            raise self.error
        number = self.free_number()
        channel = ChannelCore(self, number, confirming=confirming)
        self.channels[number] = channel
        channel.waiting.append(request)
        if self.state == OPEN:
            channel.open()
        return channel

    def free_number(self) -> int:
        for number in range(1, self.channel_max + 1):
            if number not in self.channels:
                return number
        raise ConnectionClosed(
            f"all {self.channel_max} channels of the connection are in use: close some, share them, or open "
            "another connection"
        )

    def drop_channel(self, channel: ChannelCore, error: ClientError) -> None:
        if self.channels.get(channel.number) is channel:
            del self.channels[channel.number]
        self.last_channel = None
        channel.end(error)
