"""x-prefetch-count: more unacknowledged messages than the 16 bits of basic.qos can say."""

from __future__ import annotations

import pytest

from embermq.client import PreconditionFailed, connect
from embermq.testing import EmbeddedBroker

PATIENCE_S = 60.0
COUNT = 70_000


def test_more_than_basic_qos_can_say() -> None:
    with EmbeddedBroker() as broker, connect(broker.url) as connection, connection.channel() as channel:
        queue = channel.queue_declare("", exclusive=True).name
        channel.publish_batch([b""] * (COUNT + 5), queue)
        with connection.channel(prefetch=1) as other:
            consumer = other.consume_columns(queue, ["body"], arguments={"x-prefetch-count": COUNT})
            count = 0
            while count < COUNT:
                batch = consumer.fetch(COUNT - count, PATIENCE_S)
                assert batch is not None
                count += batch.count
            assert count == COUNT
            assert channel.queue_declare(queue, passive=True).message_count == 5
            consumer.ack(batch, 2 - COUNT + batch.count)  # the first two of all
            batch = consumer.fetch(2, PATIENCE_S)
            assert batch is not None
            assert batch.count == 2
            assert channel.queue_declare(queue, passive=True).message_count == 3


@pytest.mark.parametrize("count", ["10", -1, 1 << 31, True, 1.5, None])
def test_what_is_no_count_is_refused(count: object) -> None:
    with EmbeddedBroker() as broker, connect(broker.url) as connection, connection.channel() as channel:
        queue = channel.queue_declare("", exclusive=True).name
        with pytest.raises(PreconditionFailed, match="x-prefetch-count"):
            channel.consume(queue, arguments={"x-prefetch-count": count}).fetch(1, PATIENCE_S)
