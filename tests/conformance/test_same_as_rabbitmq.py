"""The same random conversations with EmberMQ and with RabbitMQ: every answer must be the same frame.

Left out is what differs on purpose (priorities, immediate, prefetch-size, no-local, recover without requeue,
channel.flow) and what arrives when it likes (deliveries, confirms).
"""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pamqp import base

from tests.conformance.rules import rule
from tests.support.raw_client import RawClient, spec
from tests.support.raw_frames import describe
from tools.brokers import Broker, EmberBroker, RabbitBroker
from tools.differ.generate import FLAVOURS, SLOW, generate
from tools.differ.pair import PLUGINS, Pair
from tools.differ.program import written

QUEUES = ["queue.1", "queue.2", "queue.3"]
EXCHANGES = ["exchange.1", "exchange.2", "exchange.3"]
KEYS = ["a", "b", "a.b", "", "#", "*", "a.#", *QUEUES]
STEPS = 250
CHANNEL = 1

same = rule("004", "model", "rabbitmq/same-answers", "Clients of RabbitMQ get the answers that they know")


@dataclass
class Step:
    """What to send, told in words; a commit must be waited for, since RabbitMQ refuses to be sent more."""

    words: str
    send: Callable[["Side"], None]
    commits: bool = False


class Side:
    """One of the two brokers: does a step and tells what came back."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.generated: dict[str, str] = {}
        self.connect()

    def connect(self) -> None:
        self.client = RawClient(self.port).handshake()
        self.channel = self.client.channel(CHANNEL)

    def do(self, step: Step) -> list[str]:
        """The frames up to the answer of a question that marks the end; closes are answered."""
        step.send(self)
        if not step.commits:
            self.channel.send(spec.Basic.Qos(prefetch_count=0))
        end = spec.Tx.CommitOk if step.commits else spec.Basic.QosOk
        answers: list[str] = []
        while not isinstance((frame := self.client.next_frame()).value, end):
            if not isinstance(frame.value, spec.Basic.Ack):
                answers.append(self.anonymous(describe(frame)))
            if isinstance(frame.value, spec.Channel.Close):
                self.channel.send(spec.Channel.CloseOk())
                self.channel.open()
                break
            if isinstance(frame.value, spec.Connection.Close):
                self.client.send(spec.Connection.CloseOk())
                self.client.drop()
                self.connect()
                break
        return answers

    def anonymous(self, text: str) -> str:
        """Generated names differ; the first is called 0, the second 1, ...

        RabbitMQ's declare-ok may overtake the messages it should count.
        """

        def number(match: re.Match[str]) -> str:
            return self.generated.setdefault(match[0], f"generated {len(self.generated)}")

        if text.startswith("Queue.DeclareOk"):
            text = re.sub(r"message_count=\d+", "message_count=?", text)
        return re.sub(r"amq\.gen-[\w-]+", number, text)


class Script:
    """Requests by dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def often(self, probability: float = 0.3) -> bool:
        return self.dice.random() < probability

    def exchange(self) -> str:
        return self.dice.choice(EXCHANGES * 3 + ["", "amq.direct", "amq.topic", "amq.fanout", "amq.headers"])

    def queue(self) -> str:
        return self.dice.choice(QUEUES * 5 + ["", "amq.unknown"])

    def arguments(self) -> dict[str, Any]:
        return self.dice.choice(
            [{}] * 6 + [{"x-match": "any", "a": 1}, {"x-match": "all", "b": "x"}, {"v": None}]
        )

    def beginning(self, number: int) -> Step:
        """Something to talk about: every queue, every exchange, and bindings between them."""
        queue, name = QUEUES[number % 3], EXCHANGES[number % 3]
        return self.sending(
            [
                spec.Queue.Declare(queue=queue),
                spec.Exchange.Declare(exchange=name, exchange_type="topic"),
                spec.Queue.Bind(queue=queue, exchange=name, routing_key=self.dice.choice(KEYS)),
            ][number // 3]
        )

    def next(self) -> Step:
        kinds = {self.publish: 25, self.get: 18, self.method: 40}
        return self.dice.choices(list(kinds), list(kinds.values()))[0]()

    def publish(self) -> Step:
        name, key, mandatory = self.exchange(), self.dice.choice(KEYS), self.often(0.5)
        if self.often(0.4):
            name, key = "", self.dice.choice(QUEUES)
        headers = self.dice.choice([None, None, {"a": 1}, {"b": "x"}, {"a": 1, "b": "x"}])
        properties = spec.Basic.Properties(headers=headers, delivery_mode=self.dice.choice([None, 1, 2]))

        def send(side: Side) -> None:
            side.channel.publish(b"body", name, key, mandatory, properties=properties)

        return Step(f"publish {name!r} {key!r} mandatory={mandatory} {headers}", send)

    def get(self) -> Step:
        return self.sending(spec.Basic.Get(queue=self.queue(), no_ack=self.often()))

    def method(self) -> Step:
        makers = {
            self.exchange_method: 9,
            self.queue_method: 18,
            self.settling_method: 7,
            self.transaction_method: 4,
        }
        return self.sending(self.dice.choices(list(makers), list(makers.values()))[0]())

    def sending(self, method: base.Frame) -> Step:
        fields = {name: value for name, value in dict(method).items() if name != "ticket"}
        commits = isinstance(method, spec.Tx.Commit)
        return Step(f"{method.name} {fields}", lambda side: side.channel.send(method), commits)

    def exchange_method(self) -> base.Frame:
        name, no_wait = self.exchange(), self.often(0.1)
        route = {"destination": name, "source": self.exchange(), "routing_key": self.dice.choice(KEYS)}
        kind = "topic" if self.often(0.9) else self.dice.choice(["direct", "fanout", "headers"])
        flags = {"passive": self.often(0.1), "auto_delete": self.often(0.5), "internal": self.often(0.03)}
        return self.dice.choice(
            [
                spec.Exchange.Declare(exchange=name, exchange_type=kind, nowait=no_wait, **flags),
                spec.Exchange.Bind(nowait=no_wait, arguments=self.arguments(), **route),
                spec.Exchange.Unbind(nowait=no_wait, arguments=self.arguments(), **route),
                spec.Exchange.Delete(exchange=name, if_unused=self.often(0.7), nowait=no_wait),
            ]
        )

    def queue_method(self) -> base.Frame:
        queue, no_wait = self.queue(), self.often(0.1)
        route = {"queue": queue, "exchange": self.exchange(), "routing_key": self.dice.choice(KEYS)}
        flags = {"passive": self.often(0.1), "durable": self.often(0.03), "auto_delete": self.often(0.03)}
        limit = {"x-max-length": 100_000} if self.often(0.03) else {}
        declare = spec.Queue.Declare(queue=queue, nowait=no_wait, arguments=limit, **flags)
        bind = spec.Queue.Bind(nowait=no_wait, arguments=self.arguments(), **route)
        return self.dice.choice(
            [
                *[declare] * 3,
                *[bind] * 3,
                spec.Queue.Unbind(arguments=self.arguments(), **route),
                spec.Queue.Purge(queue=queue, nowait=no_wait),
                spec.Queue.Delete(queue=queue, if_unused=self.often(), if_empty=self.often(), nowait=no_wait),
            ]
        )

    def settling_method(self) -> base.Frame:
        tag, multiple, requeue = self.dice.randint(0, 4), self.often(), self.often(0.7)
        return self.dice.choice(
            [
                spec.Basic.Ack(delivery_tag=0, multiple=True),
                spec.Basic.Ack(delivery_tag=tag, multiple=multiple),
                spec.Basic.Nack(delivery_tag=tag, multiple=multiple, requeue=requeue),
                spec.Basic.Reject(delivery_tag=tag, requeue=requeue),
                spec.Basic.Recover(requeue=True),
                spec.Basic.Cancel(consumer_tag="unknown"),
            ]
        )

    def transaction_method(self) -> base.Frame:
        return self.dice.choice(
            [spec.Tx.Select(), *[spec.Tx.Commit()] * 6, spec.Tx.Rollback(), spec.Confirm.Select()]
        )


@pytest.fixture(scope="module")
def brokers(target: str) -> Iterator[list[Broker]]:
    if target == "rabbitmq" or not RabbitBroker.installed():
        pytest.skip("needs both brokers")
    with EmberBroker() as ember, RabbitBroker(plugins=PLUGINS) as rabbit:
        yield [ember, rabbit]


@same
@pytest.mark.parametrize("seed", range(8))
def test_random_conversation(brokers: list[Broker], seed: int) -> None:
    script, history, answers = Script(seed), [], []
    ember, rabbit = (Side(broker.port) for broker in brokers)
    try:
        for number in range(STEPS):
            step = script.beginning(number) if number < len(QUEUES) * 3 else script.next()
            history.append(step.words)
            answer = ember.do(step)
            assert answer == rabbit.do(step), "after\n" + "\n".join(history[-10:])
            answers += answer
        talked_about = {answer.split("(")[0] for answer in answers}
        assert {"Basic.GetOk", "Basic.Return", "Channel.Close"} <= talked_about, "a script that shows little"
    finally:
        for side in (ember, rabbit):
            side.client.drop()
            clean(side.port)


@same
@pytest.mark.parametrize("flavour", sorted(FLAVOURS.keys() - SLOW))
def test_random_programs(brokers: list[Broker], flavour: str) -> None:
    """A few of those that `make differ` runs by the thousand (docs/differential.md)."""
    ember, rabbit = brokers
    pair = Pair(ember, rabbit)
    try:
        for seed in range(2):
            program = generate(seed, flavour)
            found = pair.lasting(program)
            assert found is None or found.deliberate, written(program)
    finally:
        pair.close()


def clean(port: int) -> None:
    with RawClient(port) as client:
        channel = client.handshake().channel()
        for name in QUEUES:
            channel.call(spec.Queue.Delete(queue=name))
        for name in EXCHANGES:
            channel.call(spec.Exchange.Delete(exchange=name))
