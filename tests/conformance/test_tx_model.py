"""A transactional channel against a model: random publishes, acks and rejects, committed or rolled back."""

import random
from dataclasses import dataclass, field

import pytest

from tests.conformance.model import drain, fill
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, spec

model = rule(
    "001",
    "1.9",
    "tx/model",
    "All publishes and acks of a transaction complete, or none of them does",
    "SHOULD",
)


@dataclass
class Model:
    """The queue as others see it, and what the open transaction would do to it."""

    published: int = 0
    tags: int = 0
    ready: set[int] = field(default_factory=set)
    unacked: dict[int, int] = field(default_factory=dict)
    new: list[int] = field(default_factory=list)
    settled: dict[int, tuple[int, bool]] = field(default_factory=dict)

    def commit(self) -> None:
        self.ready |= set(self.new) | {number for number, requeue in self.settled.values() if requeue}
        self.new, self.settled = [], {}

    def roll_back(self) -> None:
        self.unacked |= {tag: number for tag, (number, _) in self.settled.items()}
        self.new, self.settled = [], {}


@model
@pytest.mark.parametrize("seed", range(6))
def test_random_transactions(client: RawClient, seed: int) -> None:
    dice, state = random.Random(seed), Model()
    tx, observer = client.channel(1), client.channel(2)
    queue = tx.declare()
    tx.call(spec.Tx.Select())
    for _ in range(300):
        step = dice.choices(["publish", "get", "settle", "commit", "rollback"], [4, 4, 4, 1, 1])[0]
        if step == "publish":
            fill(tx, queue, [b"%d" % state.published], delivery_mode=dice.choice([1, 2]))
            state.new.append(state.published)
            state.published += 1
        elif step == "get":
            take(tx, queue, state)
        elif step == "settle" and state.unacked:
            settle(tx, dice, state)
        elif step == "commit":
            tx.call(spec.Tx.Commit())
            state.commit()
        elif step == "rollback":
            tx.call(spec.Tx.Rollback())
            state.roll_back()
        if step in ("commit", "rollback"):
            observer.call(spec.Queue.Declare(queue=queue, passive=True), message_count=len(state.ready))
    # The end of a channel is a rollback, and gives back what was not acknowledged.
    state.roll_back()
    tx.close()
    expected = sorted(state.ready | set(state.unacked.values()))
    assert [int(body) for body in drain(observer, queue)] == expected


def take(tx: RawChannel, queue: str, state: Model) -> None:
    message = tx.get(queue, no_ack=False)
    if not state.ready:
        assert message is None, "a message that was not committed"
        return
    assert message is not None
    state.tags += 1
    assert (int(message.body), message.delivery_tag) == (min(state.ready), state.tags)
    state.ready.remove(int(message.body))
    state.unacked[state.tags] = int(message.body)


def settle(tx: RawChannel, dice: random.Random, state: Model) -> None:
    tag, multiple = dice.choice(list(state.unacked)), dice.random() < 0.3
    requeue = dice.random() < 0.4
    if requeue:
        tx.send(spec.Basic.Nack(delivery_tag=tag, multiple=multiple, requeue=True))
    else:
        tx.ack(tag, multiple)
    for covered in [other for other in state.unacked if other <= tag] if multiple else [tag]:
        state.settled[covered] = state.unacked.pop(covered), requeue
