"""Broker kills, signals, forks, cancellations and threads at once: every message is accounted for.

What was confirmed comes; what comes was published. Each history has its own schedule: when the broker is
killed and how long it stays away, when the process forks, when signals and cancellations come. `--cycles N`
makes more histories (24 is the ordinary run, of two; `make soak` has 300), `--crash-seed S` repeats the
choices of one, and `-s` shows what happened. RabbitMQ needs seconds to start again: it has fewer of them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from embermq.client import ClientError, Connection, Consumer, Message, Properties, connect, connect_async
from tests.support.interrupts import interrupted, interrupts
from tools.brokers import Broker, EmberBroker, RabbitBroker

PATIENCE_S = 60.0
LIFE_S = (0.2, 1.2)  # between two kills
AWAY_S_MAX = 0.5  # how long the broker is not there
PERSISTENT = Properties(delivery_mode=2)
QUEUE = "chaos"


class Books:
    """Which messages were tried, confirmed and seen. Sets of numbers: each change is one call into C."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.numbers = itertools.count()
        self.tried: set[int] = set()
        self.confirmed: set[int] = set()
        self.seen: set[int] = set()
        self.over = threading.Event()
        self.failures: list[BaseException] = []

    def next_body(self) -> bytes:
        number = next(self.numbers)
        self.tried.add(number)
        return b"%d" % number

    def take(self, message: Message) -> None:
        self.seen.add(int(message.body))
        message.ack()

    def connect(self) -> Connection:
        return connect(self.url, call_timeout_s=PATIENCE_S, reconnect_delay_s=0.05, reconnect_delay_max_s=0.2)


def publish_in_thread(books: Books, connection: Connection) -> None:
    channel = connection.channel()
    while not books.over.is_set():
        body = books.next_body()
        channel.publish(body, QUEUE, properties=PERSISTENT)
        books.confirmed.add(int(body))
        batch = [books.next_body() for _ in range(20)]
        channel.publish_batch(batch, QUEUE, properties=PERSISTENT)
        books.confirmed.update(map(int, batch))


def consume_in_thread(books: Books, consumer: Consumer) -> None:
    while not books.over.is_set():
        for message in consumer.fetch(10, 0.05):
            books.take(message)


def use_with_cancellations(books: Books, chance: random.Random) -> None:
    async def one(channel: object, body: bytes) -> None:
        await channel.publish(body, QUEUE, properties=PERSISTENT)  # type: ignore[attr-defined]
        books.confirmed.add(int(body))

    async def run() -> None:
        connection = await connect_async(books.url, call_timeout_s=PATIENCE_S, reconnect_delay_s=0.05)
        async with connection:
            channel = await connection.channel(prefetch=20)
            while not books.over.is_set():
                wait_s = chance.uniform(0, 0.01)
                with suppress(TimeoutError, ClientError):
                    await asyncio.wait_for(one(channel, books.next_body()), wait_s)
                with suppress(TimeoutError, ClientError):
                    message = await asyncio.wait_for(channel.get(QUEUE), wait_s)
                    if message is not None:
                        books.take(message)
                with suppress(TimeoutError, ClientError):
                    async with asyncio.timeout(wait_s), await channel.consume(QUEUE) as consumer:
                        async for message in consumer:
                            books.take(message)

    asyncio.run(run())


def fork_and_try(connection: Connection) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            connection.channel()
        except ClientError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def guarded(books: Books, function: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        try:
            function()
        except BaseException as failure:
            books.failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def take_the_rest(books: Books, connection: Connection) -> None:
    """Take what is left in the queue."""
    with connection.channel() as channel, channel.consume(QUEUE, timeout_s=2) as rest:
        for message in rest:
            books.take(message)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    only, cycles = metafunc.config.getoption("--crash-seed"), metafunc.config.getoption("--cycles")
    seeds = [only] if only else range(1, max(2, cycles // 12) + 1)
    slow_seeds = [only] if only else range(1, max(1, cycles // 60) + 1)
    marks = [
        pytest.mark.once("RabbitMQ takes long to start"),
        pytest.mark.skipif(not RabbitBroker.installed(), reason="rabbitmq-server is not installed"),
    ]
    lives = [pytest.param(EmberBroker, 2, seed, id=f"embermq-{seed}") for seed in seeds]
    lives += [pytest.param(RabbitBroker, 1, seed, id=f"rabbitmq-{seed}", marks=marks) for seed in slow_seeds]
    metafunc.parametrize(("start", "kills", "seed"), lives)


def test_every_message_is_accounted_for(start: Callable[[], Broker], kills: int, seed: int) -> None:
    chance = random.Random(seed)
    interruptions = forks = 0
    with start() as broker:
        books = Books(broker.url)
        with books.connect() as connection, connection.channel(prefetch=50) as channel:
            channel.queue_declare(QUEUE, durable=True)
            shared = channel.consume(QUEUE)
            threads = [
                guarded(books, lambda: publish_in_thread(books, connection)),
                guarded(books, lambda: publish_in_thread(books, connection)),
                guarded(books, lambda: consume_in_thread(books, shared)),
                guarded(books, lambda: consume_in_thread(books, shared)),
                guarded(books, lambda: use_with_cancellations(books, chance)),
            ]
            with interrupts() as alarm:
                kept: list[Message] = []

                def work() -> None:
                    while not books.over.is_set():
                        for message in kept:
                            books.take(message)
                        kept.clear()
                        kept.extend(shared.fetch(5, 0.05))

                for _ in range(kills):
                    now_s = time.monotonic()
                    kill_at_s = now_s + chance.uniform(*LIFE_S)
                    fork_at_s = chance.uniform(now_s, kill_at_s)
                    while time.monotonic() < kill_at_s:
                        interruptions += interrupted(alarm, chance.uniform(0.0001, 0.01), work)
                        if time.monotonic() > fork_at_s:
                            fork_and_try(connection)
                            forks += 1
                            fork_at_s = kill_at_s
                    broker.kill()
                    interruptions += interrupted(alarm, chance.uniform(0.001, AWAY_S_MAX), work)
                    if chance.random() < 0.5:
                        fork_and_try(connection)  # while there is no connection
                        forks += 1
                    broker.start()
            for message in kept:
                books.take(message)
            books.over.set()
            for thread in threads:
                thread.join(PATIENCE_S)
                assert not thread.is_alive()
            assert not books.failures
            shared.cancel()
            take_the_rest(books, connection)
        print(
            f"{broker.name} {seed}: {kills} kills, {forks} forks, {interruptions} signals, "
            f"{len(books.tried)} tried, {len(books.confirmed)} confirmed, {len(books.seen)} seen"
        )
        assert not books.confirmed - books.seen, "confirmed and never seen"
        assert not books.seen - books.tried, "seen and never published"
        assert books.confirmed
