"""What makes the client pleasant: blocks that settle, callbacks that go on, loops that clean up."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import fields

import pytest

from embermq.client import Channel, Message, connect_async
from embermq.client.address import ConnectOptions, Settings
from tools.brokers import Broker

PATIENCE_S = 60


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def left_in(channel: Channel, queue: str) -> int:
    return channel.queue_declare(queue, passive=True).message_count


def got(channel: Channel, queue: str) -> Message:
    message = channel.get(queue)
    assert message is not None
    return message


def test_a_block_acks_its_message_or_gives_it_back(channel: Channel, queue: str) -> None:
    channel.publish(b"x", queue)
    with pytest.raises(KeyError), got(channel, queue).process(requeue=True):
        raise KeyError
    again = got(channel, queue)
    assert again.redelivered
    with pytest.raises(KeyboardInterrupt), again.process():
        raise KeyboardInterrupt
    last = got(channel, queue)
    with last.process() as same:
        assert same is last
    assert last.settled
    assert left_in(channel, queue) == 0
    channel.publish(b"poison", queue)
    with pytest.raises(KeyError), got(channel, queue).process():
        raise KeyError
    assert left_in(channel, queue) == 0


def test_a_block_of_a_coroutine(ember: Broker) -> None:
    async def run() -> None:
        async with connect_async(ember.url) as connection, await connection.channel() as channel:
            queue = (await channel.queue_declare(exclusive=True)).name
            await channel.publish(b"x", queue)
            message = await channel.get(queue)
            assert message is not None
            async with message.process():
                pass
            assert message.settled
        assert connection.is_closed
        task = asyncio.create_task(connect_async(ember.url))
        await (await task).close()

    asyncio.run(run())


def test_callbacks_in_several_threads(channel: Channel, queue: str) -> None:
    together = threading.Barrier(3)
    handled: list[bytes] = []

    def handle(message: Message) -> None:
        together.wait(PATIENCE_S)  # for two others that work at the same time
        message.ack()
        handled.append(message.body)

    with channel.consume(queue, handle, concurrency=3) as consumer:
        channel.publish_batch([b"x"] * 9, queue)
        wait_until(lambda: len(handled) == 9)
    consumer.join()


def test_a_callback_that_exits_leaves_no_consumer(channel: Channel, queue: str) -> None:
    """sys.exit() ends only the thread of the callback; a consumer without it would swallow messages."""
    consumer = channel.consume(queue, lambda message: sys.exit(3), on_error="requeue")
    channel.publish(b"x", queue)
    with pytest.raises(SystemExit):
        consumer.join(PATIENCE_S)
    info = channel.queue_declare(queue, passive=True)
    assert (info.message_count, info.consumer_count) == (1, 0)


def test_callbacks_need_a_thread(channel: Channel, queue: str) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        channel.consume(queue, Message.ack, concurrency=0)


@pytest.mark.parametrize("on_error", ["reject", "requeue"])
def test_one_bad_message_does_not_stop_a_worker(channel: Channel, queue: str, on_error: str) -> None:
    seen: list[bytes] = []

    def handle(message: Message) -> None:
        if message.body == b"bad" and not message.redelivered:
            raise ValueError(message.body)
        seen.append(message.body)
        message.ack()

    expected = {b"good", b"last"} | ({b"bad"} if on_error == "requeue" else set())
    channel.publish_batch([b"good", b"bad", b"last"], queue)
    with channel.consume(queue, handle, on_error=on_error):  # type: ignore[arg-type]
        wait_until(lambda: set(seen) == expected)
    assert left_in(channel, queue) == 0


def test_an_unknown_way_with_errors(channel: Channel, queue: str) -> None:
    with pytest.raises(ValueError, match="stop, requeue, reject"):
        channel.consume(queue, print, on_error="ignore")  # type: ignore[arg-type]


def test_a_loop_that_is_left_cancels_its_consumer(channel: Channel, queue: str) -> None:
    channel.publish_batch([b"1", b"2", b"3"], queue)
    for message in channel.consume(queue):
        message.ack()
        break
    wait_until(lambda: channel.queue_declare(queue, passive=True).consumer_count == 0)
    wait_until(lambda: left_in(channel, queue) == 2)


def test_type_checkers_know_every_option() -> None:
    assert set(ConnectOptions.__annotations__) == {field.name for field in fields(Settings)} - {"endpoints"}
