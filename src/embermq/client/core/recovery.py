"""Recovery of the topology: what a connection had declared before it broke is declared again.

It has a channel of its own, on which each group (exchanges, queues, bindings) is sent in one go. When the
broker refuses something it closes that channel; the group is then repeated one by one, and what is refused is
reported and left out. A queue that is still locked by our own dead connection makes the whole attempt fail:
the shell tries again later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from embermq.client.core.channel import ChannelCore
from embermq.client.core.request import Answer, Request
from embermq.client.core.topology import Topology
from embermq.client.errors import ClientError, ConnectionFailed, ResourceLocked
from embermq.wire.methods import ChannelClose, Method, QueueDeclare, QueueDeclareOk

if TYPE_CHECKING:
    from embermq.client.core.engine import Engine

log = logging.getLogger("embermq.client")


def groups_of(topology: Topology) -> Iterator[list[Method]]:
    """Lazily, because declaring the queues may change the names in the bindings."""
    yield list(topology.exchanges.values())
    yield [
        QueueDeclare(
            "" if recorded.server_named else name,
            False,
            recorded.declare.durable,
            recorded.declare.exclusive,
            recorded.declare.auto_delete,
            False,
            recorded.declare.arguments,
        )
        for name, recorded in topology.queues.items()
    ]
    yield list(topology.bindings.values())


class Group:
    """The waiter of requests that were sent together."""

    def __init__(self, restoration: Restoration, methods: list[Method]) -> None:
        self.restoration = restoration
        self.methods = methods
        self.answered = 0
        self.over = False

    def done(self) -> bool:
        return self.over

    def set_result(self, result: object, /) -> None:
        self.answered += 1
        if self.answered == len(self.methods):
            self.over = True
            self.restoration.go_on()

    def set_exception(self, exception: BaseException, /) -> None:
        self.over = True
        assert isinstance(exception, ClientError)
        self.restoration.refused(self.methods[self.answered :], len(self.methods), exception)


class Restoration:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.groups = groups_of(engine.topology)
        self.one_by_one: list[Method] = []
        self.old_names: list[str] = []  # of the server-named queues that are being declared, in order
        self.channel: ChannelCore | None = None

    def go_on(self) -> None:
        """The next group; after the last the connection is as it was."""
        methods: list[Method] | None = []
        if self.one_by_one:
            methods = [self.one_by_one.pop(0)]
        while not methods:
            methods = next(self.groups, None)
            if methods is None:
                self.finish()
                return
            topology = self.engine.topology
            self.old_names = [name for name, queue in topology.queues.items() if queue.server_named]
        self.send(methods)

    def send(self, methods: list[Method]) -> None:
        if self.channel is None:
            number = self.engine.free_number()
            self.channel = ChannelCore(self.engine, number, confirming=False)
            self.engine.channels[number] = self.channel
            self.channel.open()
        group = Group(self, methods)
        for method in methods:
            method.no_wait = False  # type: ignore[attr-defined]  # all that is declared has it
            named = isinstance(method, QueueDeclare) and not method.queue
            self.channel.request(Request(method, group, self.on_new_name if named else None))

    def on_new_name(self, answer: Answer) -> object:
        assert isinstance(answer, QueueDeclareOk)
        self.engine.topology.renamed(self.old_names.pop(0), answer.queue)
        return answer

    def refused(self, methods: list[Method], sent: int, error: ClientError) -> None:
        """The broker closed our channel because of the first of `methods`."""
        self.channel = None
        if self.engine.restoration is not self:
            return  # the connection broke, and the next restoration will try again
        if isinstance(error, ResourceLocked):
            self.engine.shell.ended(ConnectionFailed(f"not everything can be restored yet: {error}"))
            return
        if sent == 1:
            log.warning("not restored after the reconnection: %r: %s", methods[0], error)
            if isinstance(methods[0], QueueDeclare) and not methods[0].queue:
                self.old_names.pop(0)
        else:
            self.one_by_one = methods
        self.go_on()

    def finish(self) -> None:
        if self.channel is None:
            self.engine.restored()
        else:
            self.channel.send(Request(ChannelClose(200, "restored"), None, self.on_closed))

    def on_closed(self, answer: Answer) -> object:
        assert self.channel is not None
        self.engine.channels.pop(self.channel.number, None)
        self.engine.restored()
        return answer
