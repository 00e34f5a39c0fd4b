"""The clients of a broker that is about to be killed: threads, each with its connection and its seed.

A worker tells the model what it is about to do, does it, and tells it again when the broker has answered. It
ends when the broker does.
"""

from __future__ import annotations

import random
import threading
import traceback

from pamqp import commands as spec

from tests.crash.client import Client, Delivery, Lost, publish_frames
from tests.crash.model import Kind, Model, Text

FANOUT = "crash.fanout"
SHARED = ("crash.a", "crash.b", "crash.c")  # bound to the fanout; everybody publishes and consumes here
DRAINED = "crash.drained"  # bound to the fanout as well; consumed with automatic acknowledgement
LETTERS = "crash.letters"
KINDS = {
    "crash.limited": Kind(letters=LETTERS, length_max=50),
    "crash.short": Kind(length_max=100),
    "crash.old": Kind(letters=LETTERS, arguments=(("x-message-ttl", 150),)),
    "crash.returned": Kind(letters=LETTERS, arguments=(("x-delivery-limit", 2),)),
    "crash.priority": Kind(priority_max=3),
    "crash.mixed": Kind(
        letters=LETTERS,
        priority_max=3,
        length_max=60,
        arguments=(("x-message-ttl", 300), ("x-delivery-limit", 2)),
    ),
}
# Messages leave these by themselves.
LEAVING = ("crash.limited", "crash.short", "crash.old", "crash.returned", "crash.mixed")
SINGLE = ("crash.d", "crash.deep", "crash.priority")
TAKEN = (*SHARED, *SINGLE, "crash.limited", "crash.old", "crash.returned", "crash.mixed", LETTERS)
QUIET = tuple(f"crash.quiet.{number}" for number in range(40))  # the sprinkler's alone
VOLATILE = ("crash.volatile.1", "crash.volatile.2")  # declared, purged and deleted by the definer alone
TOPOLOGY = "crash.topology"
BATCH_MAX = 120
UNCONFIRMED_MAX = 2_000


class Worker(threading.Thread):
    """`run` is the same for all: work until the broker is gone, and remember what should not have been."""

    def __init__(self, name: str, port: int, model: Model, chance: random.Random) -> None:
        super().__init__(name=name, daemon=True)
        self.port, self.model, self.chance = port, model, chance
        self.ended = False
        self.number = 0

    def run(self) -> None:
        client: Client | None = None
        try:
            client = Client(self.port)
            self.work(client)
        except Lost:
            pass
        except Exception:
            self.model.fail(f"{self.name}: {traceback.format_exc()}")
        finally:
            self.ended = True
            if client is not None:
                client.close()

    def work(self, client: Client) -> None:
        raise NotImplementedError

    def text(self, queue: str) -> Text:
        self.number += 1
        priority = self.chance.choice([None, None, None, 0, 1, 4, 5, 9])
        # What is transient takes room in a queue with a limit, and has vanished from it later.
        persistent = self.model.kind(queue).length_max is not None or self.chance.random() < 0.85
        return Text(self.name, self.number, persistent, priority)

    def target(self) -> tuple[str, str, tuple[str, ...]]:
        """Exchange, routing key, and the queues that this leads to."""
        if self.chance.random() < 0.4:
            return FANOUT, "", (*SHARED, DRAINED)
        queue = self.chance.choice([*SHARED, *SINGLE, *KINDS, DRAINED])
        return "", queue, (queue,)

    def frames(self, text: Text, exchange: str, routing_key: str) -> bytes:
        padding = self.chance.choice([0, 10, 100, 100, 1000, 5000])
        if self.chance.random() < 0.003:
            padding = 300_000
        return publish_frames(exchange, routing_key, text.body(padding), text.persistent, text.priority)


class Publisher(Worker):
    """Publishes with confirms, in batches; many are under way at a time."""

    def work(self, client: Client) -> None:
        self.waiting: dict[int, tuple[Text, tuple[str, ...]]] = {}
        self.confirmed_up_to = 0
        client.on_confirm = self.on_confirm
        client.call(spec.Confirm.Select())
        tag = 0
        while True:
            data = []
            for _ in range(self.chance.randint(1, BATCH_MAX)):
                exchange, routing_key, queues = self.target()
                text = self.text(routing_key)
                tag += 1
                self.model.publishing([text], queues)
                self.waiting[tag] = text, queues
                data.append(self.frames(text, exchange, routing_key))
            client.send_bytes(b"".join(data))
            wanted = self.chance.choice([0, 0, UNCONFIRMED_MAX // 10, UNCONFIRMED_MAX])
            while len(self.waiting) > wanted:
                client.next()

    def on_confirm(self, tag: int, multiple: bool) -> None:
        tags = [known for known in self.waiting if known <= tag] if multiple else [tag]
        for known in tags:
            text, queues = self.waiting.pop(known)
            self.model.published([text], queues)


class Transactor(Worker):
    """Publishes and acknowledges in transactions; some are rolled back, some never committed."""

    def work(self, client: Client) -> None:
        client.call(spec.Tx.Select())
        while True:
            sent: list[tuple[Text, tuple[str, ...]]] = []
            data = []
            for _ in range(self.chance.randint(0, 30)):
                exchange, routing_key, queues = self.target()
                text = self.text(routing_key)
                sent.append((text, queues))
                data.append(self.frames(text, exchange, routing_key))
            client.send_bytes(b"".join(data))
            queue = self.chance.choice(TAKEN)
            taken: list[tuple[str, int]] = []
            for _ in range(self.chance.randint(0, 10)):
                got = client.call_get(queue)
                if got is None:
                    break
                taken.append((self.model.delivered(queue, got), got.tag))
            if taken and self.chance.random() < 0.5:
                client.send(spec.Basic.Ack(taken[-1][1], True))
            else:
                client.send(*[spec.Basic.Ack(tag, False) for _, tag in taken])
            if self.chance.random() < 0.2:
                client.call(spec.Tx.Rollback())
                client.send(spec.Basic.Nack(0, True, True))  # they are ours again: give them back
                client.call(spec.Tx.Commit())
                continue
            keys = [key for key, _ in taken]
            # Not before: until the commit is sent nothing of all this may be seen by anybody.
            for text, queues in sent:
                self.model.publishing([text], queues)
            self.model.leaving(queue, keys)
            client.call(spec.Tx.Commit())
            for text, queues in sent:
                self.model.published([text], queues)
            self.model.gone(queue, keys)


class Taker(Worker):
    """Consumes and acknowledges one by one or many at once, gives back, keeps some."""

    def work(self, client: Client) -> None:
        self.queue = self.chance.choice(TAKEN)
        self.held: dict[int, str] = {}
        client.on_delivery = self.on_delivery
        client.call(spec.Basic.Qos(prefetch_count=self.chance.choice([1, 20, 300])))
        client.call(spec.Basic.Consume(queue=self.queue))
        while True:
            client.next()
            if self.held and self.chance.random() < 0.2:
                self.settle(client)

    def on_delivery(self, delivery: Delivery) -> None:
        self.held[delivery.tag] = self.model.delivered(self.queue, delivery)

    def settle(self, client: Client) -> None:
        tag = self.chance.choice(list(self.held))
        many = [known for known in self.held if known <= tag]
        choice = self.chance.random()
        if self.queue in ("crash.returned", "crash.mixed") and choice < 0.6:
            choice /= 2  # what comes back too often is what these queues are about
        if choice < 0.15:
            del self.held[tag]
            client.send(spec.Basic.Reject(tag, True))
        elif choice < 0.3:
            for known in many:
                del self.held[known]
            client.send(spec.Basic.Nack(tag, True, True))
        elif choice < 0.4 and self.model.kind(self.queue).letters is not None:
            del self.held[tag]
            client.send(spec.Basic.Reject(tag, False))  # it must be here, or among the letters
        else:
            multiple = choice < 0.7
            keys = [self.held.pop(known) for known in (many if multiple else [tag])]
            self.model.leaving(self.queue, keys)
            client.send(spec.Basic.Ack(tag, multiple))
            if self.chance.random() < 0.7:
                client.call(spec.Basic.Qos(prefetch_count=100))
                self.model.gone(self.queue, keys)


class Drainer(Worker):
    """Consumes with automatic acknowledgement: what it gets may never have been written."""

    def work(self, client: Client) -> None:
        client.on_delivery = self.on_delivery
        self.model.draining(DRAINED)
        client.call(spec.Basic.Consume(queue=DRAINED, no_ack=True))
        while True:
            client.next()

    def on_delivery(self, delivery: Delivery) -> None:
        self.model.gone(DRAINED, [self.model.delivered(DRAINED, delivery)])


class CarefulPublisher(Worker):
    """Waits for the confirms of what it has published before it does something else."""

    def select(self, client: Client) -> None:
        self.confirmed = 0
        self.sent = 0
        client.on_confirm = self.on_confirm
        client.call(spec.Confirm.Select())

    def on_confirm(self, tag: int, multiple: bool) -> None:
        self.confirmed = max(self.confirmed, tag)

    def wait_confirms(self, client: Client) -> None:
        while self.confirmed < self.sent:
            client.next()

    def purge(self, client: Client, queue: str) -> None:
        keys = self.model.keys(queue)
        self.model.leaving(queue, keys)
        client.call(spec.Queue.Purge(queue=queue))
        self.model.gone(queue, keys)


class Sprinkler(CarefulPublisher):
    """One message here, one there: nothing that comes later makes up for a write that was forgotten."""

    def work(self, client: Client) -> None:
        self.select(client)
        while True:
            queues = self.chance.sample(QUIET, self.chance.randint(1, len(QUIET)))
            texts = [self.text(queue) for queue in queues]
            for text, queue in zip(texts, queues, strict=True):
                self.model.publishing([text], [queue])
            client.send_bytes(
                b"".join(self.frames(text, "", queue) for text, queue in zip(texts, queues, strict=True))
            )
            self.sent += len(texts)
            self.wait_confirms(client)
            for text, queue in zip(texts, queues, strict=True):
                self.model.published([text], [queue])
            for queue in self.chance.sample(QUIET, 8):
                self.take_some(client, queue)
            self.purge(client, self.chance.choice(QUIET))
            if self.chance.random() < 0.3:
                self.idle(client)

    def take_some(self, client: Client, queue: str) -> None:
        for _ in range(self.chance.randint(1, 5)):
            got = client.call_get(queue)
            if got is None:
                return
            key = self.model.delivered(queue, got, in_order=True)
            if self.chance.random() < 0.3:
                self.model.given_back(queue, [key])
                client.send(spec.Basic.Reject(got.tag, True))
                continue
            self.model.leaving(queue, [key])
            client.send(spec.Basic.Ack(got.tag, False))
            client.call(spec.Basic.Qos(prefetch_count=100))
            self.model.gone(queue, [key])

    def idle(self, client: Client) -> None:
        """A good moment for a kill: nothing is under way in any of these queues."""
        for _ in range(self.chance.randint(1, 200)):
            client.call(spec.Basic.Qos(prefetch_count=100))


class Definer(CarefulPublisher):
    """Declares, binds, purges and deletes; publishes a little in between, with confirms."""

    def work(self, client: Client) -> None:
        self.select(client)
        while True:
            queue = self.chance.choice(VOLATILE)
            there = self.model.definitions[("queue", queue)]
            action = self.chance.choice([self.fill, self.fill, self.purge, self.delete, self.bind])
            (action if there else self.declare)(client, queue)

    def declare(self, client: Client, queue: str) -> None:
        self.model.define("queue", queue, there=None)
        client.call(spec.Queue.Declare(queue=queue, durable=True))
        self.model.define("queue", queue, there=True)

    def fill(self, client: Client, queue: str) -> None:
        texts = [self.text(queue) for _ in range(self.chance.randint(1, 40))]
        self.model.publishing(texts, [queue])
        client.send_bytes(b"".join(self.frames(text, "", queue) for text in texts))
        self.sent += len(texts)
        self.wait_confirms(client)
        self.model.published(texts, [queue])

    def delete(self, client: Client, queue: str) -> None:
        keys = self.model.keys(queue)
        self.model.leaving(queue, keys)
        self.model.define("queue", queue, there=None)
        self.model.define("binding", queue, there=None)
        client.call(spec.Queue.Delete(queue=queue))
        self.model.define("queue", queue, there=False)
        self.model.define("binding", queue, there=False)
        self.model.gone(queue, keys)

    def bind(self, client: Client, queue: str) -> None:
        bound = self.model.definitions[("binding", queue)]
        self.model.define("binding", queue, there=None)
        request = spec.Queue.Unbind if bound else spec.Queue.Bind
        client.call(request(queue=queue, exchange=TOPOLOGY, routing_key=queue))
        self.model.define("binding", queue, there=not bound)
