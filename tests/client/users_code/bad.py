"""Mistakes that type checkers find: each line that ends in `# wrong` is one."""

from __future__ import annotations

from embermq.client import Channel, connect, connect_async


def mistakes(channel: Channel) -> None:
    connect("amqp://localhost", hartbeat=3)  # wrong
    connect("amqp://localhost", heartbeat_s="3")  # wrong
    connect_async("amqp://localhost", relay=True)  # wrong
    channel.publish(12, "orders")  # wrong
    channel.queue_declare("orders", durabel=True)  # wrong
    channel.qos("many")  # wrong
    channel.queue("orders").consume(prefech=10)  # wrong
    channel.consume("orders", on_error="explode")  # wrong
    purged: str = channel.queue_purge("orders")  # wrong
    print(purged)
