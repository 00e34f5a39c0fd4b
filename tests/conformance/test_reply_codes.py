"""Every error constant that the server uses closes what the table of constants says (001, 1.2; 002, 4.8)."""

from collections.abc import Callable

import pytest
from pamqp import commands as spec

from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, unique

Connect = Callable[..., RawClient]

SOFT = rule(
    "001", "1.2", "channel-errors", "Soft errors (403 to 406) close the channel and leave the connection open"
)
HARD = rule("001", "1.2", "connection-errors", "Hard errors (5xx) close the connection")
CODES = rule("002", "4.8.2", "reply-codes", "Reply codes are three digits with the meaning of the constants")


def reserved_name(channel: RawChannel) -> None:
    channel.send(spec.Queue.Declare(queue="amq.mine"))


def missing_queue(channel: RawChannel) -> None:
    channel.send(spec.Queue.Declare(queue="missing", passive=True))


def other_properties(channel: RawChannel) -> None:
    queue = channel.declare(unique())
    channel.send(spec.Queue.Declare(queue=queue, exclusive=True, auto_delete=True))


def unknown_tag(channel: RawChannel) -> None:
    channel.ack(77)


@pytest.mark.parametrize(
    ("provoke", "code", "text", "blamed"),
    [
        (
            reserved_name,
            403,
            "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
            spec.Queue.Declare,
        ),
        (missing_queue, 404, "NOT_FOUND - no queue 'missing' in vhost '/'", spec.Queue.Declare),
        (unknown_tag, 406, "PRECONDITION_FAILED - unknown delivery tag 77", spec.Basic.Ack),
        (other_properties, 406, None, spec.Queue.Declare),
    ],
)
@CODES
@SOFT
@rule("001", "1.2", "access-refused", "403: no access due to security settings (a channel exception)")
def test_soft_errors(
    client: RawClient, provoke: Callable[[RawChannel], None], code: int, text: str | None, blamed: type
) -> None:
    channel, other = client.channel(1), client.channel(2)
    provoke(channel)
    channel.expect_close(code, text, blamed)
    other.sync()
    channel.open()


@CODES
@SOFT
@rule("001", "1.2", "resource-locked", "405: another client works with the entity (a channel exception)")
def test_resource_locked(connect: Connect) -> None:
    owner, intruder = connect().channel(1), connect().channel(1)
    queue = owner.declare(unique(), exclusive=True)
    close = intruder.call_fails(spec.Queue.Declare(queue=queue, passive=True), 405)
    assert close.reply_text.startswith(
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}'"
    )
    intruder.open()
    intruder.sync()


def wrong_frame_end(client: RawClient) -> None:
    client.send_frame(1, 1, b"\x00\x14\x00\x0a\x00", end=0)


def server_method(client: RawClient) -> None:
    client.send(spec.Queue.DeclareOk("q", 0, 0), 1)


def second_open(client: RawClient) -> None:
    client.send(spec.Channel.Open(), 1)


def body_first(client: RawClient) -> None:
    client.send_frame(3, 1, b"x")


@pytest.mark.parametrize(
    ("provoke", "code", "label"),
    [
        (wrong_frame_end, 501, "FRAME_ERROR"),
        (server_method, 503, "COMMAND_INVALID"),
        (second_open, 504, "CHANNEL_ERROR"),
        (body_first, 505, "UNEXPECTED_FRAME"),
    ],
)
@CODES
@HARD
@rule("002", "2.3.6", "errors/structural", "Structural errors close the connection, with reply code and text")
def test_hard_errors(client: RawClient, provoke: Callable[[RawClient], None], code: int, label: str) -> None:
    client.channel(1)
    client.channel(2)
    provoke(client)
    close = client.expect_close(code)
    assert close.reply_text.startswith(f"{label} - ")
    client.expect_eof()


@CODES
@HARD
@rule("001", "1.2", "not-allowed", "530: work with an entity in a manner that the server prohibits")
def test_not_allowed(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.consume(queue, "same")
    channel.send(spec.Basic.Consume(queue=queue, consumer_tag="same"))
    text = "NOT_ALLOWED - attempt to reuse consumer tag 'same'"
    channel.client.expect_close(530, text, spec.Basic.Consume)
    channel.client.expect_eof()


@CODES
def test_reply_texts_fit_a_short_string(channel: RawChannel) -> None:
    name = "n" * 255
    channel.send_method(50, 10, b"\x00\x00\xff" + name.encode() + b"\x01" + b"\x00\x00\x00\x00")
    close = channel.expect_close(404)
    assert close.reply_text.startswith("NOT_FOUND - no queue 'nnn")
    assert len(close.reply_text.encode()) <= 255


@rule(
    "001",
    "1.1",
    "queue-name/current-missing",
    "A blank queue name without a declared queue: 404 (RabbitMQ) or 502",
)
def test_blank_name_without_a_declared_queue(channel: RawChannel) -> None:
    channel.send(spec.Queue.Purge(queue=""))
    frame = channel.client.next_frame()
    assert isinstance(frame.value, spec.Channel.Close | spec.Connection.Close)
    assert frame.value.reply_code in (404, 502, 530)
