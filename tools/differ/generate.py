"""Programs by dice: a seed gives always the same program.

Names come out of small pools so that steps meet each other. A program has a flavour, which says what it does
most of; a beginning, which declares and binds something to talk about; and then whatever the dice say.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tools.differ import broken
from tools.differ import vocabulary as words
from tools.differ.program import EXCHANGES, QUEUES, Program, Step, step

FLAVOURS: dict[str, dict[str, int]] = {
    "everything": {},
    "routing": {"bind": 8, "unbind": 3, "publish": 12, "declare_exchange": 4, "delete_exchange": 2},
    "limits": {"publish": 20, "consume": 2, "settle": 8, "get": 5},
    "settling": {"publish": 12, "consume": 5, "settle": 15, "get": 5, "qos": 4, "recover": 3, "cancel": 3},
    "declaring": {"declare_queue": 15, "declare_exchange": 10, "delete_queue": 4, "delete_exchange": 4},
    "transactions": {"transaction": 12, "publish": 10, "settle": 8, "get": 5, "consume": 2},
    "confirms": {"confirm": 3, "publish": 20, "settle": 4, "get": 3, "consume": 3, "delete_queue": 1},
    "consumers": {"consume": 12, "cancel": 6, "publish": 10, "settle": 6, "qos": 3, "close": 4, "drop": 2},
    "priorities": {"publish_priority": 15, "get": 8, "consume": 3, "settle": 8, "publish": 0},
    "properties": {"publish_odd": 20, "get": 6, "consume": 2, "settle": 4},
    "types": {
        "declare_queue": 12,
        "publish": 6,
        "consume": 4,
        "settle": 5,
        "get": 2,
        "qos": 4,
        "delete_queue": 2,
    },
    "restart": {"publish": 14, "get": 5, "consume": 2, "settle": 5, "bind": 4, "declare_queue": 3},
    "expiry": {"publish": 12, "get": 3, "consume": 4, "settle": 8, "declare_queue": 2, "publish_odd": 0},
    "protocol": {"frames": 6, "close": 3, "channel": 3, "publish": 4, "get": 3, "settle": 4},
}
SLOW = ("restart", "expiry")  # only when asked for
BASE: dict[str, int] = {
    "publish": 8,
    "publish_odd": 2,
    "publish_priority": 0,
    "get": 3,
    "consume": 3,
    "cancel": 1,
    "settle": 5,
    "recover": 1,
    "qos": 1,
    "bind": 2,
    "unbind": 1,
    "declare_queue": 2,
    "declare_exchange": 1,
    "delete_queue": 1,
    "delete_exchange": 1,
    "purge": 1,
    "transaction": 1,
    "confirm": 1,
    "close": 1,
    "channel": 0,
    "drop": 0,
    "frames": 0,
}
STEPS_MIN, STEPS_MAX = 4, 22
QUIET_MS = 400  # more than anything in words.SOON


class Dice:
    """Throws that read well."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def often(self, probability: float = 0.3) -> bool:
        return self.random.random() < probability

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def of(self, choices: Any) -> Any:
        return self.random.choice(list(choices))

    def some(self, choices: list[Any], most: int) -> list[Any]:
        return self.random.sample(choices, self.random.randint(0, min(most, len(choices))))


def generate(seed: int, flavour: str | None = None) -> Program:
    return Generator(seed, flavour).program()


class Generator:
    def __init__(self, seed: int, flavour: str | None = None) -> None:
        self.dice = Dice(seed)
        self.flavour = flavour or self.dice.of(name for name in FLAVOURS if name not in SLOW)
        self.body = 0
        self.dead_letters = False

    def program(self) -> Program:
        program = self.beginning()
        weights = BASE | FLAVOURS[self.flavour]
        makers: list[Callable[[], Step]] = [getattr(self, name) for name in weights]
        for maker in self.dice.random.choices(
            makers, list(weights.values()), k=self.dice.random.randint(STEPS_MIN, STEPS_MAX)
        ):
            program.append(maker())
        if self.flavour == "restart":
            program.insert(self.dice.random.randint(len(program) // 2, len(program)), {"do": "restart"})
        if self.flavour == "expiry":
            program = [each | {"quiet_ms": QUIET_MS} for each in program]
        return program

    def beginning(self) -> Program:
        """Something to talk about, well declared on the whole."""
        program = [
            step(
                "exchange.declare", exchange=name, type=self.dice.of(words.TYPES), **self.exchange_flags(0.1)
            )
            for name in self.dice.some(list(EXCHANGES), 3)
        ]
        for name in self.dice.some(list(QUEUES), 3) or [QUEUES[0]]:
            arguments = self.queue_arguments(0)
            program.append(step("queue.declare", queue=name, arguments=arguments, **self.queue_flags(0.1)))
        program += [self.bind() for _ in range(self.dice.random.randint(0, 4))]
        if self.dice.often(0.15):
            program.append(step("basic.qos", prefetch_count=self.dice.one(1, 2, 3)))
        if self.flavour in ("confirms", "limits") and self.dice.often(0.7):
            program.append(step("confirm.select"))
        if self.flavour == "transactions":
            program.append(step("tx.select"))
        return program

    # -- where and what

    def on(self) -> tuple[int, int]:
        place: tuple[int, int] = self.dice.one((0, 1), (0, 1), (0, 1), (0, 1), (0, 2), (1, 1))
        return place

    def queue(self) -> str:
        return str(self.dice.of([*QUEUES * 6, "", "amq.unknown"]))

    def exchange(self) -> str:
        return str(self.dice.of([*EXCHANGES * 4, *words.STANDARD_EXCHANGES, ""]))

    def key(self) -> str:
        return str(self.dice.of([*words.KEYS, *QUEUES]))

    def queue_flags(self, probability: float) -> dict[str, Any]:
        """Queues do not go with their messages where there are dead letters: here they send theirs on."""
        probability = 0 if self.dead_letters else probability
        return {
            "durable": self.dice.often(words.DURABLE.get(self.flavour, max(probability, 0.3))),
            "exclusive": self.dice.often(probability),
            "auto_delete": self.dice.often(probability),
        }

    def exchange_flags(self, probability: float) -> dict[str, Any]:
        return {
            "durable": self.dice.often(words.DURABLE.get(self.flavour, 0.3)),
            "auto_delete": self.dice.often(probability),
            "internal": self.dice.often(probability / 2),
            "arguments": {"alternate-exchange": self.exchange() or "e9"} if self.dice.often(0.2) else {},
        }

    def queue_arguments(self, wrong: float) -> dict[str, Any]:
        """Arguments that make sense, among them some that do not with the probability `wrong`."""
        if self.flavour == "types":
            return self.type_arguments()
        names = self.dice.some(list(words.QUEUE_ARGUMENTS), 4 if self.flavour == "limits" else 3)
        if "x-dead-letter-routing-key" in names and not self.dice.often(wrong):
            names.append("x-dead-letter-exchange")
        if self.flavour == "priorities":
            names.append("x-max-priority")
        if self.flavour == "expiry" and self.dice.often(0.6):
            names.append(self.dice.one("x-message-ttl", "x-message-ttl", "x-expires"))
        known = words.QUEUE_ARGUMENTS | (words.SOON if self.flavour == "expiry" else {})
        arguments = {name: self.dice.of(known[name]) for name in names}
        self.dead_letters = self.dead_letters or "x-dead-letter-exchange" in arguments
        if self.dice.often(wrong):
            name = self.dice.of([*words.QUEUE_ARGUMENTS, *words.OTHER_QUEUE_ARGUMENTS])
            arguments[name] = self.dice.of(words.ODD_VALUES)
        return arguments

    def type_arguments(self) -> dict[str, Any]:
        """A type, and with it arguments that are for this type, or for another one."""
        arguments = {
            name: self.dice.of(words.TYPE_ARGUMENTS[name])
            for name in self.dice.some(list(words.TYPE_ARGUMENTS), 2 if self.dice.often(0.5) else 0)
        }
        arguments["x-queue-type"] = self.dice.of(words.TYPES_OF_QUEUES)
        return arguments

    # -- steps

    def declare_queue(self) -> Step:
        arguments = self.queue_arguments(0.3)
        return step(
            "queue.declare",
            self.on(),
            queue=self.queue(),
            passive=self.dice.often(0.15),
            no_wait=self.dice.often(0.1),
            arguments=arguments,
            **self.queue_flags(0.1),
        )

    def declare_exchange(self) -> Step:
        kind = self.dice.of(words.TYPES) if self.dice.often(0.85) else self.dice.of(words.ODD_TYPES)
        flags = self.exchange_flags(0.1)
        if self.dice.often(0.15):
            flags["arguments"] = {"alternate-exchange": self.dice.of(words.ODD_VALUES)}
        return step(
            "exchange.declare",
            self.on(),
            exchange=self.exchange(),
            type=kind,
            passive=self.dice.often(0.15),
            no_wait=self.dice.often(0.1),
            **flags,
        )

    def delete_queue(self) -> Step:
        return step(
            "queue.delete",
            self.on(),
            queue=self.queue(),
            if_unused=self.dice.often(),
            if_empty=self.dice.often() or self.dead_letters,
            no_wait=self.dice.often(0.1),
        )

    def delete_exchange(self) -> Step:
        return step(
            "exchange.delete",
            self.on(),
            exchange=self.exchange(),
            if_unused=self.dice.often(0.4),
            no_wait=self.dice.often(0.1),
        )

    def binding(self, kind: str, verb: str) -> Step:
        arguments = self.dice.of(words.BINDING_ARGUMENTS) if self.dice.often(0.4) else {}
        ends: dict[str, Any]
        if kind == "exchange":
            ends = {"destination": self.exchange(), "source": self.exchange()}
        else:
            ends = {"queue": self.queue(), "exchange": self.exchange()}
        if (kind, verb) != ("queue", "unbind"):
            ends["no_wait"] = self.dice.often(0.1)
        return step(f"{kind}.{verb}", self.on(), routing_key=self.key(), arguments=arguments, **ends)

    def bind(self) -> Step:
        return self.binding("exchange" if self.dice.often(0.25) else "queue", "bind")

    def unbind(self) -> Step:
        return self.binding("exchange" if self.dice.often(0.25) else "queue", "unbind")

    def purge(self) -> Step:
        return step("queue.purge", self.on(), queue=self.queue(), no_wait=self.dice.often(0.1))

    def published(self, properties: dict[str, Any]) -> Step:
        self.body += 1
        exchange, key = ("", self.dice.of(QUEUES)) if self.dice.often(0.5) else (self.exchange(), self.key())
        made = step(
            "basic.publish", self.on(), exchange=exchange, routing_key=key, mandatory=self.dice.often(0.3)
        )
        body = f"{self.body}" + "x" * self.dice.one(0, 0, 0, 3, 9)
        return made | {"properties": properties, "body": body}

    def publish(self) -> Step:
        properties: dict[str, Any] = {}
        for name, values in words.PROPERTIES.items():
            if self.dice.often(0.15):
                properties[name] = self.dice.of(values)
        if self.flavour == "expiry" and self.dice.often(0.4):
            properties["expiration"] = self.dice.one("0", "1", "100", "60000")
        if self.flavour == "restart" and self.dice.often(0.6):
            properties["delivery-mode"] = 2
        return self.published(properties)

    def publish_odd(self) -> Step:
        properties: dict[str, Any] = {}
        for name, values in words.ODD_PROPERTIES.items():
            if self.dice.often(0.15):
                properties[name] = self.dice.of(values)
        return self.published(properties)

    def publish_priority(self) -> Step:
        """Only where queues have priorities: without, five and more come first here, but not in RabbitMQ."""
        return self.published({"priority": self.dice.one(0, 1, 2, 3, 5, 9, 10, 11, 128, 255)})

    def get(self) -> Step:
        return step("basic.get", self.on(), queue=self.queue(), no_ack=self.dice.often())

    def consume(self) -> Step:
        arguments: dict[str, Any] = {}
        if self.dice.often(0.25):
            name = self.dice.one("x-priority", "x-cancel-on-ha-failover", "x-stream-offset", "unknown")
            arguments[name] = self.dice.of([1, 5, -3, 10, *words.ODD_VALUES])
        if self.flavour == "types" and self.dice.often(0.7):
            arguments["x-stream-offset"] = self.dice.of(words.OFFSETS)
        return step(
            "basic.consume",
            self.on(),
            queue=self.queue(),
            consumer_tag=self.dice.of(words.TAGS),
            no_ack=self.dice.often(),
            exclusive=self.dice.often(0.1),
            no_wait=self.dice.often(0.1),
            arguments=arguments,
        )

    def cancel(self) -> Step:
        return step(
            "basic.cancel", self.on(), consumer_tag=self.dice.of(words.TAGS), no_wait=self.dice.often(0.1)
        )

    def settle(self) -> Step:
        tag = self.dice.one(*["oldest", "middle", "newest"] * 5, 0, 1, 2, 7)
        kind = self.dice.one("ack", "nack", "reject")
        fields: dict[str, Any] = {"delivery_tag": tag}
        if kind != "reject":
            fields["multiple"] = self.dice.often(0.2)
        if kind != "ack":
            fields["requeue"] = self.dice.often(0.5)
        return step(f"basic.{kind}", self.on(), **fields)

    def recover(self) -> Step:
        return step(self.dice.one("basic.recover", "basic.recover-async"), self.on(), requeue=True)

    def qos(self) -> Step:
        count = self.dice.one(0, 1, 1, 2, 3)
        return step("basic.qos", self.on(), prefetch_count=count, **{"global": self.dice.often()})

    def transaction(self) -> Step:
        return step(self.dice.one("tx.select", "tx.commit", "tx.commit", "tx.rollback"), self.on())

    def confirm(self) -> Step:
        return step("confirm.select", self.on(), no_wait=self.dice.often(0.2))

    def close(self) -> Step:
        connection, channel = self.on()
        if self.dice.often(0.3):
            return step("connection.close", (connection, 0), reply_code=200)
        return step("channel.close", (connection, channel), reply_code=200)

    def channel(self) -> Step:
        """Steps about channels that are not, or already, open."""
        made: Step = self.dice.one(
            step("channel.open", self.on()),
            step("channel.flow", self.on(), active=True),
            step("channel.close-ok", self.on()),
            step("basic.get", (0, 9), queue="q1") | {"raw": True},
            step("channel.open", (0, 2047)),
            step("connection.blocked", (0, 0), reason="no"),
            step("basic.get", (0, 0), queue="q1"),
        )
        return made

    def drop(self) -> Step:
        return {"do": "drop", "on": [self.dice.one(0, 1)]}

    def frames(self) -> Step:
        return {"do": "frames", "on": list(self.on()), "frames": self.dice.of(broken.FRAMES)}
