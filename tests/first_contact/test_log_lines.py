"""The log of a broker with its default settings: one line for each connection, whatever becomes of it."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import aio_pika
import pika
import pika.exceptions
import pytest

from embermq.client import connect
from tests.support.pika_client import eventually
from tests.support.raw_client import RawClient
from tools.brokers import EmberBroker


@pytest.fixture(scope="module")
def ember() -> Iterator[EmberBroker]:
    with EmberBroker() as running:
        yield running


def with_pika(broker: EmberBroker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x")


def with_aio_pika(broker: EmberBroker) -> None:
    async def talk() -> None:
        connection = await aio_pika.connect_robust(broker.url)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(b"x"), queue.name)

    asyncio.run(talk())


def with_our_client(broker: EmberBroker) -> None:
    with connect(broker.url) as connection, connection.channel() as channel:
        channel.publish(b"x", "nowhere")


def with_http(broker: EmberBroker) -> None:
    request = urllib.request.Request(f"http://{broker.host}:{broker.http_port}/api/overview")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def with_a_wrong_password(broker: EmberBroker) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.URLParameters(broker.url.replace(":guest@", ":wrong@")))


def with_a_dropped_connection(broker: EmberBroker) -> None:
    with RawClient(broker.port) as client:
        client.login()  # the half of a handshake


def lines(broker: EmberBroker) -> list[dict[str, Any]]:
    return [json.loads(line) for line in broker.log_path.read_text().splitlines() if line.startswith("{")]


def marked(broker: EmberBroker) -> int:
    """The place in the log of a connection that was made now; all before it has been written."""
    with RawClient(broker.port) as client:
        address = f"127.0.0.1:{client.socket.getsockname()[1]} -> "
        client.handshake()
        client.close()

    def place() -> int:
        places = [at for at, line in enumerate(lines(broker)) if line["message"].startswith(address)]
        return places[0] if places else 0

    return int(eventually(place))


@pytest.mark.parametrize(
    "use",
    [with_pika, with_aio_pika, with_our_client, with_http, with_a_wrong_password, with_a_dropped_connection],
)
def test_one_line_for_each_connection(ember: EmberBroker, use: Callable[[EmberBroker], None]) -> None:
    begin = marked(ember)
    use(ember)
    end = marked(ember)
    said = [line["message"] for line in lines(ember)[begin + 1 : end]]
    assert len(said) <= 1, said
