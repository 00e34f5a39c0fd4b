"""RabbitMQ's x- arguments of queue.declare and basic.consume: nonsense is refused with RabbitMQ's words."""

from typing import Any

import pytest

from tests.conformance.model import queue_exists
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, spec, unique

validity = rule(
    "004", "arguments", "queue.declare.arguments/validity", "Known x- arguments with impossible values: 406"
)
tolerance = rule(
    "004", "arguments", "queue.declare.arguments/unknown", "Unknown arguments are accepted and kept"
)


def expected(kind: str) -> str:
    return f'"expected integer, got {kind}"'


# 100,000 travels as a 32-bit integer, the one that most clients send.
INVALID: list[tuple[str, Any, str]] = [
    ("x-message-ttl", -1, "{value_negative,-1}"),
    ("x-message-ttl", "1000", expected("longstr")),
    ("x-message-ttl", True, expected("bool")),
    ("x-message-ttl", None, expected("void")),
    ("x-expires", 0, "{value_zero,0}"),
    ("x-expires", -1, "{value_negative,-1}"),
    ("x-expires", "soon", expected("longstr")),
    ("x-max-length", -1, "{value_negative,-1}"),
    ("x-max-length", "ten", expected("longstr")),
    ("x-max-length-bytes", -1, "{value_negative,-1}"),
    ("x-max-length-bytes", "ten", expected("longstr")),
    ("x-max-priority", -1, "{value_negative,-1}"),
    ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ("x-max-priority", "high", expected("longstr")),
    ("x-overflow", "bogus", "invalid_overflow"),
    ("x-dead-letter-routing-key", "key", "routing_key_but_no_dlx_defined"),
    ("x-dead-letter-routing-key", 100_000, "{unacceptable_type,signedint}"),
    ("x-queue-type", "bogus", "\"unsupported queue type 'bogus'\""),
    ("x-queue-type", 100_000, "{unacceptable_type,signedint}"),
    ("x-queue-mode", "bogus", "\"unsupported queue mode 'bogus'\""),
    ("x-queue-mode", 100_000, "{unacceptable_type,signedint}"),
    ("x-queue-version", 3, "\"unsupported queue version '3'\""),
    ("x-queue-version", "two", expected("longstr")),
    ("x-single-active-consumer", 100_000, "{unacceptable_type,signedint}"),
    ("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
]
VALID: list[tuple[str, Any]] = [
    ("x-message-ttl", 0),
    ("x-message-ttl", 2**33),
    ("x-expires", 3_600_000),
    ("x-max-length", 0),
    ("x-max-length-bytes", 2**40),
    ("x-max-priority", 255),
    ("x-overflow", "drop-head"),
    ("x-overflow", "reject-publish"),
    ("x-overflow", "reject-publish-dlx"),
    ("x-dead-letter-exchange", ""),
    ("x-dead-letter-exchange", "does.not.exist.yet"),
    ("x-queue-type", "classic"),
    ("x-queue-mode", "lazy"),
    ("x-queue-version", 2),
    ("x-single-active-consumer", True),
    ("x-something-else", {"nested": [1, 2]}),
    ("anything", "goes"),
]


@validity
@pytest.mark.parametrize(("argument", "value", "reason"), INVALID)
def test_invalid_argument(channel: RawChannel, argument: str, value: Any, reason: str) -> None:
    queue = unique("queue")
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/': {reason}"
    channel.call_fails(
        spec.Queue.Declare(queue=queue, exclusive=True, arguments={argument: value}), 406, text
    )
    channel.open()
    assert not queue_exists(channel, queue)


@validity
def test_dead_letter_exchange_of_a_wrong_type(channel: RawChannel) -> None:
    queue = unique("queue")
    where = f"arg 'x-dead-letter-exchange' in queue '{queue}' in vhost '/'"
    text = f"PRECONDITION_FAILED - invalid type 'signedint' for {where}"
    request = spec.Queue.Declare(queue=queue, exclusive=True, arguments={"x-dead-letter-exchange": 100_000})
    channel.call_fails(request, 406, text)


@validity
@tolerance
@pytest.mark.parametrize(("argument", "value"), VALID)
def test_valid_argument(channel: RawChannel, argument: str, value: Any) -> None:
    queue = unique("queue")
    request = spec.Queue.Declare(queue=queue, exclusive=True, arguments={argument: value})
    channel.call(request)
    channel.call(request)


@tolerance
def test_unknown_arguments_do_not_count_for_equivalence(channel: RawChannel) -> None:
    queue = channel.declare(unique("queue"), arguments={"x-note": "one"})
    channel.call(spec.Queue.Declare(queue=queue, exclusive=True, arguments={"x-note": "two"}))
    channel.call(spec.Queue.Declare(queue=queue, exclusive=True))


@tolerance
def test_same_number_in_another_width_is_the_same_argument(channel: RawChannel) -> None:
    """pamqp sends the shortest integer that fits; other clients always send 32 or 64 bits."""
    queue = channel.declare(unique("queue"), arguments={"x-max-length": 10})
    wide = b"\x0cx-max-lengthl" + (10).to_bytes(8, "big")
    arguments = b"\0\0" + bytes([len(queue)]) + queue.encode() + b"\x04" + len(wide).to_bytes(4, "big") + wide
    channel.send_method(50, 10, arguments)
    channel.expect(spec.Queue.DeclareOk)


@rule(
    "004", "consumer priorities", "basic.consume.arguments/x-priority", "x-priority must be an integer: 406"
)
@pytest.mark.parametrize(("value", "kind"), [("high", "longstr"), (True, "bool")])
def test_invalid_consumer_priority(channel: RawChannel, value: Any, kind: str) -> None:
    queue = channel.declare()
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' in vhost '/': {expected(kind)}"
    )
    channel.call_fails(spec.Basic.Consume(queue=queue, arguments={"x-priority": value}), 406, text)


@rule("004", "consumer priorities", "basic.consume.arguments/tolerated", "Consumer arguments are tolerated")
@pytest.mark.parametrize("arguments", [{"x-priority": 10}, {"x-priority": -10}, {"x-unknown": "value"}])
def test_consumer_arguments(channel: RawChannel, arguments: dict[str, Any]) -> None:
    queue = channel.declare()
    channel.consume(queue, arguments=arguments)
    channel.publish(b"x", routing_key=queue)
    assert channel.delivery().body == b"x"
