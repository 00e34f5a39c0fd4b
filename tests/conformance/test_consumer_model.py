"""Consumers that acknowledge, refuse, close and break: nothing is lost, nothing acknowledged comes back."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.conformance.model import await_confirms, fill
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, spec, unique
from tests.support.raw_frames import Silence

Connect = Callable[..., RawClient]
MESSAGES = 400
PREFETCH = 7

once = rule(
    "002", "3.1.4", "queue/once", "A message goes to one client at a time, and again only after a failure"
)
kept = rule(
    "002", "4.5", "channel-closure/nothing-lost", "No unacknowledged message is lost when channels close"
)


class Worker:
    """One consumer with a window; decides by dice what to do with each message."""

    def __init__(self, connect: Connect, queue: str, dice: random.Random, progress: "Progress") -> None:
        self.connect, self.queue, self.dice, self.progress = connect, queue, dice, progress
        self.start()

    def start(self) -> None:
        self.unacked: dict[int, int] = {}
        self.client = self.connect()
        self.open(self.client.channel())

    def open(self, channel: RawChannel) -> None:
        self.channel = channel
        channel.qos(PREFETCH)
        channel.consume(self.queue, "worker")

    def work(self) -> bool:
        """Handle one delivery, if there is one."""
        try:
            frame = self.client.next_frame(0.02)
        except Silence:
            self.settle()
            return False
        assert isinstance(frame.value, spec.Basic.Deliver), frame
        message = self.channel.read_content(frame.value)
        number = int(message.body)
        self.progress.delivered(number, message.redelivered)
        self.unacked[message.delivery_tag] = number
        assert len(self.unacked) <= PREFETCH, "the server sent more than the window allows"
        if self.dice.random() < 0.4:
            self.settle()
        elif self.dice.random() < 0.02:
            self.fail()
        return True

    def settle(self) -> None:
        if not self.unacked:
            return
        tag, multiple = self.dice.choice(list(self.unacked)), self.dice.random() < 0.5
        covered = [other for other in self.unacked if other <= tag] if multiple else [tag]
        numbers = [self.unacked.pop(other) for other in covered]
        if self.dice.random() < 0.25:
            self.channel.send(spec.Basic.Nack(delivery_tag=tag, multiple=multiple, requeue=True))
            self.progress.released(numbers)
        else:
            self.channel.ack(tag, multiple)
            self.progress.acked(numbers)

    def fail(self) -> None:
        """Close the channel, or break the connection."""
        self.progress.released(list(self.unacked.values()))
        self.unacked = {}
        if self.dice.random() < 0.5:
            self.channel.send(spec.Channel.Close(200, "", 0, 0))
            self.skip_until(spec.Channel.CloseOk)
            self.open(self.client.channel())
        else:
            # A round trip first: a broken connection may swallow acknowledgements that are under way.
            self.channel.send(spec.Queue.Declare(queue=self.queue, passive=True))
            self.skip_until(spec.Queue.DeclareOk)
            self.client.drop()
            # Deliveries that came after it have the flag, although we never saw them.
            self.progress.uncertain = True
            self.start()

    def skip_until(self, method: type) -> None:
        """Deliveries that crossed our request count as seen and given back."""
        while not isinstance((frame := self.client.next_frame()).value, method):
            if isinstance(frame.value, spec.Basic.Deliver):
                number = int(self.channel.read_content(frame.value).body)
                self.progress.delivered(number, frame.value.redelivered)
                self.progress.released([number])


class Progress:
    """What happened to each message so far."""

    def __init__(self) -> None:
        self.out: set[int] = set()
        self.seen: set[int] = set()
        self.done: set[int] = set()
        self.uncertain = False

    def delivered(self, number: int, redelivered: bool) -> None:
        assert number not in self.done, f"message {number} was acknowledged and came again"
        assert number not in self.out, f"message {number} is with two clients"
        assert redelivered or number not in self.seen, f"message {number} came again without the flag"
        assert self.uncertain or not redelivered or number in self.seen, (
            f"message {number} has the flag too early"
        )
        self.seen.add(number)
        self.out.add(number)

    def released(self, numbers: list[int]) -> None:
        self.out -= set(numbers)

    def acked(self, numbers: list[int]) -> None:
        self.out -= set(numbers)
        self.done |= set(numbers)


@contextmanager
def filled_queue(channel: RawChannel, durable: bool) -> Iterator[str]:
    queue = channel.declare(unique("queue"), durable=durable, exclusive=False)
    channel.confirm_select()
    fill(channel, queue, [b"%d" % number for number in range(MESSAGES)], delivery_mode=2 if durable else 1)
    await_confirms(channel, MESSAGES)
    yield queue
    channel.call(spec.Queue.Delete(queue=queue), message_count=0)


@once
@kept
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_unreliable_workers(connect: Connect, channel: RawChannel, seed: int, durable: bool) -> None:
    dice, progress = random.Random(seed), Progress()
    with filled_queue(channel, durable) as queue:
        workers = [Worker(connect, queue, dice, progress) for _ in range(4)]
        idle = 0
        while len(progress.done) < MESSAGES:
            worked = [worker.work() for worker in workers]
            idle = 0 if any(worked) or progress.out else idle + 1
            assert idle < 100, f"{MESSAGES - len(progress.done)} messages do not come any more"
        for worker in workers:
            worker.channel.cancel("worker")
    assert progress.done == set(range(MESSAGES))
