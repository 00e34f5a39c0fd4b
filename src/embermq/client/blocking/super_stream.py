"""Super streams for blocking code: several streams behind one exchange, read as one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Self

from embermq.client.blocking.channel import Channel
from embermq.client.blocking.consumer import CancelledAtExit, deadline_after
from embermq.client.blocking.inbox import await_arrival
from embermq.client.blocking.stream import Stream, StreamConsumer
from embermq.client.core.message import Message
from embermq.client.core.streams import (
    PARTITION_ORDER,
    SUPER_STREAM,
    Offset,
    check_partitions,
    partition_names,
)
from embermq.client.errors import NotFound


class SuperStreamConsumer(CancelledAtExit):
    """The consumers of all partitions as one iterator. Leaving its `with` block cancels them."""

    def __init__(self, parts: list[StreamConsumer], timeout_s: float | None) -> None:
        if not parts:
            raise ValueError("there are no partitions to consume: declare the super stream first")
        self.parts = parts
        self.timeout_s = timeout_s
        self._order = deque(parts)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        while True:
            self._order.rotate(-1)  # each partition in turn
            for part in self._order:
                try:
                    for message in part.inbox.pops:
                        return message  # type: ignore[no-any-return]
                except IndexError:
                    pass
            self._wait()

    def _wait(self) -> None:
        """Sleep until a partition has something to say; the end after `timeout_s`, or with an error."""
        inboxes = [part.inbox for part in self.parts]
        if not await_arrival(inboxes[0].core.engine, inboxes, deadline_after(self.timeout_s)):
            raise StopIteration
        if not any(inbox.ready for inbox in inboxes):
            for part in self.parts:
                part.raise_error()
            raise StopIteration

    def cancel(self) -> None:
        for part in self.parts:
            part.cancel()


class SuperStream:
    """An exchange with several streams behind it, `NAME-0`, `NAME-1` ... Publish to the exchange `NAME`."""

    def __init__(self, channel: Channel, name: str) -> None:
        self.channel = channel
        self.name = name

    def declare(
        self,
        partitions: int = 0,
        *,
        routing_keys: Sequence[str] = (),
        max_age: str | None = None,
        max_bytes: int | None = None,
        segment_bytes: int | None = None,
    ) -> Self:
        """By number, the routing key's hash chooses the partition; or one partition for each routing key."""
        if bool(partitions) == bool(routing_keys):
            raise ValueError("say either how many partitions there are, or their routing keys")
        check_partitions(self.channel.connection.is_embermq, partitions)
        kind = "direct" if routing_keys else "x-modulus-hash"
        self.channel.exchange_declare(self.name, kind, durable=True, arguments={SUPER_STREAM: True})
        keys = list(routing_keys) or [str(number) for number in range(partitions)]
        for number, name in enumerate(partition_names(self.name, len(keys))):
            Stream(self.channel, name).declare(
                max_age=max_age, max_bytes=max_bytes, segment_bytes=segment_bytes
            )
            self.channel.queue_bind(name, self.name, keys[number], arguments={PARTITION_ORDER: number})
        return self

    def partitions(self) -> list[Stream]:
        """Those that are there."""
        return list(self._found())

    def _found(self) -> Iterator[Stream]:
        number = 0
        while True:
            name = f"{self.name}-{number}"
            try:
                with self.channel.connection.channel() as probe:
                    probe.queue_declare(name, passive=True)
            except NotFound:
                return
            yield Stream(self.channel, name)
            number += 1

    def consume(
        self,
        offset: Offset = "next",
        *,
        name: str | None = None,
        filter_values: Sequence[str] = (),
        match_unfiltered: bool = False,
        prefetch: int | None = None,
        timeout_s: float | None = None,
    ) -> SuperStreamConsumer:
        """Read all partitions as one; each keeps its order.

        With `name` (EmberMQ) the broker remembers how far each partition was acked, and of several programs
        that use the same name one at a time reads a partition.
        """
        parts: list[StreamConsumer] = []
        try:
            for stream in self.partitions():
                parts.append(
                    stream.consume(
                        offset,
                        name=name,
                        filter_values=filter_values,
                        match_unfiltered=match_unfiltered,
                        prefetch=prefetch,
                    )
                )
        except BaseException:
            for part in parts:
                part.forsake()
            raise
        return SuperStreamConsumer(parts, timeout_s)

    def delete(self) -> None:
        for stream in self.partitions():
            self.channel.queue_delete(stream.name)
        self.channel.exchange_delete(self.name)
