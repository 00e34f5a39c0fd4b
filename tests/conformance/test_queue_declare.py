"""queue.declare: names, default binding, counts, passive, equivalence, no-wait."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.model import (
    LOCKED,
    await_confirms,
    drain,
    eventually,
    fill,
    no_queue,
    queue_exists,
    raw_queue_declare,
    round_trip,
)
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique

counts = rule(
    "001", "1.1", "message-count", "Counted are messages in the queue that do not wait for acknowledgement"
)
consumers = rule(
    "001", "1.7.2.2.3", "queue.declare-ok.consumer-count", "declare-ok tells the number of consumers"
)
names = rule(
    "001",
    "1.7.2.1.2",
    "queue.declare.queue/default-name",
    "An empty name makes the server choose a unique one",
)
passive = rule(
    "001", "1.7.2.1.3", "queue.declare.passive", "Passive asserts existence, creates nothing, else 404"
)
equivalence = rule(
    "001",
    "1.7.2.1.3",
    "queue.declare/equivalence",
    "Declaring an existing queue again with other properties fails (RabbitMQ: 406 with the difference)",
)


@rule(
    "001",
    "1.7.2.1",
    "queue.declare/default-binding",
    "A new queue is bound to the default exchange by its name",
)
def test_default_binding(channel: RawChannel) -> None:
    queue = channel.declare(unique("queue"))
    channel.publish(b"hello", routing_key=queue, mandatory=True)
    assert drain(channel, queue) == [b"hello"]


@rule("001", "1.7.2.1", "queue.declare/minimum-queues", "At least 256 queues per virtual host", "SHOULD")
def test_many_queues(channel: RawChannel) -> None:
    queues = [channel.declare() for _ in range(300)]
    assert len(set(queues)) == 300
    for queue in queues:
        fill(channel, queue, [queue.encode()])
    assert [drain(channel, queue) for queue in queues] == [[queue.encode()] for queue in queues]


@names
def test_server_named_queues(connect: Callable[..., RawClient]) -> None:
    channels = [connect().channel() for _ in range(3)]
    chosen = [channel.declare() for channel in channels for _ in range(5)]
    assert len(set(chosen)) == len(chosen)
    assert all(name.startswith("amq.gen-") for name in chosen), (
        "the prefix by which RabbitMQ's users know them"
    )


@names
def test_server_named_queues_need_not_be_exclusive(
    connect: Callable[..., RawClient], channel: RawChannel
) -> None:
    queue = connect().channel().declare(exclusive=False, auto_delete=True)
    assert channel.depth(queue) == 0
    channel.call(spec.Queue.Delete(queue=queue))


@rule(
    "001",
    "1.7.2.1.2",
    "queue.declare.queue/reserved-prefix",
    'Names that begin with "amq." are refused with 403',
)
@rule("002", "3.1.10", "naming/amq-queue", "The prefix amq. belongs to standard queues")
def test_reserved_names_cannot_be_declared(channel: RawChannel) -> None:
    text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    channel.call_fails(spec.Queue.Declare(queue="amq.mine"), 403, text)


@rule(
    "001", "1.7.2.1.2", "queue.declare.queue/reserved-passive", "The prefix is reserved for passive = 0 only"
)
def test_reserved_names_can_be_asked_for(channel: RawChannel) -> None:
    queue = channel.declare()
    assert queue.startswith("amq.")
    channel.call(spec.Queue.Declare(queue=queue, passive=True), queue=queue)
    channel.call_fails(spec.Queue.Declare(queue="amq.mine", passive=True), 404, no_queue("amq.mine"))


@rule("001", "1.1", "queue-name/length", "Names of up to 255 octets, any UTF-8, name queues")
@pytest.mark.parametrize("name", ["q" * 255, "ü" * 127, "signs : ; @ % $"], ids=["ascii", "utf-8", "signs"])
def test_long_and_unusual_names(channel: RawChannel, name: str) -> None:
    channel.send_method(50, 10, raw_queue_declare(name))
    assert channel.expect(spec.Queue.DeclareOk).queue == name
    channel.publish(b"x", routing_key=name, mandatory=True)
    # The last declared queue: pamqp would not let us say its name again.
    assert drain(channel, "") == [b"x"]


@passive
@pytest.mark.parametrize("no_wait", [False, True])
def test_passive_declare_of_a_missing_queue(channel: RawChannel, no_wait: bool) -> None:
    name = unique()
    channel.call_fails(spec.Queue.Declare(queue=name, passive=True, nowait=no_wait), 404, no_queue(name))


@passive
def test_passive_declare_ignores_the_other_fields(channel: RawChannel) -> None:
    queue = channel.declare(unique("queue"), auto_delete=True)
    flags = {"passive": True, "durable": True, "exclusive": False, "auto_delete": False}
    channel.call(spec.Queue.Declare(queue=queue, arguments={"x-max-length": "x"}, **flags), queue=queue)


@passive
def test_passive_declare_with_no_wait_has_no_effect(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.send(spec.Queue.Declare(queue=queue, passive=True, nowait=True))
    round_trip(channel)


@counts
def test_message_count(channel: RawChannel) -> None:
    request = spec.Queue.Declare(queue=unique("queue"), exclusive=True)
    queue = channel.call(request, message_count=0, consumer_count=0).queue
    channel.confirm_select()
    fill(channel, queue, [b"x"] * 3)
    await_confirms(channel, 3)
    channel.call(request, message_count=3)
    taken = channel.get(queue, no_ack=False)
    assert taken is not None
    assert taken.method.message_count == 2
    channel.call(request, message_count=2)
    channel.send(spec.Basic.Reject(delivery_tag=taken.delivery_tag, requeue=True))
    assert eventually(lambda: channel.call(request).message_count == 3)


@consumers
def test_consumer_count(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    queue = channel.declare(unique("queue"), exclusive=False, auto_delete=True)
    other = connect().channel()
    for number in range(3):
        other.consume(queue, f"consumer {number}")
    passively = spec.Queue.Declare(queue=queue, passive=True)
    channel.call(passively, consumer_count=3)
    other.cancel("consumer 1")
    channel.call(passively, consumer_count=2)
    other.close()
    assert not queue_exists(channel, queue)


@rule(
    "001",
    "1.7.2.2.3",
    "queue.declare-ok.consumer-count/flow",
    "Consumers stopped by channel.flow are not counted",
)
@rabbitmq_differs("answers channel.flow active=false with 540 NOT_IMPLEMENTED")
def test_stopped_consumers_are_not_counted(client: RawClient, channel: RawChannel) -> None:
    queue = channel.declare()
    second = client.channel(2)
    for side in (channel, second, second):
        side.consume(queue)
    second.call(spec.Channel.Flow(active=False), active=False)
    channel.call(spec.Queue.Declare(queue=queue, passive=True), consumer_count=1)
    second.call(spec.Channel.Flow(active=True), active=True)
    channel.call(spec.Queue.Declare(queue=queue, passive=True), consumer_count=3)


@equivalence
def test_declaring_again_alike_is_accepted(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    request = spec.Queue.Declare(queue=unique("queue"), auto_delete=True, arguments={"x-unknown": 1})
    channel.call(request)
    connect().channel().call(request)
    channel.call(spec.Queue.Delete(queue=request.queue))


@equivalence
@pytest.mark.parametrize(
    ("argument", "options", "received", "current"),
    [
        ("durable", {"durable": True}, "true", "false"),
        ("auto_delete", {"auto_delete": False}, "false", "true"),
    ],
)
def test_declaring_again_with_another_flag_fails(
    channel: RawChannel, argument: str, options: dict[str, bool], received: str, current: str
) -> None:
    queue = channel.declare(unique("queue"), exclusive=False, auto_delete=True)
    text = (
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{queue}' in vhost '/': "
        f"received '{received}' but current is '{current}'"
    )
    channel.call_fails(spec.Queue.Declare(queue=queue, **{"auto_delete": True, **options}), 406, text)
    channel.open()
    channel.call(spec.Queue.Delete(queue=queue))


@equivalence
@pytest.mark.parametrize("exclusive", [True, False])
def test_declaring_again_with_another_exclusive_flag_fails(channel: RawChannel, exclusive: bool) -> None:
    queue = channel.declare(unique("queue"), exclusive=exclusive, auto_delete=True)
    request = spec.Queue.Declare(queue=queue, exclusive=not exclusive, auto_delete=True)
    channel.call_fails(request, 405, LOCKED.format(queue))
    channel.open()
    channel.call(spec.Queue.Delete(queue=queue))


@equivalence
@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        (
            {},
            {"x-max-length": 100_000},
            "received the value '100000' of type 'signedint' but current is none",
        ),
        (
            {"x-max-length": 100_000},
            {},
            "received none but current is the value '100000' of type 'signedint'",
        ),
        ({"x-max-length": 100_000}, {"x-max-length": 100_001}, "received '100001' but current is '100000'"),
    ],
)
def test_declaring_again_with_other_arguments_fails(
    channel: RawChannel, first: dict[str, Any], second: dict[str, Any], difference: str
) -> None:
    queue = channel.declare(unique("queue"), arguments=first)
    where = f"arg 'x-max-length' for queue '{queue}' in vhost '/'"
    text = f"PRECONDITION_FAILED - inequivalent {where}: {difference}"
    channel.call_fails(spec.Queue.Declare(queue=queue, exclusive=True, arguments=second), 406, text)


@rule("001", "1.1", "no-wait/queue.declare", "With no-wait queue.declare has no reply, but the work is done")
def test_declare_without_waiting(channel: RawChannel) -> None:
    queue = unique("queue")
    channel.send(spec.Queue.Declare(queue=queue, exclusive=True, nowait=True))
    fill(channel, queue, [b"x"])
    assert drain(channel, queue) == [b"x"]


@rule(
    "002", "4.4", "visibility/declare", "What one client was told to exist is visible to every other client"
)
def test_declared_queue_is_visible_to_others(connect: Callable[..., RawClient], channel: RawChannel) -> None:
    others = [connect().channel() for _ in range(3)]
    for _ in range(20):
        queue = channel.declare(exclusive=False)
        for other in others:
            other.call(spec.Queue.Declare(queue=queue, passive=True))
        channel.call(spec.Queue.Delete(queue=queue))
        assert not queue_exists(others[0], queue)
