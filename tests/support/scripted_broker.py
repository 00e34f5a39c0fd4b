"""A broker made of bytes: what it says is written in the test, what it hears is decoded."""

from __future__ import annotations

from embermq.client.address import Settings
from embermq.client.core.channel import ChannelCore
from embermq.client.core.commands import Commands
from embermq.client.core.engine import Engine
from embermq.client.core.inbox import Inbox
from embermq.client.core.request import Request
from embermq.client.errors import ClientError
from embermq.wire.frame import PROTOCOL_HEADER, content_frames, content_header, method_frame
from embermq.wire.methods import (
    BasicConsume,
    BasicDeliver,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelectOk,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    Method,
    decode_method,
)

FRAME_MAX = 4096


class Future:
    """Waits for nothing: the test looks at it."""

    def __init__(self) -> None:
        self.result: object = None
        self.error: BaseException | None = None
        self.over = False

    def done(self) -> bool:
        return self.over

    def set_result(self, result: object, /) -> None:
        assert not self.over
        self.result, self.over = result, True

    def set_exception(self, exception: BaseException, /) -> None:
        assert not self.over
        self.error, self.over = exception, True


class QuietInbox(Inbox):
    def wake(self) -> None:
        pass


class Script:
    """The engine's shell, and the broker at the other end."""

    def __init__(self, commands: Commands | None = None, **settings: object) -> None:
        self.engine = Engine(Settings(**settings), self, commands)  # type: ignore[arg-type]
        self.woken = 0
        self.opened_count = 0
        self.end: ClientError | None = None
        self.events: list[tuple[str, object]] = []

    # -- the shell

    def wake(self) -> None:
        self.woken += 1

    def opened(self) -> None:
        self.opened_count += 1

    def ended(self, error: ClientError) -> None:
        self.end = error

    def happened(self, event: str, subject: object, detail: object) -> None:
        self.events.append((event, detail))

    # -- the broker

    def say(self, data: bytes) -> None:
        assert self.engine.feed(bytearray(data), len(data)) == len(data)

    def answer(self, channel: int, *methods: Method) -> None:
        self.say(b"".join(method_frame(channel, method) for method in methods))

    def heard(self) -> list[tuple[int, Method | bytes]]:
        """Methods (decoded) and the payloads of other frames since the last time, with their channels."""
        data = self.engine.take().removeprefix(PROTOCOL_HEADER)
        found: list[tuple[int, Method | bytes]] = []
        while data:
            size = int.from_bytes(data[3:7], "big")
            payload, channel = data[7 : 7 + size], int.from_bytes(data[1:3], "big")
            assert data[7 + size] == 0xCE
            found.append((channel, decode_method(payload, 0, size) if data[0] == 1 else payload))
            data = data[8 + size :]
        return found

    def heard_methods(self, channel: int) -> list[Method]:
        return [method for number, method in self.heard() if number == channel and isinstance(method, Method)]

    def connect(self) -> None:
        self.engine.start()
        self.answer(0, ConnectionStart(server_properties={"product": "script"}))
        self.answer(0, ConnectionTune(100, FRAME_MAX, 60), ConnectionOpenOk())

    def channel(self, *, confirming: bool = False) -> ChannelCore:
        future = Future()
        channel = self.engine.open_channel(Request(ChannelOpen(), future), confirming=confirming)
        self.answer(channel.number, ChannelOpenOk(), *([ConfirmSelectOk()] if confirming else []))
        assert future.over
        self.heard()
        return channel


def delivery(
    channel: int, consumer_tag: str, tag: int, body: bytes, *, key: str = "key", properties: bytes = b"\0\0"
) -> bytes:
    method = BasicDeliver(consumer_tag, tag, False, "exchange", key)
    header = content_header(len(body), properties)
    return method_frame(channel, method) + content_frames(channel, header, body, FRAME_MAX)


def inbox(channel: ChannelCore, tag: str = "tag", *, no_ack: bool = False) -> QuietInbox:
    made = QuietInbox(BasicConsume("queue", tag, no_ack=no_ack))
    channel.consumers[tag] = made
    return made
