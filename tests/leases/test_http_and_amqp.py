"""Leases: taken by HTTP, read by AMQP, settled or released; across restarts and kills."""

from __future__ import annotations

import random
import time
from typing import Any

import pika
import pytest

from tests.streams.api import RefusedError, ask
from tests.support.pika_client import Client, eventually, in_time, unique
from tools.brokers import EmberBroker


def declare(client: Client, count: int = 0, **arguments: Any) -> str:
    queue = client.declare(unique("lease"), durable=True, **arguments)
    publish(client, queue, 0, count)
    return queue


def publish(client: Client, queue: str, first: int, count: int, size: int = 0, **properties: Any) -> None:
    channel = client.connection.channel()
    channel.tx_select()  # one answer for all of them
    properties = {"delivery_mode": 2, **properties}
    for number in range(first, first + count):
        channel.basic_publish("", queue, (b"%d" % number).ljust(size), pika.BasicProperties(**properties))
    channel.tx_commit()
    channel.close()


def lease(broker: EmberBroker, queue: str, name: str = "batch", **wishes: Any) -> Any:
    return ask(broker, "POST", f"/leases/%2F/{queue}", {"name": name, **wishes})


def act(broker: EmberBroker, queue: str, action: str, name: str = "batch", body: object = None) -> Any:
    return ask(broker, "POST", f"/leases/%2F/{queue}/{name}/{action}", body or {})


def read(client: Client, queue: str, name: str = "batch", **part: int) -> list[tuple[int, int]]:
    """(index, number) of each message."""
    channel = client.connection.channel()
    arguments: dict[str, Any] = {"x-lease": name}
    arguments |= {
        f"x-lease-{end}".replace("begin", "from").replace("end", "to"): at for end, at in part.items()
    }
    seen = []
    for method, properties, body in channel.consume(
        queue, auto_ack=True, arguments=arguments, inactivity_timeout=60
    ):
        assert method is not None, f"no end came behind {len(seen)} messages"
        seen.append((int(properties.headers["x-lease-index"]), int(body)))
    channel.close()
    return seen


def drained(client: Client, queue: str) -> list[tuple[int, bool]]:
    found = []
    while (got := client.get(queue)) is not None:
        found.append((int(got.body), got.method.redelivered))
    return found


def counts(broker: EmberBroker, queue: str) -> tuple[int, int]:
    shown = ask(broker, "GET", f"/queues/%2F/{queue}")
    return shown["messages_ready"], shown["messages_unacknowledged"]


def test_a_lease_is_read_again_and_again(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader, 20)
    made = lease(stored, queue, max_messages=12)
    assert (made["name"], made["count"], made["bytes"], made["state"]) == ("batch", 12, 14, "open")
    assert counts(stored, queue) == (8, 12)
    everything = [(number, number) for number in range(12)]
    assert read(reader, queue) == everything
    assert read(reader, queue) == everything
    assert read(reader, queue, begin=3, end=7) == everything[3:7]
    assert read(reader, queue, begin=7) == everything[7:]
    assert read(reader, queue, end=100) == everything
    assert read(reader, queue, begin=5, end=5) == []
    assert read(reader, queue, begin=50) == []
    act(stored, queue, "settle")
    assert drained(reader, queue) == [(number, False) for number in range(12, 20)]


def test_parts_are_read_in_parallel(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader)
    publish(reader, queue, 0, 300, size=5000)
    lease(stored, queue)
    readers = [Client(stored.port) for _ in range(3)]
    found: dict[int, list[int]] = {0: [], 1: [], 2: []}
    ended: list[int] = []
    for which, client in enumerate(readers):
        arguments = {"x-lease": "batch", "x-lease-from": which * 100, "x-lease-to": which * 100 + 100}
        client.channel.basic_consume(
            queue,
            lambda _c, _m, _p, body, which=which: found[which].append(int(body)),
            auto_ack=True,
            arguments=arguments,
        )
        client.channel.add_on_cancel_callback(lambda _m, which=which: ended.append(which))

    def all_ended() -> bool:
        for client in readers:
            client.connection.process_data_events(0.01)
        return len(ended) == 3

    eventually(all_ended)
    assert found == {which: list(range(which * 100, which * 100 + 100)) for which in range(3)}
    for client in readers:
        client.connection.close()


def test_what_is_released_is_back_in_its_place(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader, 10)
    lease(stored, queue, max_messages=4)
    publish(reader, queue, 10, 2)
    act(stored, queue, "release")
    assert counts(stored, queue) == (12, 0)
    assert drained(reader, queue) == [(number, number < 4) for number in range(12)]
    with pytest.raises(RefusedError, match="404"):
        act(stored, queue, "settle")
    with pytest.raises(RefusedError, match="404"):
        act(stored, queue, "release")


def test_names_make_it_safe_to_ask_again(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader, 10)
    first = lease(stored, queue, max_messages=4)
    assert lease(stored, queue, max_messages=4) == first
    assert counts(stored, queue) == (6, 4)
    act(stored, queue, "settle")
    act(stored, queue, "settle")
    assert lease(stored, queue, max_messages=4)["state"] == "settled"
    eventually(lambda: counts(stored, queue) == (6, 0))
    other = lease(stored, queue, name="next", max_messages=100)
    assert other["count"] == 6
    shown = ask(stored, "GET", f"/leases/%2F/{queue}")
    assert [(one["name"], one["state"]) for one in shown] == [("batch", "settled"), ("next", "open")]
    assert ask(stored, "GET", f"/leases/%2F/{queue}/next") == other
    for action in ("release", "renew"):
        with pytest.raises(RefusedError, match="409"):
            act(stored, queue, action)


def test_an_empty_lease_is_none(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader)
    made = lease(stored, queue)
    assert (made["count"], made["state"]) == (0, "empty")
    assert ask(stored, "GET", f"/leases/%2F/{queue}") == []
    publish(reader, queue, 0, 1)
    assert lease(stored, queue)["count"] == 1
    generated = ask(stored, "POST", f"/leases/%2F/{queue}", {})
    assert generated["name"].startswith("lease-")


def test_a_lease_has_a_size(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader)
    publish(reader, queue, 0, 10, size=1000)
    assert lease(stored, queue, max_bytes=3500)["count"] == 4


def test_a_lease_ends_by_itself(reader: Client, stored: EmberBroker) -> None:
    queue = ""

    def renew_before_it_ends(timeout_ms: int) -> None:
        nonlocal queue
        queue = declare(reader, 5)
        lease(stored, queue, timeout_ms=timeout_ms)
        act(stored, queue, "renew", body={"timeout_ms": 600_000})

    time.sleep(in_time(renew_before_it_ends) / 1000)  # it would have ended by now
    assert counts(stored, queue) == (0, 5)
    act(stored, queue, "renew", body={"timeout_ms": 100})
    eventually(lambda: counts(stored, queue) == (5, 0))
    assert ask(stored, "GET", f"/leases/%2F/{queue}") == []


@pytest.mark.parametrize(("way", "end"), [("restart", "settle"), ("kill", "release"), ("kill", "time")])
def test_leases_survive(stored: EmberBroker, way: str, end: str) -> None:
    with Client(stored.port) as client:
        queue = declare(client, 30)
        for number in (0, 1):
            assert client.get(queue).body == b"%d" % number  # type: ignore[union-attr]
        made = lease(stored, queue, max_messages=10, timeout_ms=60_000)
        lease(stored, queue, name="second", max_messages=5)
        publish(client, queue, 30, 3)
    if way == "kill":
        stored.kill()
        stored.start()
    else:
        stored.restart()
    assert counts(stored, queue) == (33 - 2 - 15, 15)
    assert ask(stored, "GET", f"/leases/%2F/{queue}/batch") == made
    with Client(stored.port) as client:
        assert read(client, queue) == [(index, index + 2) for index in range(10)]
        assert read(client, queue, name="second") == [(index, index + 12) for index in range(5)]
        publish(client, queue, 33, 2)
        if end == "settle":
            act(stored, queue, "settle")
            expected = list(range(17, 35))
        elif end == "release":
            act(stored, queue, "release")
            expected = [*range(2, 12), *range(17, 35)]
        else:
            act(stored, queue, "renew", body={"timeout_ms": 100})
            eventually(lambda: len(ask(stored, "GET", f"/leases/%2F/{queue}")) == 1)
            expected = [*range(2, 12), *range(17, 35)]
        act(stored, queue, "settle", name="second")
        assert [number for number, _ in drained(client, queue)] == expected
        eventually(lambda: counts(stored, queue) == (0, 0))
    stored.restart()
    assert counts(stored, queue) == (0, 0)
    assert "open" not in [one["state"] for one in ask(stored, "GET", f"/leases/%2F/{queue}")]


def test_the_time_of_a_lease_goes_on_while_the_broker_is_down(stored: EmberBroker) -> None:
    with Client(stored.port) as client:
        queue = declare(client, 5)
        lease(stored, queue, timeout_ms=500)
    stored.kill()
    time.sleep(0.5)
    stored.start()
    eventually(lambda: counts(stored, queue) == (5, 0))
    assert ask(stored, "GET", f"/leases/%2F/{queue}") == []


@pytest.mark.parametrize("ahead", [0, 3])
def test_released_after_a_restart_with_nothing_else_there(stored: EmberBroker, ahead: int) -> None:
    with Client(stored.port) as client:
        queue = declare(client, 5)
        lease(stored, queue)
    stored.kill()
    stored.start()
    with Client(stored.port) as client:
        publish(client, queue, 5, ahead)
        act(stored, queue, "release")
        assert [number for number, _ in drained(client, queue)] == list(range(5 + ahead))


def test_a_purge_leaves_leases_alone(stored: EmberBroker) -> None:
    with Client(stored.port) as client:
        queue = declare(client, 20)
        lease(stored, queue, max_messages=5)
        lease(stored, queue, name="second", max_messages=5)
        act(stored, queue, "release", name="batch")
    stored.restart()
    with Client(stored.port) as client:
        client.channel.queue_purge(queue)
        assert counts(stored, queue) == (0, 5)
    stored.restart()
    with Client(stored.port) as client:
        assert read(client, queue, name="second") == [(index, index + 5) for index in range(5)]
        act(stored, queue, "release", name="second")
        assert [number for number, _ in drained(client, queue)] == list(range(5, 10))


def test_priorities_and_memory(reader: Client, stored: EmberBroker) -> None:
    queue = declare(reader, x_max_priority=3)
    publish(reader, queue, 0, 3, priority=1)
    publish(reader, queue, 3, 3, priority=3, delivery_mode=1)
    publish(reader, queue, 6, 3, priority=2)
    lease(stored, queue, max_messages=8)
    assert [number for _, number in read(reader, queue)] == [3, 4, 5, 6, 7, 8, 0, 1]
    assert [number for _, number in read(reader, queue, begin=2, end=4)] == [5, 6]
    act(stored, queue, "release")
    assert [number for number, _ in drained(reader, queue)] == [3, 4, 5, 6, 7, 8, 0, 1, 2]


def test_a_queue_that_does_not_last(reader: Client, stored: EmberBroker) -> None:
    queue = reader.declare(unique("lease"))
    publish(reader, queue, 0, 5)
    lease(stored, queue)
    assert [number for _, number in read(reader, queue)] == list(range(5))
    act(stored, queue, "settle")
    eventually(lambda: counts(stored, queue) == (0, 0))


@pytest.mark.parametrize("end", ["settle", "release", "delete"])
def test_a_reader_is_told_that_there_is_no_more(reader: Client, stored: EmberBroker, end: str) -> None:
    queue = declare(reader)
    publish(reader, queue, 0, 200, size=100_000)
    lease(stored, queue)
    channel = reader.connection.channel()
    channel.basic_consume(queue, lambda *_: None, auto_ack=True, arguments={"x-lease": "batch"})
    if end == "delete":
        ask(stored, "DELETE", f"/queues/%2F/{queue}")
    else:
        act(stored, queue, end)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        while True:
            channel.basic_qos(prefetch_count=1)
    assert closed.value.reply_code == 404


@pytest.mark.parametrize(
    ("arguments", "auto_ack", "expected"),
    [
        ({"x-lease": "nobody"}, True, "no lease 'nobody'"),
        ({"x-lease": 5}, True, "invalid arg 'x-lease'"),
        ({"x-lease": "batch", "x-lease-from": -1}, True, "invalid arg 'x-lease-from'"),
        ({"x-lease": "batch", "x-lease-to": "x"}, True, "invalid arg 'x-lease-to'"),
        ({"x-lease": "batch"}, False, "is read without acknowledgements"),
    ],
)
def test_readings_that_cannot_be(
    reader: Client, stored: EmberBroker, arguments: Any, auto_ack: bool, expected: str
) -> None:
    queue = declare(reader, 1)
    lease(stored, queue)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        reader.channel.basic_consume(queue, print, auto_ack=auto_ack, arguments=arguments)
    assert expected in closed.value.reply_text


@pytest.mark.parametrize(
    "body",
    [{"max_messages": 0}, {"max_bytes": "x"}, {"timeout_ms": -1}, {"name": 5}, {"name": "x" * 300}],
)
def test_leases_that_cannot_be(reader: Client, stored: EmberBroker, body: Any) -> None:
    queue = declare(reader, 3)
    with pytest.raises(RefusedError, match="400"):
        ask(stored, "POST", f"/leases/%2F/{queue}", body)
    assert counts(stored, queue) == (3, 0)


def test_streams_have_no_leases(reader: Client, stored: EmberBroker) -> None:
    stream = reader.declare(unique("stream"), durable=True, x_queue_type="stream")
    with pytest.raises(RefusedError, match="400 messages do not leave a stream"):
        lease(stored, stream)


def test_a_long_queue(reader: Client, stored: EmberBroker) -> None:
    """Longer than what a queue keeps in memory, with holes."""
    queue = declare(reader)
    publish(reader, queue, 0, 40_000)
    made = lease(stored, queue, max_messages=35_000)
    assert made["count"] == 35_000
    seen = read(reader, queue, begin=34_000)
    assert seen == [(number, number) for number in range(34_000, 35_000)]
    act(stored, queue, "release")
    assert lease(stored, queue, name="again", max_messages=100_000)["count"] == 40_000
    assert read(reader, queue, name="again", begin=39_990) == [
        (number, number) for number in range(39_990, 40_000)
    ]
    act(stored, queue, "settle", name="again")
    eventually(lambda: counts(stored, queue) == (0, 0))


@pytest.mark.parametrize("size", [10, 5000])
def test_a_queue_with_holes(reader: Client, stored: EmberBroker, size: int) -> None:
    """Many readers of messages between which others are gone: each gets its part to the end."""
    queue = declare(reader)
    publish(reader, queue, 0, 400, size=size)
    channel = reader.connection.channel()
    for _ in range(400):
        method, _, body = channel.basic_get(queue)
        if int(body) % 2:
            channel.basic_ack(method.delivery_tag)
    channel.close()  # the others come back
    assert lease(stored, queue)["count"] == 200
    everything = [(number, number * 2) for number in range(200)]
    assert read(reader, queue) == everything
    for begin in range(0, 200, 50):
        assert read(reader, queue, begin=begin, end=begin + 50) == everything[begin : begin + 50]
    act(stored, queue, "settle")
    eventually(lambda: counts(stored, queue) == (0, 0))


@pytest.mark.parametrize("seed", [1])
def test_random_histories(stored: EmberBroker, seed: int) -> None:
    """Whatever happens, each message is in one place: ready, in one lease, or settled."""
    chance = random.Random(seed)
    client = Client(stored.port)
    queue = declare(client)
    published = 0
    done: set[int] = set()
    held: dict[str, list[int]] = {}
    for step in range(60):
        action = chance.choice(["publish", "lease", "lease", "settle", "release", "read", "get", "crash"])
        if action == "publish":
            count = chance.randrange(1, 30)
            publish(client, queue, published, count, delivery_mode=2)
            published += count
        elif action == "lease":
            name = f"lease {step}"
            path = name.replace(" ", "%20")
            if lease(stored, queue, name=name, max_messages=chance.randrange(1, 20))["count"]:
                held[path] = [number for _, number in read(client, queue, name=name)]
        elif action == "get":
            got = client.get(queue)
            if got is not None:
                done.add(int(got.body))
        elif action == "crash" and chance.random() < 0.3:
            time.sleep(1.1)  # acks of a get may be forgotten for a second
            chance.choice([stored.kill, stored.stop])()
            client.leave()
            stored.start()
            client = Client(stored.port)
        elif held and action in ("settle", "release", "read"):
            path = chance.choice(sorted(held))
            numbers = held[path]
            if action == "read":
                name = path.replace("%20", " ")
                assert [number for _, number in read(client, queue, name=name)] == numbers
            else:
                act(stored, queue, action, name=path)
                del held[path]
                if action == "settle":
                    done.update(numbers)
        ready, out = eventually(lambda: counts(stored, queue))
        in_leases = sum(len(numbers) for numbers in held.values())
        if action != "settle":
            assert (ready, out) == (published - len(done) - in_leases, in_leases), (step, action)
    for path in held:
        act(stored, queue, "release", name=path)
    left = [number for number, _ in drained(client, queue)]
    assert left == sorted(set(range(published)) - done)
    client.connection.close()
