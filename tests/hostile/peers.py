"""Raw clients that send what no client should, and one round trip of a client that behaves."""

from __future__ import annotations

import socket
import time
import uuid
from contextlib import suppress

import pika

from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER, content_frames, content_header, frame, method_frame
from embermq.wire.properties import Properties
from tests.support.raw_client import RawClient
from tests.support.raw_frames import REPLY_SECONDS_MAX, Closed
from tools.brokers import EmberBroker

FRAME_MAX = 131072
NO_PROPERTIES = Properties().encode()

HANDSHAKE = PROTOCOL_HEADER + b"".join(
    method_frame(0, method)
    for method in (
        methods.ConnectionStartOk(
            client_properties={"capabilities": {"authentication_failure_close": True}},
            mechanism="PLAIN",
            response=b"\0guest\0guest",
            locale="en_US",
        ),
        methods.ConnectionTuneOk(channel_max=2047, frame_max=FRAME_MAX, heartbeat=0),
        methods.ConnectionOpen(virtual_host="/"),
    )
)


def publish(
    queue: str, body: bytes, channel: int = 1, mandatory: bool = False, frame_max: int = FRAME_MAX
) -> bytes:
    method = methods.BasicPublish(exchange="", routing_key=queue, mandatory=mandatory)
    header = content_header(len(body), NO_PROPERTIES)
    return method_frame(channel, method) + content_frames(channel, header, body, frame_max)


def unique() -> str:
    return f"hostile.{uuid.uuid4().hex}"


class Peer(RawClient):
    """A raw client whose frames are our own encoder's, or bytes: here it is not the codec that is tested."""

    def __init__(self, broker: EmberBroker, receive_buffer_bytes: int = 0) -> None:
        super().__init__(broker.port, broker.host, receive_buffer_bytes)

    def send(self, *methods_: methods.Method, channel: int = 1) -> None:  # type: ignore[override]
        self.send_bytes(b"".join(method_frame(channel, method) for method in methods_))

    def send_if_heard(self, data: bytes) -> None:
        """Send to a broker that may have hung up."""
        with suppress(OSError):
            self.socket.sendall(data)

    def send_without_waiting(self, data: bytes, seconds: float) -> int:
        """Send until the broker reads no more, at most for so long; how many bytes went."""
        view, sent = memoryview(data), 0
        deadline = time.monotonic() + seconds
        self.socket.setblocking(False)
        try:
            while sent < len(view) and time.monotonic() < deadline:
                try:
                    sent += self.socket.send(view[sent : sent + (1 << 18)])
                except BlockingIOError:
                    time.sleep(0.005)
                except OSError:
                    break
        finally:
            self.socket.settimeout(REPLY_SECONDS_MAX)
        return sent

    def read_frame(self) -> tuple[int, int, bytes] | None:  # type: ignore[override]
        """Type, channel and payload; None at the end."""
        try:
            frame = super().read_frame()
        except Closed:
            return None
        return frame.kind, frame.channel, frame.payload

    def expect(self, kind: type[methods.Method]) -> methods.Method:
        """The next method of this kind; other frames before it are read over."""
        while True:
            got = self.read_frame()
            assert got is not None, f"the broker hung up instead of {kind.__name__}"
            if got[0] == 1 and int.from_bytes(got[2][:4], "big") == kind.ID:
                return methods.decode_method(got[2], 0, len(got[2]))

    def open(self) -> None:
        self.send_bytes(HANDSHAKE)
        self.send(methods.ChannelOpen())
        self.expect(methods.ChannelOpenOk)

    def declare(self, queue: str, **more: bool) -> None:
        self.send(methods.QueueDeclare(queue=queue, **more))
        self.expect(methods.QueueDeclareOk)

    def wait_for_end(self) -> None:
        """Say no more, and read until the broker hangs up."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        while self.read_frame() is not None:
            pass


def raw_method(channel: int, class_id: int, method_id: int, arguments: bytes) -> bytes:
    return frame(1, channel, class_id.to_bytes(2, "big") + method_id.to_bytes(2, "big") + arguments)


def healthy_round_trip(broker: EmberBroker) -> None:
    """A well-behaved client gets its work done."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for number in range(20):
            channel.basic_publish("", queue, b"%d" % number, mandatory=True)
        got = [body for _, _, body in (channel.basic_get(queue, auto_ack=True) for _ in range(20))]
        assert got == [b"%d" % number for number in range(20)]
    finally:
        connection.close()
