"""Kill a broker at random moments, start it on the same data, and ask the model what should be there."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

from pamqp import commands as spec

from tests.crash.client import ChannelClosed, Client, Delivery, look_at, publish_frames
from tests.crash.model import SAFE, Model, Text
from tests.crash.workers import (
    DRAINED,
    FANOUT,
    KINDS,
    LEAVING,
    LETTERS,
    QUIET,
    SHARED,
    SINGLE,
    TOPOLOGY,
    VOLATILE,
    Definer,
    Drainer,
    Publisher,
    Sprinkler,
    Taker,
    Transactor,
    Worker,
)
from tools.brokers import EmberBroker

LIVES = 6
LIFE_SECONDS_MAX = 0.7
WORKER_SECONDS_MAX = 55.0
DEEP_COUNT = 36_000  # more than a queue keeps in memory (broker/queue/level.py, WINDOW_COUNT)
MANDATORY_IMMEDIATE = 3
NO_ROUTE = 312
KEPT = tuple(dict.fromkeys([*SHARED, DRAINED, *SINGLE, *KINDS, LETTERS, *QUIET]))  # always there


class History:
    """One data directory through several lives of a broker."""

    def __init__(self, directory: Path, seed: int, broker: EmberBroker | None = None) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.broker = broker or EmberBroker(directory / "data")
        self.model = Model(KINDS)
        self.life = 0
        self.killed = False

    def close(self) -> None:
        self.broker.close()

    def run(self) -> int:
        """Several lives, the last of which ends well; how much was found safe after their ends."""
        self.begin()
        if self.seed % 4 == 2:
            self.fill_deep()
        found = 0
        for _ in range(LIVES):
            self.live_and_die()
            self.rise()
            self.compare()
            found += self.safe_count()
        self.stop()
        self.broker.start()
        self.compare()
        return found

    def begin(self) -> None:
        """The first start, and what all workers rely on."""
        self.broker.start()
        client = Client(self.broker.port)
        client.call(spec.Exchange.Declare(exchange=FANOUT, exchange_type="fanout", durable=True))
        client.call(spec.Exchange.Declare(exchange=TOPOLOGY, exchange_type="direct", durable=True))
        for queue in KEPT:
            arguments = self.model.kind(queue).declared()
            client.call(spec.Queue.Declare(queue=queue, durable=True, arguments=arguments))
            self.model.define("queue", queue, there=True)
        for queue in (*SHARED, DRAINED):
            client.call(spec.Queue.Bind(queue=queue, exchange=FANOUT, routing_key=""))
        for queue in VOLATILE:
            self.model.define("queue", queue, there=False)
            self.model.define("binding", queue, there=False)
        client.close()

    def fill_deep(self) -> None:
        """More messages than fit in memory, some transient: the queue pages from here on."""
        texts = [Text("filler", number, number % 7 != 0, None) for number in range(1, DEEP_COUNT)]
        client = Client(self.broker.port)
        confirmed = 0

        def on_confirm(tag: int, multiple: bool) -> None:
            nonlocal confirmed
            confirmed = tag

        client.on_confirm = on_confirm
        client.call(spec.Confirm.Select())
        self.model.publishing(texts, ["crash.deep"])
        client.send_bytes(
            b"".join(publish_frames("", "crash.deep", t.body(20), t.persistent, t.priority) for t in texts)
        )
        while confirmed < len(texts):
            client.next()
        self.model.published(texts, ["crash.deep"])
        client.close()

    def live_and_die(self) -> None:
        """One life: everybody works, then the broker is killed (now and then only stopped)."""
        self.life += 1
        workers = [self.worker(kind, at) for at, kind in enumerate(self.staff())]
        for worker in workers:
            worker.start()
        if self.life == 1:
            self.wait_for_work()
        time.sleep(self.chance.uniform(0, LIFE_SECONDS_MAX))
        self.killed = self.chance.random() > 0.12
        if self.killed:
            self.broker.kill()
        else:
            self.stop()
        for worker in workers:
            worker.join(WORKER_SECONDS_MAX)
            assert worker.ended, f"{worker.name} does not end"

    def wait_for_work(self) -> None:
        """A machine may be too busy to get anything done within a life: let something be confirmed."""
        deadline = time.monotonic() + WORKER_SECONDS_MAX
        while time.monotonic() < deadline:
            with self.model.lock:
                if self.safe_count():
                    return
            time.sleep(0.005)

    def stop(self) -> None:
        self.killed = False
        assert self.broker.stop() == 0

    def staff(self) -> list[type[Worker]]:
        takers = self.chance.randint(0, 3)
        return [
            Publisher,
            *self.chance.choice([[], [Publisher]]),
            Transactor,
            Definer,
            Sprinkler,
            *[Taker] * takers,
            *self.chance.choice([[], [Drainer]]),
        ]

    def worker(self, kind: type[Worker], at: int) -> Worker:
        name = f"{kind.__name__}{at}-{self.life}"
        return kind(name, self.broker.port, self.model, random.Random(self.chance.random()))

    def rise(self) -> None:
        """Start again; now and then the broker is killed while it recovers, too."""
        while self.chance.random() < 0.15:
            self.killed = True
            with self.broker.log_path.open("ab") as log:
                process = subprocess.Popen(self.broker.command(), stdout=subprocess.DEVNULL, stderr=log)
                time.sleep(self.chance.uniform(0.1, 0.6))
                process.kill()
                process.wait()
        self.broker.start()

    def compare(self) -> None:
        """Look at everything and leave it as it is: what is not acked goes back when the connection ends."""
        for queue in VOLATILE:
            self.model.check_definition(("binding", queue), self.is_bound(queue))
        for queue in (*KEPT, *VOLATILE):
            self.model.check_definition(("queue", queue), queue_exists(self.broker.port, queue))
        # First of all what grows old while we look.
        client = Client(self.broker.port)
        contents = look_at(client, (*LEAVING, *QUIET))
        for queue in (LETTERS, *SHARED, DRAINED, *SINGLE, *VOLATILE):
            if self.model.definitions["queue", queue]:
                contents[queue] = self.content_of(queue)
        client.close()
        self.model.check_queues(contents, after_crash=self.killed)
        damage = [line for line in self.broker.log_tail().splitlines() if "damaged" in line]
        if damage:
            self.model.fail(f"a kill is no reason for damage: {damage}")
        assert not self.model.failures, self.report()

    def content_of(self, queue: str) -> list[Delivery]:
        client = Client(self.broker.port)
        count = client.call(spec.Queue.Declare(queue=queue, passive=True)).message_count
        found: list[Delivery] = []
        client.on_delivery = found.append
        client.call(spec.Basic.Consume(queue=queue))
        while len(found) < count:
            client.next()
        client.call(spec.Basic.Qos(prefetch_count=0))  # and not one more
        client.close()
        # The connection's end is no answer; a queue that is complete again is.
        other = Client(self.broker.port)
        while other.call(spec.Queue.Declare(queue=queue, passive=True)).message_count < count:
            time.sleep(0.002)
        other.close()
        return found

    def is_bound(self, queue: str) -> bool:
        """Ask by a message that nobody can take: unbound and unwanted come back with different codes."""
        client = Client(self.broker.port)
        client.send_bytes(publish_frames(TOPOLOGY, queue, b"?", False, None, MANDATORY_IMMEDIATE))
        returned = client.wait(spec.Basic.Return)
        client.close()
        return bool(returned.reply_code != NO_ROUTE)

    def safe_count(self) -> int:
        return sum(copy.state == SAFE for copies in self.model.queues.values() for copy in copies.values())

    def report(self) -> str:
        shown = "\n  ".join(self.model.failures[:12])
        more = f"\n  and {len(self.model.failures) - 12} more" if len(self.model.failures) > 12 else ""
        return (
            f"life {self.life} of seed {self.seed} (again: pytest tests/crash --crash-seed {self.seed}):\n"
            f"  {shown}{more}\n--- the broker's log ---\n{self.broker.log_tail()}"
        )


def queue_exists(port: int, queue: str) -> bool:
    client = Client(port)
    try:
        client.call(spec.Queue.Declare(queue=queue, passive=True))
        return True
    except ChannelClosed as error:
        if "NOT_FOUND" in str(error):
            return False
        raise
    finally:
        client.close()
