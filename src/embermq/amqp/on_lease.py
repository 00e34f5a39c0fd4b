"""basic.consume with `x-lease`: read a part of a lease, as fast as the connection takes it."""

from __future__ import annotations

from embermq.amqp.channel import Channel
from embermq.amqp.consumer import ChannelConsumer
from embermq.broker.arguments import integer, text
from embermq.broker.lease import Lease
from embermq.broker.lease_reading import LeaseReading
from embermq.broker.queue import Queue, describe
from embermq.errors import PreconditionFailed
from embermq.wire import methods

LEASE, FROM, TO = "x-lease", "x-lease-from", "x-lease-to"


def lease_consumer(channel: Channel, queue: Queue, tag: str, method: methods.BasicConsume) -> ChannelConsumer:
    """The consumer for it; PreconditionFailed for nonsense."""
    arguments, what = method.arguments, describe(queue)
    checks = ((LEASE, text(), ""), (FROM, integer(), 0), (TO, integer(), 0))
    for name, check, usual in checks:
        problem = check(arguments.get(name, usual))
        if problem is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {what}: {problem}")
    lease: Lease = channel.vhost.leases.find(queue, str(arguments[LEASE]))
    if not method.no_ack:
        raise PreconditionFailed(f"lease '{lease.name}' on {what} is read without acknowledgements")
    begin, end = arguments.get(FROM, 0), arguments.get(TO, lease.count)
    assert isinstance(begin, int) and isinstance(end, int)
    reading = LeaseReading(lease, begin, end)
    return ChannelConsumer(channel, reading, tag, True, False, 0, arguments)
