"""What the tests of pika say often, said once."""

from __future__ import annotations

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tools.brokers import Broker


def parameters(broker: Broker, **options: object) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(host=broker.host, port=broker.port, **options)


def depth(channel: BlockingChannel, queue: str) -> int:
    return channel.queue_declare(queue, passive=True).method.message_count


def get(channel: BlockingChannel, queue: str) -> bytes | None:
    """The next message's body, acknowledged."""
    return channel.basic_get(queue, auto_ack=True)[2]


def get_all(channel: BlockingChannel, queue: str) -> list[bytes]:
    return list(iter(lambda: get(channel, queue), None))
