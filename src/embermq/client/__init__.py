"""EmberMQ's client library: AMQP 0-9-1 for EmberMQ and RabbitMQ, blocking and asyncio, on one core.

    from embermq.client import connect

    with connect("amqp://guest:guest@localhost:5672/%2F") as connection, connection.channel() as channel:
        channel.queue_declare("greetings")
        channel.publish(b"hello", "greetings")
        for message in channel.consume("greetings", timeout_s=1):
            message.ack()

docs/client.md shows the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from embermq.client.address import Settings
from embermq.client.blocking.channel import Channel, Confirmation
from embermq.client.blocking.column_consumer import ColumnConsumer
from embermq.client.blocking.connection import Connection, connect
from embermq.client.blocking.consumer import Consumer
from embermq.client.blocking.pool import ChannelPool, ConnectionPool
from embermq.client.blocking.queue import Exchange, Queue
from embermq.client.blocking.rpc import RpcClient, serve_rpc
from embermq.client.blocking.stream import Stream, SuperStream, SuperStreamConsumer
from embermq.client.core.columns import ColumnBatch, Values
from embermq.client.core.message import Message
from embermq.client.core.publication import Outgoing
from embermq.client.core.topology import QueueInfo
from embermq.client.errors import (
    AccessRefused,
    AuthenticationFailed,
    BadAddress,
    ChannelClosed,
    ClientError,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionLost,
    ConsumerCancelled,
    NotFound,
    NotSettled,
    PreconditionFailed,
    PublishFailed,
    ResourceLocked,
    RpcFailed,
    Timeout,
    TransactionLost,
)
from embermq.wire.properties import Properties

if TYPE_CHECKING:
    from embermq.client.aio.channel import AsyncChannel
    from embermq.client.aio.connection import AsyncConnection, connect_async
    from embermq.client.aio.consumer import AsyncConsumer
    from embermq.client.aio.pool import AsyncChannelPool, AsyncConnectionPool
    from embermq.client.aio.queue import AsyncExchange, AsyncQueue
    from embermq.client.aio.rpc import AsyncRpcClient, serve_rpc_async
    from embermq.client.aio.stream import AsyncStream, AsyncSuperStream, AsyncSuperStreamConsumer

# Imported on first use: asyncio is large, and short-lived processes of blocking code would notice.
ASYNCIO_PARTS = {
    "AsyncChannel": "channel",
    "AsyncChannelPool": "pool",
    "AsyncConnection": "connection",
    "AsyncConnectionPool": "pool",
    "AsyncConsumer": "consumer",
    "AsyncExchange": "queue",
    "AsyncQueue": "queue",
    "AsyncRpcClient": "rpc",
    "AsyncStream": "stream",
    "AsyncSuperStream": "stream",
    "AsyncSuperStreamConsumer": "stream",
    "connect_async": "connection",
    "serve_rpc_async": "rpc",
}


def __getattr__(name: str) -> object:
    if name not in ASYNCIO_PARTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"embermq.client.aio.{ASYNCIO_PARTS[name]}"), name)
    globals()[name] = found
    return found


__all__ = [
    "AccessRefused",
    "AsyncChannel",
    "AsyncChannelPool",
    "AsyncConnection",
    "AsyncConnectionPool",
    "AsyncConsumer",
    "AsyncExchange",
    "AsyncQueue",
    "AsyncRpcClient",
    "AsyncStream",
    "AsyncSuperStream",
    "AsyncSuperStreamConsumer",
    "AuthenticationFailed",
    "BadAddress",
    "Channel",
    "ChannelClosed",
    "ChannelPool",
    "ClientError",
    "ColumnBatch",
    "ColumnConsumer",
    "Confirmation",
    "Connection",
    "ConnectionClosed",
    "ConnectionFailed",
    "ConnectionLost",
    "ConnectionPool",
    "Consumer",
    "ConsumerCancelled",
    "Exchange",
    "Message",
    "NotFound",
    "NotSettled",
    "Outgoing",
    "PreconditionFailed",
    "Properties",
    "PublishFailed",
    "Queue",
    "QueueInfo",
    "ResourceLocked",
    "RpcClient",
    "RpcFailed",
    "Settings",
    "Stream",
    "SuperStream",
    "SuperStreamConsumer",
    "Timeout",
    "TransactionLost",
    "Values",
    "connect",
    "connect_async",
    "serve_rpc",
    "serve_rpc_async",
]
