"""basic.consume with `x-lease`: read a part of a lease, or, with `x-lease-action`, make or end one.

An action is answered by one message, the lease as JSON (what the HTTP API shows), and basic.cancel; it leaves
when what it tells is on disk. A refusal closes the channel, as any other does.
"""

from __future__ import annotations

from collections.abc import Callable

from embermq.amqp.channel.bulk_settle import in_pieces
from embermq.amqp.channel.channel import Channel
from embermq.amqp.channel.consumer import ChannelConsumer
from embermq.amqp.connection.state import wait_while
from embermq.amqp.handlers.browse import start_browse
from embermq.broker.describe import description_message, description_of_lease
from embermq.broker.incremental_work import Pieces
from embermq.broker.lease.lease import BYTES_MAX, MESSAGES_MAX, OPEN, SETTLED, TIMEOUT_MS_MAX, Lease
from embermq.broker.lease.reader import LeaseReading
from embermq.broker.queue.arguments import SHORTSTR_BYTES_MAX, integer, text
from embermq.broker.queue.browse_queue import single_message
from embermq.broker.queue.queue import Queue, describe
from embermq.errors import AMQPError, NotFound, PreconditionFailed
from embermq.wire import methods

LEASE, FROM, TO = "x-lease", "x-lease-from", "x-lease-to"
ACTION, FORGET = "x-lease-action", "x-lease-forget"
MESSAGES, BYTES, TIMEOUT = "x-lease-messages", "x-lease-bytes", "x-lease-timeout"
CHECKS = (
    (LEASE, text(), ""),
    (FROM, integer(), 0),
    (TO, integer(), 0),
    (ACTION, text(), ""),
    (FORGET, text(), ""),
    (MESSAGES, integer(1, MESSAGES_MAX), MESSAGES_MAX),
    (BYTES, integer(1, BYTES_MAX), BYTES_MAX),
    (TIMEOUT, integer(0, TIMEOUT_MS_MAX), 0),
)


def check_arguments(queue: Queue, arguments: dict[str, object]) -> None:
    for name, check, usual in CHECKS:
        problem = check(arguments.get(name, usual))
        if problem is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {describe(queue)}: {problem}")


def lease_consumer(channel: Channel, queue: Queue, tag: str, method: methods.BasicConsume) -> ChannelConsumer:
    """The consumer for it; PreconditionFailed for nonsense."""
    arguments, what = method.arguments, describe(queue)
    check_arguments(queue, arguments)
    wait_while(is_under_way(channel.vhost.leases.of.get(queue, {}).get(str(arguments[LEASE]))))
    lease: Lease = channel.vhost.leases.find(queue, str(arguments[LEASE]))
    if not method.no_ack:
        raise PreconditionFailed(f"lease '{lease.name}' on {what} is read without acknowledgements")
    begin, end = arguments.get(FROM, 0), arguments.get(TO, lease.count)
    assert isinstance(begin, int) and isinstance(end, int)
    reading = LeaseReading(lease, begin, end)
    return ChannelConsumer(channel, reading, tag, True, False, 0, arguments)


def is_under_way(lease: Lease | None) -> bool:
    return lease is not None and (lease.being_made or lease.being_released)


def act_on_lease(channel: Channel, queue: Queue, method: methods.BasicConsume) -> None:
    check_arguments(queue, method.arguments)
    name, action = str(method.arguments[LEASE]), str(method.arguments[ACTION])
    if action not in ACTIONS:
        raise PreconditionFailed(f"invalid arg '{ACTION}': {action!r} is none of {', '.join(ACTIONS)}")
    if not queue.messages_leave:
        raise PreconditionFailed(f"messages do not leave a {describe(queue)}; read a range of it")
    if not 0 < len(name.encode("utf-8", "surrogateescape")) <= SHORTSTR_BYTES_MAX:
        raise PreconditionFailed(f"invalid arg '{LEASE}': a name has 1 to {SHORTSTR_BYTES_MAX} bytes")
    lease = channel.vhost.leases.of.get(queue, {}).get(name)
    wait_while(is_under_way(lease))
    if FORGET in method.arguments:
        channel.vhost.leases.forget(queue, str(method.arguments[FORGET]))
    channel.connection.turn.refresh()
    ACTIONS[action](Request(channel, queue, method, name, lease))


class Request:
    """One action, and how it is answered."""

    def __init__(
        self, channel: Channel, queue: Queue, method: methods.BasicConsume, name: str, lease: Lease | None
    ) -> None:
        self.channel = channel
        self.queue = queue
        self.method = method
        self.name = name
        self.lease = lease  # open or settled
        self.leases = channel.vhost.leases

    def number(self, argument: str, usual: int) -> int:
        value = self.method.arguments.get(argument, usual)
        assert isinstance(value, int)
        return value

    def require_lease(self) -> Lease:
        if self.lease is None:
            raise NotFound(f"no lease '{self.name}' on {describe(self.queue)}")
        return self.lease

    def require_open(self) -> Lease:
        lease = self.require_lease()
        if lease.state != OPEN:
            raise PreconditionFailed(f"lease '{lease.name}' on {describe(self.queue)} is {lease.state}")
        return lease

    def begin(self, pieces: Callable[[Lease], Pieces], otherwise: AMQPError, may_be_empty: bool) -> None:
        """Make a lease piece by piece; the error is for one that could not be made."""
        made = self.leases.begin(self.queue, self.name, self.number(TIMEOUT, 0))

        def done() -> None:
            if self.channel.closing:
                return  # the client asks again under the same name
            if self.queue.deleted:
                self.refuse(NotFound(f"no {describe(self.queue)}"))
            elif made.being_made and (made.count or not may_be_empty):
                self.refuse(otherwise)
            else:
                self.answer(made)

        in_pieces(self.channel, pieces(made), done)

    def refuse(self, error: AMQPError) -> None:
        self.channel.connection.close_channel(self.channel, error, methods.BasicConsume.ID)

    def answer(self, lease: Lease) -> None:
        connection, definitions = self.channel.connection, self.channel.vhost.definitions
        connection.hold_output()
        start_browse(
            self.channel,
            self.method,
            single_message(
                self.channel.vhost,
                self.queue.name,
                description_message(self.queue.name, description_of_lease(lease)),
            ),
        )
        # The messages, too: their publisher may still wait for their confirms.
        connection.turn.after_safe(lambda: definitions.when_safe(connection.release_output))


def show(request: Request) -> None:
    request.answer(request.require_lease())


def take(request: Request) -> None:
    """The lease of this name, or a new one of what waits at the head of the queue."""
    if request.lease is not None:
        request.answer(request.lease)
        return
    count, size = request.number(MESSAGES, MESSAGES_MAX), request.number(BYTES, BYTES_MAX)
    failed = PreconditionFailed(f"lease '{request.name}' on {describe(request.queue)} could not be made")
    request.begin(lambda lease: request.leases.taking(lease, count, size), failed, True)


def take_again(request: Request) -> None:
    """The lease of this name; if it was released, exactly its messages."""
    if request.lease is not None:
        request.answer(request.lease)
        return
    if request.name not in request.leases.released.get(request.queue, {}):
        request.require_lease()
    gone = PreconditionFailed(
        f"lease '{request.name}' on {describe(request.queue)} was released, "
        "and not all of its messages are in the queue any more"
    )
    request.begin(request.leases.taking_again, gone, False)


def settle(request: Request) -> None:
    lease = request.require_lease()
    if lease.state != SETTLED:
        request.leases.settle(lease)
    request.answer(lease)


def release(request: Request) -> None:
    lease = request.require_open()

    def done() -> None:
        if request.channel.closing:
            return
        if request.queue.deleted:
            request.refuse(NotFound(f"no {describe(request.queue)}"))
        elif request.leases.has(lease):
            request.refuse(
                PreconditionFailed(f"lease '{lease.name}' on {describe(request.queue)} could not be released")
            )
        else:
            request.answer(lease)

    in_pieces(request.channel, request.leases.releasing(lease), done)


def renew(request: Request) -> None:
    lease = request.require_open()
    request.leases.renew(lease, request.number(TIMEOUT, 0))
    request.answer(lease)


ACTIONS: dict[str, Callable[[Request], None]] = {
    "show": show,
    "take": take,
    "take-again": take_again,
    "settle": settle,
    "release": release,
    "renew": renew,
}
