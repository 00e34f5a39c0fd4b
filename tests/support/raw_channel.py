"""One channel of a raw client, with the short forms that tests read well with."""

from typing import TYPE_CHECKING, Any, TypeVar

from pamqp import base, body, header
from pamqp import commands as spec

from tests.support.raw_frames import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    REPLY_SECONDS_MAX,
    Frame,
    Message,
    Unexpected,
    check_close,
    describe,
)

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

Reply = TypeVar("Reply")


class RawChannel:
    """A channel number on a RawClient; everything is sent and expected on that channel."""

    def __init__(self, client: "RawClient", number: int) -> None:
        self.client, self.number = client, number

    def open(self) -> spec.Channel.OpenOk:
        self.send(spec.Channel.Open())
        return self.expect(spec.Channel.OpenOk)

    def send(self, value: Any) -> None:
        self.client.send(value, self.number)

    def send_method(self, class_id: int, method_id: int, arguments: bytes = b"") -> None:
        self.client.send_method(self.number, class_id, method_id, arguments)

    def send_frame(self, kind: int, payload: bytes, end: int = FRAME_END, size: int | None = None) -> None:
        self.client.send_frame(kind, self.number, payload, end, size)

    def expect(self, method: type[Reply], seconds: float = REPLY_SECONDS_MAX, **fields: Any) -> Reply:
        return self.client.expect(method, self.number, seconds, **fields)

    def call(self, request: base.Frame, reply: type[Reply] | None = None, **fields: Any) -> Any:
        """Send a synchronous method and return its reply, which must be the very next frame."""
        self.send(request)
        if reply is None:
            # pamqp names the replies of a request as strings: "Queue.DeclareOk".
            class_name, method_name = request.valid_responses[0].split(".")
            reply = getattr(getattr(spec, class_name), method_name)
        return self.expect(reply, **fields)

    def expect_close(
        self, code: int, text: str | None = None, method: type[base.Frame] | None = None, answer: bool = True
    ) -> spec.Channel.Close:
        """channel.close with this reply code (and text, and blamed method); answered with close-ok."""
        close = self.expect(spec.Channel.Close)
        check_close(close, code, text, method)
        if answer:
            self.send(spec.Channel.CloseOk())
        return close

    def call_fails(self, request: base.Frame, code: int, text: str | None = None) -> spec.Channel.Close:
        """The request ends in a channel exception that blames it."""
        self.send(request)
        return self.expect_close(code, text, type(request))

    def sync(self) -> None:
        """A round trip: everything sent on this channel before has been handled, nothing else came back."""
        self.call(spec.Basic.Qos(prefetch_count=0), spec.Basic.QosOk)

    def close(self) -> None:
        self.call(spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)

    # -- the model -------------------------------------------------------------------------------------------

    def declare(self, queue: str = "", **arguments: Any) -> str:
        """Declare a queue (exclusive unless told otherwise, so that it goes away) and return its name."""
        arguments.setdefault("exclusive", True)
        return str(self.call(spec.Queue.Declare(queue=queue, **arguments)).queue)

    def depth(self, queue: str) -> int:
        return int(self.call(spec.Queue.Declare(queue=queue, passive=True)).message_count)

    def bind(self, queue: str, exchange: str, routing_key: str = "", **arguments: Any) -> None:
        self.call(spec.Queue.Bind(queue=queue, exchange=exchange, routing_key=routing_key, **arguments))

    # -- content ---------------------------------------------------------------------------------------------

    def publish(
        self,
        data: bytes = b"",
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = False,
        immediate: bool = False,
        properties: spec.Basic.Properties | None = None,
        chunk: int | None = None,
    ) -> None:
        """A complete content, the body cut into frames of `chunk` bytes (default: frame-max)."""
        self.publish_method(exchange, routing_key, mandatory, immediate)
        self.send_header(len(data), properties)
        step = chunk or (self.client.frame_max or 131072) - 8
        for start in range(0, len(data), step):
            self.send_body(data[start : start + step])

    def publish_method(
        self, exchange: str = "", routing_key: str = "", mandatory: bool = False, immediate: bool = False
    ) -> None:
        self.send(
            spec.Basic.Publish(
                exchange=exchange, routing_key=routing_key, mandatory=mandatory, immediate=immediate
            )
        )

    def send_header(self, size: int, properties: spec.Basic.Properties | None = None) -> None:
        self.send(header.ContentHeader(body_size=size, properties=properties))

    def send_body(self, data: bytes) -> None:
        self.send(body.ContentBody(data))

    def read_content(self, method: Any) -> Message:
        """Header and body frames that follow `method`; they must come unbroken on this channel."""
        frames: list[Frame] = []
        frame = self.client.next_frame()
        self._check_content(frame, FRAME_HEADER)
        frames.append(frame)
        size, properties, data = frame.value.body_size, frame.value.properties, b""
        while len(data) < size:
            frame = self.client.next_frame()
            self._check_content(frame, FRAME_BODY)
            frames.append(frame)
            data += frame.payload
        assert len(data) == size, f"{len(data)} bytes of body, {size} announced"
        return Message(method, properties, data, frames)

    def _check_content(self, frame: Frame, kind: int) -> None:
        if (frame.kind, frame.channel) != (kind, self.number):
            what = "header" if kind == FRAME_HEADER else "body"
            raise Unexpected(f"expected a content {what} on channel {self.number}, got {describe(frame)}")

    def get(self, queue: str, no_ack: bool = True) -> Message | None:
        """basic.get: the message, or None for get-empty."""
        self.send(spec.Basic.Get(queue=queue, no_ack=no_ack))
        frame = self.client.next_frame()
        assert frame.channel == self.number, describe(frame)
        if isinstance(frame.value, spec.Basic.GetEmpty):
            return None
        if not isinstance(frame.value, spec.Basic.GetOk):
            raise Unexpected(f"expected get-ok or get-empty, got {describe(frame)}")
        return self.read_content(frame.value)

    def consume(self, queue: str, consumer_tag: str = "", no_ack: bool = False, **arguments: Any) -> str:
        """Start a consumer, return its tag."""
        request = spec.Basic.Consume(queue=queue, consumer_tag=consumer_tag, no_ack=no_ack, **arguments)
        return str(self.call(request).consumer_tag)

    def cancel(self, consumer_tag: str) -> None:
        self.call(spec.Basic.Cancel(consumer_tag=consumer_tag))

    def delivery(self, seconds: float = REPLY_SECONDS_MAX, **fields: Any) -> Message:
        """The next frame must start a delivery."""
        return self.read_content(self.expect(spec.Basic.Deliver, seconds, **fields))

    def deliveries(self, count: int) -> list[Message]:
        return [self.delivery() for _ in range(count)]

    def returned(self, **fields: Any) -> Message:
        return self.read_content(self.expect(spec.Basic.Return, **fields))

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        self.send(spec.Basic.Ack(delivery_tag=delivery_tag, multiple=multiple))

    def qos(self, count: int, global_: bool = False, size: int = 0) -> None:
        self.call(spec.Basic.Qos(prefetch_size=size, prefetch_count=count, global_=global_))

    def confirm_select(self) -> None:
        self.call(spec.Confirm.Select())
