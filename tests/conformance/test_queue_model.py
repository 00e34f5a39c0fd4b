"""A queue against a model of it: whatever clients do with its messages, the right one is next."""

import random
from dataclasses import dataclass, field

import pytest

from tests.conformance.model import fill
from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawChannel, spec

model = rule(
    "004",
    "requeue",
    "queue/model",
    "Whatever is acknowledged, rejected, requeued or purged, the oldest ready message is next, with its flag",
)
STEPS = 400
BACKLOG = 40_000  # more than EmberMQ keeps in memory, by number and by size


@dataclass
class Model:
    """What must be in the queue: numbers of messages, ready or with the client."""

    levels: bool = False
    published: int = 0
    ready: list[int] = field(default_factory=list)
    unacked: dict[int, int] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    tags: int = 0

    def priority(self, number: int) -> int:
        return (number * 7) % 10 if self.levels else 0

    def order(self, number: int) -> tuple[bool, int]:
        return self.priority(number) < 5, number

    def take(self) -> int | None:
        if not self.ready:
            return None
        number = min(self.ready, key=self.order)
        self.ready.remove(number)
        self.tags += 1
        self.unacked[self.tags] = number
        return number

    def settle(self, tags: list[int], requeue: bool) -> None:
        for tag in tags:
            number = self.unacked.pop(tag)
            if requeue:
                self.ready.append(number)

    def covered(self, tag: int, multiple: bool) -> list[int]:
        return [other for other in self.unacked if other <= tag] if multiple else [tag]


def publish(channel: RawChannel, queue: str, dice: random.Random, state: Model, size: int) -> None:
    number = state.published
    state.published += 1
    state.ready.append(number)
    properties = {"delivery_mode": dice.choice([1, 2]), "priority": state.priority(number)}
    fill(channel, queue, [b"%d" % number + b" " * size], **properties)


def finish(channel: RawChannel, queue: str, state: Model) -> None:
    """Everything that is left comes in order, what was taken and never settled included."""
    channel.call(spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)
    state.settle(list(state.unacked), True)
    channel.consume(queue, no_ack=True)
    for expected in sorted(state.ready, key=state.order):
        message = channel.delivery()
        assert int(message.body) == expected
        assert message.redelivered == (expected in state.seen), expected


def play(
    channel: RawChannel, dice: random.Random, state: Model, backlog: int = 0, durable: bool = False
) -> None:
    queue = channel.declare(durable=durable)
    for _ in range(backlog):
        publish(channel, queue, dice, state, size=dice.choice([0, 10, 2000, 8000]))
    for _ in range(STEPS):
        purge = 0 if backlog else 0.1
        step = dice.choices(["publish", "get", "settle", "recover", "purge"], [4, 6, 4, 0.2, purge])[0]
        if step == "publish":
            for _ in range(dice.randint(1, 4)):
                publish(channel, queue, dice, state, size=0)
        elif step == "get":
            expected = state.take()
            message = channel.get(queue, no_ack=False)
            if expected is None:
                assert message is None
                continue
            assert message is not None, f"message {expected} is missing"
            assert (int(message.body), message.delivery_tag) == (expected, state.tags)
            assert message.redelivered == (expected in state.seen), expected
            assert message.method.message_count == len(state.ready)
            state.seen.add(expected)
        elif step == "settle" and state.unacked:
            tag, multiple = dice.choice(list(state.unacked)), dice.random() < 0.3
            requeue = dice.random() < 0.6
            how = dice.choice(["ack", "nack"] if multiple else ["ack", "nack", "reject"])
            if how == "ack":
                channel.ack(tag, multiple)
            elif how == "nack":
                channel.send(spec.Basic.Nack(delivery_tag=tag, multiple=multiple, requeue=requeue))
            else:
                channel.send(spec.Basic.Reject(delivery_tag=tag, requeue=requeue))
            state.settle(state.covered(tag, multiple), requeue and how != "ack")
        elif step == "recover":
            channel.call(spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)
            state.settle(list(state.unacked), True)
        elif step == "purge":
            channel.call(spec.Queue.Purge(queue=queue), message_count=len(state.ready))
            state.ready.clear()
    finish(channel, queue, state)


@model
@pytest.mark.parametrize("seed", range(8))
def test_queue_without_priorities(channel: RawChannel, seed: int) -> None:
    play(channel, random.Random(seed), Model())


@model
@rabbitmq_differs("has priorities only on queues declared with x-max-priority")
@pytest.mark.parametrize("seed", range(4))
def test_queue_with_two_levels(channel: RawChannel, seed: int) -> None:
    play(channel, random.Random(seed), Model(levels=True))


@model
@rule("001", "1.8", "basic/overflow-order", "A queue too large for memory keeps its order and loses nothing")
@pytest.mark.parametrize("durable", [False, True])
def test_deep_queue(channel: RawChannel, durable: bool) -> None:
    play(channel, random.Random(durable), Model(), backlog=BACKLOG, durable=durable)


@model
@rabbitmq_differs("has priorities only on queues declared with x-max-priority")
@pytest.mark.parametrize("durable", [False, True])
def test_deep_queue_with_two_levels(channel: RawChannel, durable: bool) -> None:
    play(channel, random.Random(durable), Model(levels=True), backlog=BACKLOG, durable=durable)


@model
@rabbitmq_differs("needs longer than the test waits to take single messages back among 40,000 others")
@pytest.mark.parametrize("durable", [False, True])
def test_deep_queue_taken_and_given_back(channel: RawChannel, durable: bool) -> None:
    """A client takes everything, gives a part back in disorder, and takes the rest of the parts away."""
    dice, state = random.Random(durable), Model()
    queue = channel.declare(durable=durable)
    for _ in range(BACKLOG):
        publish(channel, queue, dice, state, size=dice.choice([0, 10, 2000]))
    tag = channel.consume(queue)
    for number in range(BACKLOG):
        state.unacked[channel.delivery().delivery_tag] = number
    state.ready, state.seen = [], set(range(BACKLOG))
    channel.cancel(tag)
    for given_back in dice.sample(range(1, BACKLOG + 1), 3000):
        channel.send(spec.Basic.Reject(delivery_tag=given_back, requeue=True))
        state.settle([given_back], True)
    for _ in range(500):
        publish(channel, queue, dice, state, size=0)
    half = BACKLOG // 2
    channel.send(spec.Basic.Nack(delivery_tag=half, multiple=True, requeue=True))
    state.settle(state.covered(half, True), True)
    channel.ack(0, multiple=True)
    state.settle(list(state.unacked), False)
    finish(channel, queue, state)
