"""A blocking client (pika) with the few words that the tests of the extensions need."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self

import pika
import pytest

PATIENCE_S = 60.0
PAUSE_S = 0.01


def unique(kind: str = "queue") -> str:
    return f"ext.{kind}.{uuid.uuid4().hex}"


def eventually(question: Callable[[], Any]) -> Any:
    """The first true answer; a failure when none comes in a time that no sound broker needs."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(PAUSE_S)


def in_time(attempt: Callable[[int], Any]) -> int:
    """Do what must be done before a time is over: `attempt(milliseconds)`, which ends with an answer.

    A machine that was too busy to do it within that time is given another try with more, and a failure counts
    only if it was not the time that was missed. The milliseconds that were enough are returned.
    """
    for milliseconds in (300, 1500, 6000, 20_000):
        began = time.monotonic()
        failure: Exception | None = None
        try:
            attempt(milliseconds)
        except (Exception, pytest.fail.Exception) as error:
            failure = error
        if time.monotonic() - began < milliseconds / 1000:
            if failure is not None:
                raise failure
            return milliseconds
    raise AssertionError("this machine is too busy to tell")


class Got(NamedTuple):
    body: bytes
    properties: Any
    method: Any

    @property
    def headers(self) -> dict[str, Any]:
        return self.properties.headers or {}


class Client:
    def __init__(self, port: int) -> None:
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        self.channel = self.connection.channel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Close, whether the broker is still there or not, so that no socket stays open."""
        with suppress(pika.exceptions.AMQPError):
            self.connection.close()

    def declare(self, name: str | None = None, *, durable: bool = False, **arguments: Any) -> str:
        """`x_message_ttl=5` is the argument `x-message-ttl`."""
        name = name or unique()
        self.channel.queue_declare(
            name,
            durable=durable,
            arguments={key.replace("_", "-"): value for key, value in arguments.items()},
        )
        return name

    def publish(
        self,
        queue: str,
        body: bytes = b"x",
        *,
        exchange: str = "",
        mandatory: bool = False,
        **properties: Any,
    ) -> None:
        self.channel.basic_publish(exchange, queue, body, pika.BasicProperties(**properties), mandatory)

    def get(self, queue: str, ack: bool = True) -> Got | None:
        method, properties, body = self.channel.basic_get(queue, auto_ack=ack)
        return None if method is None else Got(body, properties, method)

    def await_message(self, queue: str, ack: bool = True) -> Got:
        got: Got = eventually(lambda: self.get(queue, ack))
        return got

    def drain(self, queue: str) -> list[bytes]:
        bodies = []
        while (got := self.get(queue)) is not None:
            bodies.append(got.body)
        return bodies

    def count(self, queue: str) -> int:
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def exists(self, queue: str) -> bool:
        """Whether there is such a queue; asked on a channel of its own, which a no would close."""
        channel = self.connection.channel()
        try:
            channel.queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            return False
        channel.close()
        return True


def plain(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Headers without what no test can know in advance, or RabbitMQ 3 does not write."""
    shown = {name: value for name, value in headers.items() if not name.startswith("x-last-death-")}
    shown["x-death"] = [
        {name: value for name, value in death.items() if name != "time"} for death in shown.get("x-death", ())
    ]
    return shown
