"""Checks before Spark is started, which takes a while: broker, login, queues, exchanges."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.options import options_from
from pyspark_embermq.pipelines.spec import End, Pipeline
from pyspark_embermq.source.subscription import subscribed


def check_pipeline(pipeline: Pipeline) -> None:
    for end in (pipeline.source, *pipeline.tables.values()):
        check_reading(end)
    if pipeline.sink.format == "amqp":
        check_sending(pipeline.sink.options)


def check_reading(end: End) -> None:
    if end.format == "amqp":
        check_queues(end.options)


def check_queues(given: Mapping[str, str]) -> None:
    """The broker is there, lets us in, and has the queues and the exchange for unreadable bodies."""
    options = options_from(given)
    with BrokerLink(options) as link:
        for queue in subscribed(link):
            link.waiting_count(queue)
        require_exchange(link, options.dead_letter_exchange)


def check_sending(given: Mapping[str, str]) -> None:
    """Likewise, and the exchange: a queue may be made later, and a missing one is told by its returns."""
    options = options_from(given)
    with BrokerLink(options) as link:
        require_exchange(link, options.exchange)


def require_exchange(link: BrokerLink, name: str) -> None:
    """The default exchange, which has no name, is always there."""
    with link.channel(prefetch=None, confirms=False) as channel:
        if name:
            channel.exchange_declare(name, passive=True)
