"""The blocking client under what a service does to it: floods, forks, signals, threads, oblivion."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import random
import threading
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from embermq.client import Channel, ConnectionClosed, Consumer, Message, connect, connect_async
from tests.support.interrupts import interrupted, interrupts
from tools.brokers import Broker

PATIENCE_S = 60


@pytest.fixture
def cycles(pytestconfig: pytest.Config) -> int:
    """One in an ordinary run."""
    return max(1, int(pytestconfig.getoption("--cycles")) // 24)


def drained(channel: Channel, queue: str) -> list[bytes]:
    """Everything that is left, taken."""
    found = []
    while message := channel.get(queue):
        found.append(message.body)
        message.ack()
    return found


# -- floods


@pytest.mark.parametrize("prefetch", [1000, None])
def test_confirms_are_read_however_much_is_delivered(ember: Broker, prefetch: int | None) -> None:
    """A loop that publishes a result for each message, with more than 32 MiB on their way to it."""
    with (
        connect(ember.url, call_timeout_s=20) as connection,
        connection.channel(prefetch=prefetch) as channel,
    ):
        channel.queue_declare("flood", exclusive=True)
        results = channel.queue_declare(exclusive=True).name
        channel.publish_batch([bytes(100_000)] * 500, "flood")
        with channel.consume("flood") as consumer:
            for count, message in enumerate(consumer, 1):
                channel.publish(b"done", results)
                message.ack()
                if count == 500:
                    break
        assert channel.queue_declare(results, passive=True).message_count == 500


def test_a_full_consumer_without_acks_holds_up_no_answer(ember: Broker) -> None:
    with connect(ember.url, call_timeout_s=20) as connection:
        channel, other = connection.channel(), connection.channel()
        queue = channel.queue_declare(exclusive=True).name
        channel.publish_batch([bytes(100_000)] * 600, queue)
        consumer = channel.consume(queue, no_ack=True)
        wait_until(lambda: connection.engine.congested is not None)
        other.publish(b"x", queue)
        other.queue_declare(exclusive=True)
        assert len(consumer.fetch_all(601, PATIENCE_S)) == 601
        consumer.cancel()


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


# -- forks


def in_child(function: Callable[[], None]) -> int:
    """The exit status of a fork that does it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_cannot_use_the_connection_and_the_parent_goes_on(ember: Broker) -> None:
    with connect(ember.url, call_timeout_s=20) as connection, connection.channel() as channel:
        queue = channel.queue_declare(exclusive=True).name
        channel.publish_batch([b"1", b"2", b"3"], queue)
        consumer = channel.consume(queue)
        message = next(consumer)

        def use() -> None:
            uses: list[Callable[[], object]] = [
                lambda: channel.publish(b"child", queue),
                lambda: channel.publish_soon(b"child", queue),
                lambda: channel.publish_batch([b"child"], queue),
                lambda: channel.get(queue),
                lambda: channel.queue_declare(exclusive=True),
                lambda: channel.consume(queue),
                lambda: connection.update_secret("x"),
                lambda: consumer.ack([message]),
                lambda: next(consumer),
                connection.channel,
                message.ack,
                message.nack,
                connection.flush,
            ]
            for number, attempt in enumerate(uses):
                with pytest.raises(ConnectionClosed, match="fork"):
                    attempt()
                    print("no error from use", number, flush=True)
            assert not connection.is_open
            assert connection.is_closed
            consumer.cancel()
            channel.close()
            connection.close()

        assert in_child(use) == 0
        assert connection.is_open
        channel.publish(b"parent", queue)
        message.ack()
        rest = consumer.fetch_all(3, PATIENCE_S)
        assert [one.body for one in rest] == [b"2", b"3", b"parent"]
        consumer.ack(rest)


def test_a_child_cannot_use_an_asyncio_connection_either(ember: Broker) -> None:
    async def run() -> None:
        async with connect_async(ember.url) as connection, await connection.channel() as channel:
            queue = (await channel.queue_declare(exclusive=True)).name
            await channel.publish(b"x", queue)
            message = await channel.get(queue)
            assert message is not None

            def use() -> None:
                for attempt in (message.ack, message.nack, lambda: channel.publish(b"child", queue)):
                    with pytest.raises(ConnectionClosed, match="fork"):
                        attempt()

            assert in_child(use) == 0
            awaits: list[Callable[[], Awaitable[object]]] = [
                lambda: channel.get(queue),
                lambda: channel.consume(queue),
                connection.channel,
            ]
            for attempt in awaits:
                pid = os.fork()
                if pid == 0:
                    code = 1
                    try:
                        await attempt()
                    except ConnectionClosed:
                        code = 0
                    finally:
                        os._exit(code)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            message.nack()
            async with asyncio.timeout(PATIENCE_S):  # RabbitMQ's queue may answer before it has it back
                while (await channel.queue_declare(queue, passive=True)).message_count != 1:
                    await asyncio.sleep(0.005)

    asyncio.run(run())


# -- threads


def test_many_threads_share_one_consumer(ember: Broker) -> None:
    count = 5000
    with connect(ember.url) as connection, connection.channel() as channel:
        queue = channel.queue_declare(exclusive=True).name
        channel.publish_batch([b"%d" % number for number in range(count)], queue)
        consumer = channel.consume(queue, timeout_s=2)
        seen: list[bytes] = []

        def work(fetching: bool) -> None:
            if fetching:
                while batch := consumer.fetch(7, 2):
                    seen.extend(message.body for message in batch)
                    consumer.ack(batch)
            else:
                for message in consumer:
                    seen.append(message.body)
                    message.ack()

        threads = [threading.Thread(target=work, args=(number % 2 == 0,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(seen) == Counter(b"%d" % number for number in range(count))
        consumer.cancel()
        assert channel.queue_declare(queue, passive=True).message_count == 0


# -- signals


class Worker:
    """Takes and acks messages until it has seen so many; may be called again after an interrupt."""

    def __init__(self, consumer: Consumer, count: int, chance: random.Random) -> None:
        self.consumer = consumer
        self.count = count
        self.chance = chance
        self.seen: set[bytes] = set()
        self.kept: list[Message] = []

    @property
    def done(self) -> bool:
        return len(self.seen) == self.count and not self.kept

    def __call__(self) -> None:
        while not self.done:
            for message in self.kept:
                self.seen.add(message.body)
                message.ack()
            self.kept.clear()
            if len(self.seen) == self.count:
                return
            if self.chance.random() < 0.5:
                for message in self.consumer:
                    self.kept.append(message)
                    break
            else:
                self.kept.extend(self.consumer.fetch(5))


def test_signals_interrupt_a_consume_loop_anywhere(ember: Broker, cycles: int) -> None:
    """Whatever is interrupted, no message is lost, and all goes on."""
    chance = random.Random(7)
    came = 0
    with connect(ember.url, call_timeout_s=30) as connection, connection.channel(prefetch=50) as channel:
        queue = channel.queue_declare(exclusive=True).name
        with interrupts() as alarm:
            while came < 1000 * cycles:
                channel.publish_batch([b"%d" % number for number in range(300)], queue)
                consumer = channel.consume(queue)
                worker = Worker(consumer, 300, chance)
                while not worker.done:
                    came += interrupted(alarm, chance.uniform(0.00005, 0.003), worker)
                while interrupted(alarm, chance.uniform(0.00005, 0.003), consumer.cancel):
                    came += 1
                assert consumer.tag not in channel.core.consumers
                assert drained(channel, queue) == []


def test_signals_interrupt_calls_and_publishes_anywhere(ember: Broker, cycles: int) -> None:
    chance = random.Random(11)
    came = 0
    with connect(ember.url, call_timeout_s=30) as connection, connection.channel() as channel:
        queue = channel.queue_declare(exclusive=True).name
        confirmed = Counter[bytes]()
        tried = Counter[bytes]()
        numbers = iter(range(10**9))

        def publish() -> None:
            body = b"%d" % next(numbers)
            tried[body] += 1
            channel.publish(body, queue)
            confirmed[body] += 1

        def batch() -> None:
            bodies = [b"%d" % next(numbers) for _ in range(20)]
            tried.update(bodies)
            channel.publish_batch(bodies, queue)
            confirmed.update(bodies)

        def ask() -> None:
            channel.queue_declare(queue, passive=True)
            channel.qos(chance.randrange(1, 1000))

        held: list[Channel] = []

        def open_one() -> None:
            held.append(connection.channel())
            close_held()

        def close_held() -> None:
            while held:
                held[-1].close()
                held.pop()

        def consume() -> None:
            with channel.consume(idle, no_ack=True):
                pass

        idle = channel.queue_declare(exclusive=True).name
        with interrupts() as alarm:
            while came < 1000 * cycles:
                for function in (publish, batch, ask, open_one, consume):
                    came += interrupted(alarm, chance.uniform(0.00005, 0.002), function)
        close_held()
        found = Counter(drained_batch(channel, queue))
        assert not confirmed - found, "a confirmed message is missing"
        assert not found - tried, "a message came that nobody published, or twice"
        # Nothing is left behind by calls that were interrupted.
        wait_until(lambda: channel.queue_declare(idle, passive=True).consumer_count == 0)
        wait_until(lambda: len(connection.engine.channels) == 1)
        channel.publish(b"still alive", queue)


def drained_batch(channel: Channel, queue: str) -> list[bytes]:
    left = channel.queue_declare(queue, passive=True).message_count
    with channel.consume(queue, no_ack=True) as consumer:
        return [message.body for message in consumer.fetch_all(left, PATIENCE_S)]


def test_signals_interrupt_a_get_and_the_message_goes_back(ember: Broker) -> None:
    chance = random.Random(13)
    came = 0
    with connect(ember.url, call_timeout_s=30) as connection, connection.channel() as channel:
        queue = channel.queue_declare(exclusive=True).name
        channel.publish(b"one", queue)
        held: list[Message | None] = []

        def get() -> None:
            held.append(channel.get(queue))

        with interrupts() as alarm:
            while came < 300:
                held.clear()
                came += interrupted(alarm, chance.uniform(0.00005, 0.001), get)
                for message in held:
                    if message is not None:
                        message.nack()
        wait_until(lambda: channel.queue_declare(queue, passive=True).message_count == 1)


# -- oblivion


def test_a_forgotten_connection_warns_and_ends(ember: Broker) -> None:
    def forget() -> threading.Thread:
        connection = connect(ember.url)
        channel = connection.channel()
        channel.consume(channel.queue_declare(exclusive=True).name)
        return connection._io_thread.thread

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread = forget()
        gc.collect()
    assert [str(one.message) for one in caught if one.category is ResourceWarning]
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_closing_with_a_live_callback_is_no_error(ember: Broker, caplog: pytest.LogCaptureFixture) -> None:
    connection = connect(ember.url)
    channel = connection.channel()
    consumer = channel.consume(channel.queue_declare(exclusive=True).name, lambda message: None)
    connection.close()
    consumer.join(PATIENCE_S)
    assert not caplog.records


def test_a_connection_that_ends_while_it_is_closed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread took the order to end and was gone, with its socket, before it could be woken."""
    connection = connect(broker.url)
    real = connection._io_thread

    def post(*order: Any) -> None:
        real.commands.post(*order)
        raise OSError(errno.EBADF, "Bad file descriptor")

    late = SimpleNamespace(commands=SimpleNamespace(post=post), finish=real.finish, thread=real.thread)
    monkeypatch.setattr(connection, "_io_thread", late)
    connection.close()
    assert not real.thread.is_alive()
