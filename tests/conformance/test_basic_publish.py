"""basic.publish: checks on what is published, and the returns of mandatory and immediate messages."""

from collections.abc import Callable

import pytest

from tests.conformance.model import drain, exchange, fill, no_exchange, round_trip
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

Properties = spec.Basic.Properties

missing = rule(
    "001",
    "1.8.3.7.2",
    "basic.publish.exchange/missing",
    "Publishing to a missing exchange is a channel exception",
)
mandatory = rule(
    "001",
    "1.8.3.7.4",
    "basic.publish.mandatory",
    "An unroutable mandatory message is returned, others are dropped",
    "SHOULD",
)
immediate = rule(
    "001",
    "1.8.3.7.5",
    "basic.publish.immediate",
    "An immediate message that no consumer can take at once is returned",
    "SHOULD",
)
returning = rule(
    "001", "1.8.3.8", "basic.return", "A return carries reason, exchange, key and the whole content"
)
user_id = rule(
    "004", "validated user-id", "basic.publish/user-id", "A user-id that is not the user's is refused: 406"
)
no_immediate = rabbitmq_differs("answers immediate=true with 540 NOT_IMPLEMENTED since 3.0")


@rule("001", "1.8.3.7.2", "basic.publish.exchange/blank", "A blank exchange name means the default exchange")
def test_blank_exchange_is_the_default(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish(b"x", exchange="", routing_key=queue)
    assert drain(channel, queue) == [b"x"]


@missing
@pytest.mark.parametrize("as_mandatory", [False, True])
def test_missing_exchange(channel: RawChannel, as_mandatory: bool) -> None:
    name = unique()
    channel.publish(b"x", exchange=name, mandatory=as_mandatory)
    channel.expect_close(404, no_exchange(name), spec.Basic.Publish)


@missing
@rule("002", "4.8.1", "channel-exception/others-live", "A channel exception leaves the other channels alone")
def test_missing_exchange_closes_only_its_channel(client: RawClient, channel: RawChannel) -> None:
    second = client.channel(2)
    queue = second.declare()
    channel.publish(b"x" * 300_000, exchange=unique())
    channel.expect_close(404)
    second.publish(b"y", routing_key=queue)
    assert drain(second, queue) == [b"y"]
    channel.open()
    channel.publish(b"z", routing_key=queue)
    assert drain(channel, queue) == [b"z"]


@mandatory
@returning
def test_unroutable_mandatory_message_is_returned(channel: RawChannel) -> None:
    name = exchange(channel)
    properties = Properties(content_type="text/plain", headers={"a": [1, None]}, priority=3, message_id="m")
    body = b"abc" * 100_000
    channel.publish(body, name, "no.such.key", mandatory=True, properties=properties)
    message = channel.returned(
        reply_code=312, reply_text="NO_ROUTE", exchange=name, routing_key="no.such.key"
    )
    assert message.body == body
    assert dict(message.properties) == dict(properties)
    channel.call(spec.Exchange.Delete(exchange=name))


@mandatory
def test_unroutable_message_is_dropped(channel: RawChannel) -> None:
    channel.publish(b"x", routing_key=unique())
    round_trip(channel)


@mandatory
def test_routable_mandatory_message_is_not_returned(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish(b"x", routing_key=queue, mandatory=True)
    assert drain(channel, queue) == [b"x"]


@mandatory
def test_returns_come_in_order(channel: RawChannel) -> None:
    for number in range(50):
        channel.publish(b"%d" % number, routing_key="no.such.queue", mandatory=True)
    assert [channel.returned(reply_code=312).body for _ in range(50)] == [
        b"%d" % number for number in range(50)
    ]


@immediate
@no_immediate
def test_immediate_without_consumers_is_returned(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish(b"now or never", routing_key=queue, immediate=True)
    message = channel.returned(reply_code=313, reply_text="NO_CONSUMERS", exchange="", routing_key=queue)
    assert message.body == b"now or never"
    assert drain(channel, queue) == [], "a returned message is not queued"


@immediate
@no_immediate
def test_immediate_with_a_consumer_is_delivered(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.consume(queue, no_ack=True)
    channel.publish(b"now", routing_key=queue, immediate=True)
    assert channel.delivery().body == b"now"
    round_trip(channel)


@immediate
@no_immediate
def test_immediate_with_a_busy_consumer_is_returned(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.qos(1)
    channel.consume(queue)
    fill(channel, queue, [b"keeps it busy"])
    first = channel.delivery()
    channel.publish(b"now", routing_key=queue, immediate=True)
    assert channel.returned(reply_code=313).body == b"now"
    channel.ack(first.delivery_tag)
    channel.publish(b"now again", routing_key=queue, immediate=True)
    assert channel.delivery().body == b"now again"


@immediate
@no_immediate
def test_immediate_behind_waiting_messages_is_returned(channel: RawChannel) -> None:
    """A queue that still holds messages cannot deliver a new one at once without breaking the order."""
    queue = channel.declare()
    channel.qos(1)
    fill(channel, queue, [b"first", b"second"])
    channel.consume(queue)
    first = channel.delivery()
    channel.publish(b"now", routing_key=queue, immediate=True)
    assert channel.returned(reply_code=313).body == b"now"
    channel.ack(first.delivery_tag)
    assert channel.delivery().body == b"second"


@immediate
@no_immediate
def test_immediate_goes_to_the_queues_that_can_take_it(channel: RawChannel) -> None:
    name, taking, waiting = exchange(channel, "fanout"), channel.declare(), channel.declare()
    for queue in (taking, waiting):
        channel.bind(queue, name)
    channel.consume(taking, no_ack=True)
    channel.publish(b"now", exchange=name, immediate=True)
    assert channel.delivery().body == b"now"
    assert drain(channel, waiting) == []


@immediate
@no_immediate
def test_immediate_and_unroutable(channel: RawChannel) -> None:
    channel.publish(b"x", routing_key=unique(), immediate=True, mandatory=True)
    assert channel.returned(reply_code=312).body == b"x"
    channel.publish(b"y", routing_key=unique(), immediate=True)
    assert channel.returned().body == b"y"


@immediate
@no_immediate
@rule("004", "confirms", "confirm/immediate", "A returned immediate message is confirmed after its return")
def test_immediate_in_confirm_mode(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.confirm_select()
    channel.publish(b"now", routing_key=queue, immediate=True)
    channel.returned(reply_code=313)
    channel.expect(spec.Basic.Ack, delivery_tag=1)


@immediate
@no_immediate
def test_immediate_beside_a_no_local_consumer(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    """A consumer that does not want our messages is none for them."""
    queue = channel.declare(exclusive=False, auto_delete=True)
    channel.consume(queue, no_ack=True, no_local=True)
    channel.publish(b"own", routing_key=queue, immediate=True)
    assert channel.returned(reply_code=313).body == b"own"
    connect().channel().publish(b"foreign", routing_key=queue, immediate=True)
    assert channel.delivery().body == b"foreign"


@user_id
def test_foreign_user_id(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish(b"x", routing_key=queue, properties=Properties(user_id="guest"))
    assert drain(channel, queue) == [b"x"]
    channel.publish(b"x", routing_key=queue, properties=Properties(user_id="somebody"))
    text = "PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was 'guest'"
    channel.expect_close(406, text, spec.Basic.Publish)


@rule("001", "1.8.2.8", "basic.expiration", "An expiration that is no number of milliseconds is refused: 406")
@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("soon", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("10ms", '{leftover_string,"ms"}'),
        (" 10", "no_integer"),
    ],
)
def test_invalid_expiration(channel: RawChannel, expiration: str, reason: str) -> None:
    channel.publish(b"x", routing_key=channel.declare(), properties=Properties(expiration=expiration))
    text = f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}"
    channel.expect_close(406, text, spec.Basic.Publish)


@rule(
    "001", "1.8.2.4", "basic.delivery-mode", "Delivery mode is 1 (transient) or 2 (persistent); others: 406"
)
@pytest.mark.parametrize("mode", [0, 3, 255])
def test_invalid_delivery_mode(channel: RawChannel, mode: int) -> None:
    queue = channel.declare()
    channel.publish_method(routing_key=queue)
    # Class 60, weight 0, body size 0, only the flag of delivery-mode.
    channel.send_frame(2, b"\0\x3c\0\0" + bytes(8) + b"\x10\0" + bytes([mode]))
    text = f"PRECONDITION_FAILED - invalid message: {{delivery_mode_unknown,{mode}}}"
    channel.expect_close(406, text, spec.Basic.Publish)


@rule("001", "1.1", "publish/reserved-1", "The reserved ticket of publish is not looked at")
def test_reserved_ticket_is_ignored(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.send_method(60, 40, b"\x12\x34\0" + bytes([len(queue)]) + queue.encode() + b"\0")
    channel.send_header(0)
    assert drain(channel, queue) == [b""]


@mandatory
@rule("002", "4.7", "ordering/channels", "A return goes to the channel of its publisher and to no other")
def test_returns_stay_on_their_channel(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    other = connect().channel()
    second = channel.client.channel(2)
    second.publish(b"lost", routing_key="no.such.queue", mandatory=True)
    second.returned(reply_code=312)
    round_trip(channel)
    round_trip(other)
