"""Thousands of deliveries come back, are settled or die while a broker is killed: each is somewhere, once.

Greedy consumers hold most of a queue and do with it, many at a time, whatever a client can do; others work
with the same queue meanwhile. The queue has letters for all that it lets go of (rejected, expired, too many,
given back too often), so a message that nobody acknowledged is in the queue or among the letters, and not in
both unless it was just on its way at the kill.

`--cycles N` says how often brokers are killed, `--crash-seed S` repeats one history.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from pamqp import commands as spec
from pamqp import frame as codec
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from tests.crash.client import CHANNEL, Client, Delivery, Lost, publish_frames
from tests.support.management import Management
from tools.brokers import EmberBroker

QUEUE, LETTERS = "giving-back", "giving-back.letters"
CYCLES = 24  # as many as there are unless somebody asks for more
LIVES = 2
STEPS = 10
DEEP_COUNT = 40_000  # messages at most: more than a queue keeps in memory
DEEP_EVERY = 4  # one history in so many is deep; the others have
SHALLOW_COUNT = 9_000  # more than blocks of deliveries, and than what is done at once
ARGUMENTS: tuple[dict[str, object], ...] = (
    {},
    {"x-queue-type": "quorum", "x-delivery-limit": 3},
    {"x-max-priority": 4},
    {"x-single-active-consumer": True},
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--crash-seed")
        histories = max(1, metafunc.config.getoption("--cycles") // CYCLES)
        metafunc.parametrize("seed", range(1, histories + 1) if only is None else [only])
    if "kind" in metafunc.fixturenames:
        more = metafunc.config.getoption("--cycles") > CYCLES
        metafunc.parametrize("kind", ["classic", "quorum"] if more else ["quorum"])


class Greedy:
    """A consumer, and what it holds in the order of its tags."""

    def __init__(self, history: History, chance: random.Random) -> None:
        self.history, self.chance = history, chance
        self.client = Client(history.broker.port)
        self.client.on_delivery = self.on_delivery
        self.held: dict[int, int] = {}
        self.transactional = chance.random() < 0.25
        if self.transactional:
            self.client.call(spec.Tx.Select())
        self.consumes = False
        self.consume()

    def on_delivery(self, delivery: Delivery) -> None:
        number = int(delivery.body)
        self.history.delivered(number, delivery.redelivered)
        self.held[delivery.tag] = number

    def consume(self) -> None:
        """Now with this prefetch, now with another."""
        self.cancel()
        self.client.call(spec.Basic.Qos(prefetch_count=self.chance.choice([0, 0, 1, 3000, 20_000])))
        self.client.call(spec.Basic.Consume(queue=QUEUE, consumer_tag="greedy"))
        self.consumes = True

    def cancel(self) -> None:
        if self.consumes:
            self.client.call(spec.Basic.Cancel(consumer_tag="greedy"))
            self.consumes = False

    def hear(self) -> None:
        """All that the broker has sent by now, and has done by now."""
        self.client.call(spec.Basic.Qos(prefetch_count=0))

    def settle(self) -> None:
        """Something about much of what is held; often the next thing happens before it is done."""
        if not self.held:
            return
        chance = self.chance
        tag = chance.choice(list(self.held))
        meant = [known for known in self.held if known <= tag]
        kept = dict(self.held)
        methods: list[spec.Frame] = []
        acked: list[int] = []
        choice = chance.random()
        if choice < 0.25:
            acked = [self.held.pop(known) for known in meant]
            methods = [spec.Basic.Ack(tag, True)]
        elif choice < 0.45:
            if chance.random() < 0.3:
                self.cancel()  # so that nothing is on its way which we do not know of
                tag, meant = 0, list(self.held)
            for known in meant:
                del self.held[known]
            methods = [spec.Basic.Nack(tag, True, True)]
        elif choice < 0.6:
            for known in meant:
                del self.held[known]
            methods = [spec.Basic.Nack(tag, True, False)]
        elif choice < 0.85:
            some = chance.sample(list(self.held), min(len(self.held), 3000))
            for known in some:
                del self.held[known]
            methods = [spec.Basic.Reject(known, known % 3 > 0) for known in some]
        elif not self.transactional:
            self.client.call(spec.Basic.Recover(requeue=chance.random() < 0.7))
            self.held.clear()
            return
        if self.transactional and chance.random() < 0.3:
            self.history.send(self.client, [*methods, spec.Tx.Rollback()])
            self.client.wait(spec.Tx.RollbackOk)
            self.held = dict(sorted({**kept, **self.held}.items()))
            return
        self.history.leaving(acked)
        if self.transactional:
            methods.append(spec.Tx.Commit())
        self.history.send(self.client, methods)
        if self.transactional:
            self.client.wait(spec.Tx.CommitOk)
        if chance.random() < 0.6:
            self.hear()
            self.history.gone(acked)

    def leave(self) -> None:
        if self.chance.random() < 0.5:
            self.client.call(spec.Channel.Close(200, "", 0, 0))
        self.client.close()
        self.held.clear()


class History:
    """One queue through several lives of a broker."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = EmberBroker(directory / "data")
        self.count_max = DEEP_COUNT if seed % DEEP_EVERY == 0 else SHALLOW_COUNT
        self.arguments = ARGUMENTS[seed // DEEP_EVERY % len(ARGUMENTS)]
        self.prioritised = "x-max-priority" in self.arguments
        self.published = 0
        self.unsure: set[int] = set()  # published but not confirmed: may be there
        self.alive: set[int] = set()  # confirmed, not acknowledged: must be there
        self.parting: set[int] = set()  # acknowledged, and the broker has not said more since
        self.seen: set[int] = set()  # delivered to anybody
        self.letters: set[int] = set()
        self.on_their_way: set[int] = set()  # when the broker was killed

    # -- the model

    def delivered(self, number: int, redelivered: bool) -> None:
        assert number in self.alive or number in self.unsure, f"{number} is back"
        assert redelivered or number not in self.seen, f"{number} was delivered before"
        self.seen.add(number)

    def leaving(self, numbers: Iterable[int]) -> None:
        self.parting.update(numbers)
        self.alive.difference_update(numbers)
        self.unsure.difference_update(numbers)

    def gone(self, numbers: Iterable[int]) -> None:
        self.parting.difference_update(numbers)

    def send(self, client: Client, methods: Iterable[spec.Frame]) -> None:
        client.send_bytes(b"".join(codec.marshal(method, CHANNEL) for method in methods))

    # -- one life

    def run(self) -> None:
        self.begin()
        for life in range(LIVES):
            self.live_and_end(killed=life < LIVES - 1 or self.chance.random() < 0.5)

    def begin(self) -> None:
        self.broker.start()
        client = Client(self.broker.port)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": LETTERS, **self.arguments}
        client.call(spec.Queue.Declare(queue=QUEUE, durable=True, arguments=arguments))
        client.call(spec.Queue.Declare(queue=LETTERS, durable=True))
        client.close()

    def live_and_end(self, killed: bool) -> None:
        try:
            self.live()
        except Lost:
            raise AssertionError(f"the broker is gone: {self.broker.log_tail()}") from None
        if killed:
            self.broker.kill()
        else:
            assert self.broker.stop() == 0
        self.broker.start()
        self.compare(killed)
        log = self.broker.log_path.read_text(errors="replace")
        assert "fault of ours" not in log and "damaged" not in log, log[-3000:]

    def live(self) -> None:
        chance = self.chance
        self.publish(chance.randint(self.count_max // 2, self.count_max))
        greedy = [Greedy(self, chance) for _ in range(chance.randint(1, 3))]
        for one in greedy:
            one.hear()
        for _ in range(STEPS):
            one = chance.choice(greedy)
            step = chance.random()
            if step < 0.5:
                one.settle()
            elif step < 0.6:
                one.leave()
                greedy[greedy.index(one)] = Greedy(self, chance)
            elif step < 0.7:
                one.consume()
            elif step < 0.8:
                self.publish(chance.randint(1, 2000))
            elif step < 0.9:
                self.limit()
            else:
                one.hear()
        if chance.random() < 0.7:  # the kill comes in the middle of this
            for one in greedy:
                if chance.random() < 0.5:
                    one.settle()
                else:
                    one.client.close()
            time.sleep(chance.uniform(0, 0.05))
        for one in greedy:
            one.client.close()

    def publish(self, count: int) -> None:
        """Some expire soon, some are urgent; all are confirmed in the end."""
        client = Client(self.broker.port)
        confirmed = 0

        def on_confirm(tag: int, multiple: bool) -> None:
            nonlocal confirmed
            confirmed = max(confirmed, tag)

        client.on_confirm = on_confirm
        client.call(spec.Confirm.Select())
        numbers = range(self.published, self.published + count)
        self.published += count
        self.unsure.update(numbers)
        client.send_bytes(b"".join(map(self.frames, numbers)))
        while confirmed < count:
            client.next()
        client.close()
        here = self.unsure.intersection(numbers)  # others may have been acknowledged by now
        self.unsure.difference_update(here)
        self.alive.update(here)

    def frames(self, number: int) -> bytes:
        body = b"%d" % number
        if number % 50 != 7:
            return publish_frames("", QUEUE, body, True, self.priority(number))
        soon = str(number % 400 + 1)
        properties = spec.Basic.Properties(delivery_mode=2, expiration=soon, priority=self.priority(number))
        frames = (
            spec.Basic.Publish(routing_key=QUEUE),
            ContentHeader(body_size=len(body), properties=properties),
            ContentBody(body),
        )
        return b"".join(codec.marshal(each, CHANNEL) for each in frames)

    def priority(self, number: int) -> int:
        return number // 1000 % 5 if self.prioritised else 0

    def limit(self) -> None:
        """For a moment the queue may have fewer ready messages than it has."""
        management = Management(self.broker)
        management.set_policy("short", f"^{QUEUE}$", max_length=self.chance.randint(1, self.count_max))
        if self.chance.random() < 0.7:
            management.ask("DELETE", "policies/%2F/short")

    # -- what is there

    def compare(self, killed: bool) -> None:
        Management(self.broker).ask("DELETE", "policies/%2F/short")
        holder, other = Client(self.broker.port), Client(self.broker.port)
        found, letters = self.content_of(QUEUE, holder), self.content_of(LETTERS, other)
        ready, dead = [int(delivery.body) for delivery in found], [int(delivery.body) for delivery in letters]
        assert ready == sorted(ready, key=lambda number: (-self.priority(number), number)), "out of order"
        assert len(ready) == len(set(ready)), "twice in the queue"
        both = set(ready) & set(dead)
        twice = both | {number for number, count in Counter(dead).items() if count > 1}  # died again since
        assert killed or twice <= self.on_their_way, f"twice: {sorted(twice - self.on_their_way)[:9]}"
        self.on_their_way |= twice
        marked = {int(delivery.body) for delivery in found if delivery.redelivered}
        unmarked = (self.seen | both) & set(ready) - marked
        assert not unmarked, f"delivered before, not marked: {sorted(unmarked)[:9]}"
        lost = (self.alive | self.letters) - {*ready, *dead}
        assert not lost, f"{len(lost)} lost of {len(self.alive)}: {sorted(lost)[:9]}"
        back = {*ready, *dead} - self.alive - self.unsure - self.parting - self.letters
        assert not back, f"{len(back)} are back: {sorted(back)[:9]}"
        self.seen.update(ready)
        self.letters, self.alive = set(dead), set(ready)
        self.parting, self.unsure = set(), set()
        for client, queue in ((other, LETTERS), (holder, QUEUE)):
            client.call(spec.Channel.Close(200, "", 0, 0))
            client.close()
            assert self.counts(queue)[1] == 0

    def content_of(self, queue: str, client: Client) -> list[Delivery]:
        """All of it, as the queue has it; it goes back when the client goes."""
        found: list[Delivery] = []
        client.on_delivery = found.append
        client.call(spec.Basic.Consume(queue=queue, consumer_tag="all"))
        while client.call(spec.Queue.Declare(queue=queue, passive=True)).message_count:
            pass
        client.call(spec.Basic.Cancel(consumer_tag="all"))
        assert self.counts(queue) == (0, len(found))
        return found

    def counts(self, queue: str) -> tuple[int, int]:
        listed = Management(self.broker).get(f"queues/%2F/{queue}")
        return listed["messages_ready"], listed["messages_unacknowledged"]


@pytest.mark.timeout(600)
@pytest.mark.once("it is about great numbers")
def test_every_message_is_somewhere_once(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    try:
        history.run()
    finally:
        history.broker.close()


def test_a_stop_in_the_middle_of_many_letters_leaves_none_of_them_twice(tmp_path: Path) -> None:
    history = History(tmp_path, 0)
    try:
        history.begin()
        history.publish(SHALLOW_COUNT)
        Management(history.broker).set_policy("short", f"^{QUEUE}$", max_length=1)
        assert history.broker.stop() == 0
        history.broker.start()
        history.compare(killed=False)
    finally:
        history.broker.close()


@pytest.mark.timeout(600)
@pytest.mark.once("it is about great numbers")
def test_a_kill_while_all_that_was_out_comes_back(
    tmp_path: Path, kind: str, pytestconfig: pytest.Config
) -> None:
    """Two consumers without a limit have everything, by turns, and go; the broker dies meanwhile."""
    cycles = pytestconfig.getoption("--cycles")
    count, kills = (SHALLOW_COUNT, 1) if cycles <= CYCLES else (300_000, cycles // 40 + 1)
    history = History(tmp_path, 0)
    history.arguments = {"x-queue-type": kind, "x-delivery-limit": -1}
    try:
        history.begin()
        history.publish(count)
        for _ in range(kills):
            takers = [Client(history.broker.port) for _ in range(2)]
            for taker in takers:
                taker.call(spec.Basic.Consume(queue=QUEUE))
            while takers[0].call(spec.Queue.Declare(queue=QUEUE, passive=True)).message_count:
                takers[1].call(spec.Basic.Qos(prefetch_count=0))
            for taker in takers:
                taker.close()
            time.sleep(history.chance.uniform(0, 0.15 * count / 300_000))
            history.broker.kill()
            history.broker.start()
            history.compare(killed=True)
            assert len(history.alive) + len(history.letters) == count  # some had a short time to live
    finally:
        history.broker.close()
