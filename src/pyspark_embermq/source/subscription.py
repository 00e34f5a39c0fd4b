"""The queues that a query reads: those that it names, those that match a pattern, the partitions of a super
stream, or a queue of its own that is bound to an exchange.

Queues of a pattern and partitions of a super stream may come and go while the query runs: they are looked for
again at each batch, once in a second at most.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping

from embermq.client import Channel
from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.options import Options, json_object, names_from, spark_name

log = logging.getLogger("pyspark_embermq")

DISCOVERY_S = 1.0  # between two looks for new queues
OWN_QUEUE = "spark."  # what the name of a queue begins with that is made for a query


def subscribed(link: BrokerLink) -> dict[str, bool]:
    """The queues to read at this moment, each with whether it is a stream."""
    options = link.options
    if options.subscribe_pattern:
        found = link.matching(options.subscribe_pattern)
        if not found:
            raise AMQPSourceError(
                f"no queue matches option 'subscribePattern', {options.subscribe_pattern!r} (the whole name "
                f"has to), at {options.place}: declare the first one, whose type says how all are read"
            )
        return found
    if options.super_stream:
        return dict.fromkeys(link.partitions(options.super_stream), True)
    names = options.queue_names
    if not names and options.exchange:
        names = [own_queue(link)]
    if not names:
        raise AMQPSourceError(
            "say what to read: option 'queue', 'queues', 'subscribePattern', 'superStream' or 'exchange'"
        )
    return {name: link.is_stream(name) for name in names}


def own_queue(link: BrokerLink) -> str:
    """Declare the queue of a query that reads from an exchange, and bind it as the options say."""
    options = link.options
    if not options.query_name:
        raise AMQPSourceError(
            "option 'exchange' says where to read: name the query in option 'queryName', too (Spark does not "
            "tell a source the name of its query). Its queue is called after it and keeps what comes while "
            "the query does not run"
        )
    arguments = json_object("queueArguments", options.queue_arguments)
    name = OWN_QUEUE + options.query_name
    with link.channel(prefetch=None, confirms=False) as channel:
        channel.exchange_declare(options.exchange, passive=True)  # before anything is made for it
        channel.queue_declare(name, durable=True, arguments=arguments)
        keys = names_from(options.binding_keys)
        for key in keys:
            channel.queue_bind(name, options.exchange, key)
        if link.is_embermq:  # others do not tell what is bound
            unbind_others(link, channel, name, keys)
    return name


def unbind_others(link: BrokerLink, channel: Channel, queue: str, keys: Collection[str]) -> None:
    """Take away the bindings of an earlier run with other options."""
    for binding in link.bindings(queue):
        exchange, key = binding["exchange"], binding["routing_key"]
        if binding["arguments"] or (exchange == link.options.exchange and key in keys):
            continue
        channel.queue_unbind(queue, exchange, key)
        log.warning(
            "queue '%s' was bound to exchange '%s' with key '%s', which is not in option 'bindingKeys' any "
            "more: unbound",
            queue,
            exchange,
            key,
        )


def check_kinds(options: Options, queues: Mapping[str, bool]) -> None:
    """Refuse options for streams if all are queues, and those for queues if one is a stream."""
    streams = [queue for queue, is_stream in queues.items() if is_stream]
    for name in ("starting_offsets", "ending_offsets"):
        if not streams and getattr(options, name) != getattr(Options, name):
            raise AMQPSourceError(
                f"option {spark_name(name)!r} is for streams, and {names(queues)} is a queue, which has no "
                "offsets: it is read from its head"
            )
    if options.selector and streams:
        raise AMQPSourceError(
            f"option 'selector' is for queues, and {names(streams)} is a stream: see 'streamFilter' and "
            "'streamFilterHeaders'"
        )


class Subscription:
    """The queues of a streaming query, all of one kind."""

    def __init__(self, link: BrokerLink, queues: Iterable[str], streams: bool) -> None:
        self.link = link
        self.streams = streams
        self.queues = sorted(queues)
        self.looked_s = time.monotonic()
        self.passed_over: set[str] = set()

    @property
    def may_change(self) -> bool:
        return bool(self.link.options.subscribe_pattern or self.link.options.super_stream)

    def current(self, at_once: bool = False) -> list[str]:
        if self.may_change and (at_once or time.monotonic() - self.looked_s >= DISCOVERY_S):
            self.queues = sorted(self.found())
            self.looked_s = time.monotonic()
        return self.queues

    def found(self) -> list[str]:
        options = self.link.options
        if options.super_stream:
            return self.link.partitions(options.super_stream)
        matching = self.link.matching(options.subscribe_pattern)
        others = {name for name, is_stream in matching.items() if is_stream != self.streams}
        for name in sorted(others - self.passed_over):
            log.warning(
                "'%s' matches subscribePattern but is %s, unlike what this query reads: it is passed over",
                name,
                "no stream" if self.streams else "a stream",
            )
        self.passed_over |= others
        return [name for name in matching if name not in others]


def names(queues: Iterable[str]) -> str:
    """'a' and 'b'"""
    return " and ".join(f"'{queue}'" for queue in sorted(queues))
