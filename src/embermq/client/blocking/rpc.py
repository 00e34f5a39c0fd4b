"""Remote calls for blocking code: a client that waits for answers, a server that gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embermq.client.blocking.connection import Connection
from embermq.client.blocking.consumer import Consumer
from embermq.client.calls import rpc
from embermq.client.calls.once import blocking
from embermq.client.calls.with_block import WithBlock
from embermq.client.core.message import Message
from embermq.client.core.publication import Body
from embermq.wire.properties import Properties


class RpcClient(rpc.RpcHandle, WithBlock):
    """Any number of threads may call at the same time; all answers come over one channel."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.channel())
        self._begin()

    def publish(self, what: str, timeout_s: float, *message: Any, properties: Properties) -> None:
        self.channel.publish(*message, properties=properties, mandatory=True, timeout_s=timeout_s)

    _begin = blocking(rpc.begin)
    call = blocking(rpc.call)
    close = blocking(rpc.close)


def serve_rpc(
    connection: Connection,
    queue: str,
    function: Callable[[Message], Body],
    *,
    prefetch: int = 10,
    concurrency: int = 1,
) -> Consumer:
    """Answer calls to `queue` in so many threads; leave the result's `with` block, or cancel it, to end.

    What `function` raises goes back to the caller as RpcFailed. A call is acked when its answer is published.
    """
    channel = connection.channel(prefetch=prefetch)
    consumer: Consumer = _serve(channel, queue, function, channel.publish_soon, blocking, concurrency)
    return consumer


_serve = blocking(rpc.serve)
