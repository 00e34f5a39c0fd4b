"""The publishing half of a channel: what was sent and is not confirmed, and what waits for a connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from embermq.client.core.column_confirms import RowRuns, publication_of
from embermq.client.core.incoming import Incoming
from embermq.client.core.message import Message
from embermq.client.core.publication import Body, Outgoing, Publication, Receipt, as_bytes, raw_properties
from embermq.client.errors import ClientError
from embermq.wire.columns.publish_rows import Rows
from embermq.wire.methods import BasicReturn

if TYPE_CHECKING:
    from embermq.client.core.engine import Engine


REFUSALS_MAX = 4  # a message after which the broker closes the connection is sent so often


class Publishing(Incoming):
    __slots__ = (
        "confirming",
        "held",
        "lowest_unconfirmed",
        "mandatory_count",
        "publish_tag",
        "ready",
        "runs",
        "transaction_lost",
        "transaction_open",
        "transactional",
        "unconfirmed",
        "unsent",
    )

    def __init__(self, engine: Engine, number: int, confirming: bool) -> None:
        super().__init__(engine, number)
        self.confirming = confirming
        self.transactional = False
        self.transaction_open = False  # something was done since the last commit
        self.transaction_lost = False
        self.ready = False
        self.unconfirmed: dict[int, Publication] = {}
        self.runs = RowRuns()  # more of them, published as columns
        self.unsent: list[Publication] = []  # of a channel without confirms, while there is no connection
        self.publish_tag = 0
        self.held = 0  # the last so many of them are not on their way yet
        self.lowest_unconfirmed = 1
        self.mandatory_count = 0  # unconfirmed ones that may be returned

    # -- sending

    def publish(
        self, method: bytes, properties: bytes, body: bytes, mandatory: bool, receipt: Receipt | None
    ) -> int:
        """Send a message, or keep it until that is possible. The caller has the lock and knows of `error`."""
        if self.confirming:
            publication = Publication(method, properties, body, mandatory, receipt)
            self.publish_tag += 1
            self.unconfirmed[self.publish_tag] = publication
            if mandatory:
                self.mandatory_count += 1
        elif self.transactional:
            self.transaction_open = True
            self.transaction_lost = self.transaction_lost or not self.ready
        if self.ready:
            if self.confirming and (self.held or self.engine.full):
                self.held += 1
            else:
                self.engine.out.put_publish(self.number, method, properties, body, self.engine.frame_max)
        elif not self.confirming and not self.transactional:
            self.unsent.append(Publication(method, properties, body, mandatory, None))
        return 0

    def release(self, bytes_max: int) -> None:
        """Send what was held while the transport was full, until so many bytes wait to be sent."""
        engine = self.engine
        while self.held and engine.out.size < bytes_max:
            kept = self.unconfirmed[self.publish_tag - self.held + 1]
            engine.out.put_publish(self.number, kept.method, kept.properties, kept.body, engine.frame_max)
            self.held -= 1

    def publish_some(
        self,
        messages: Iterator[Body | Outgoing],
        exchange: str,
        routing_key: str,
        properties: bytes,
        mandatory: bool,
        receipt: Receipt | None,
        bytes_max: int,
    ) -> bool:
        """Publish from the iterator until it is empty or `bytes_max` wait to be sent; is there more?"""
        engine = self.engine
        route = engine.route(exchange, routing_key, mandatory)
        size = 0
        for item in messages:
            if receipt is not None and self.confirming:
                receipt.outstanding += 1
            if isinstance(item, Outgoing):
                size += self.publish_outgoing(item, exchange, routing_key, properties, mandatory, receipt)
            else:
                body = item if isinstance(item, bytes) else as_bytes(item)
                self.publish(route, properties, body, mandatory, receipt)
                size += len(body)
            if size >= bytes_max or engine.out.size >= bytes_max:
                return True
        return False

    def publish_outgoing(
        self,
        item: Outgoing,
        exchange: str,
        routing_key: str,
        properties: bytes,
        mandatory: bool,
        receipt: Receipt | None,
    ) -> int:
        if item.exchange is not None:
            exchange = item.exchange
        if item.routing_key is not None:
            routing_key = item.routing_key
        if item.properties is not None:
            properties = raw_properties(item.properties)
        if item.mandatory is not None:
            mandatory = item.mandatory
        body = as_bytes(item.body)
        self.publish(
            self.engine.route(exchange, routing_key, mandatory), properties, body, mandatory, receipt
        )
        return len(body)

    def publish_rows(self, rows: Rows, row: int, mandatory: bool, receipt: Receipt, bytes_max: int) -> int:
        """Publish from `row` on until `bytes_max` wait to be sent; the first row that is left."""
        if not self.ready:
            for one in range(row, rows.count):  # to be sent when there is a connection
                kept = publication_of(rows, one, mandatory, receipt)
                receipt.outstanding += self.confirming
                self.publish(kept.method, kept.properties, kept.body, mandatory, receipt)
            return rows.count
        stop = rows.put(self.engine.out, self.number, row, self.engine.frame_max, bytes_max)
        if self.confirming:
            receipt.outstanding += stop - row
            self.runs.add(rows, row, self.publish_tag + 1, stop - row, mandatory, receipt)
            self.publish_tag += stop - row
        elif self.transactional:
            self.transaction_open = True
        return stop

    # -- confirms and returns

    @property
    def unconfirmed_count(self) -> int:
        return len(self.unconfirmed) + self.runs.count

    def on_confirm(self, tag: int, multiple: bool, acked: bool) -> int:
        if multiple and (tag == 0 or tag > self.publish_tag):
            tag = self.publish_tag
        if self.runs.count:
            self.runs.confirm(tag, multiple, acked)
        if not multiple:
            self.settle(self.unconfirmed.pop(tag, None), acked)
            return 0
        lowest = self.lowest_unconfirmed
        if not self.unconfirmed and lowest <= tag:
            lowest = tag + 1
        while lowest <= tag:
            self.settle(self.unconfirmed.pop(lowest, None), acked)
            lowest += 1
        self.lowest_unconfirmed = lowest
        return 0

    def settle(self, publication: Publication | None, acked: bool) -> int:
        if publication is not None:
            if publication.mandatory:
                self.mandatory_count -= 1
            if publication.receipt is not None:
                publication.receipt.settle(acked, publication.returned)
        return 0

    def on_return(self, method: BasicReturn, message: Message) -> None:
        """Find the publication. Returns carry no tag, but they come in order and before the confirm."""
        message.reply_text = f"{method.reply_code} {method.reply_text}"
        publication = self.find_returned(message) if self.mandatory_count else None
        if publication is not None:
            publication.returned = message
        elif self.runs.count:
            self.runs.note_returned(self.engine.route(message.exchange, message.routing_key, True), message)
        self.engine.happened("returned", self, message)

    def find_returned(self, message: Message) -> Publication | None:
        """The first one that looks like it; the broker may have changed its properties (direct reply-to)."""
        similar: Publication | None = None
        for publication in self.unconfirmed.values():
            if (
                publication.mandatory
                and publication.returned is None
                and publication.body == message.body
                and self.engine.routes_as(publication.method, message.exchange, message.routing_key)
            ):
                if publication.properties == message.raw_properties:
                    return publication
                similar = similar or publication
        return similar

    # -- coming and going

    def refused(self, error: ClientError) -> None:
        """The broker closed the connection, perhaps because of one of these: that cannot go on for ever."""
        self.unconfirmed = {**self.unconfirmed, **self.runs.take()}
        for tag, publication in list(self.unconfirmed.items()):
            publication.refusals += 1
            if publication.refusals >= REFUSALS_MAX:
                del self.unconfirmed[tag]
                if publication.receipt is not None:
                    publication.receipt.abandon(error)

    def publish_again(self) -> None:
        """What was never confirmed goes out again, in order, before anything new."""
        unconfirmed = sorted({**self.unconfirmed, **self.runs.take()}.items())
        kept = [*(publication for _, publication in unconfirmed), *self.unsent]
        self.unconfirmed, self.unsent = {}, []
        self.publish_tag, self.lowest_unconfirmed, self.mandatory_count, self.held = 0, 1, 0, 0
        for publication in kept:
            self.publish(
                publication.method,
                publication.properties,
                publication.body,
                publication.mandatory,
                publication.receipt,
            )
            if self.confirming:
                self.unconfirmed[self.publish_tag].refusals = publication.refusals

    def abandon_publications(self, error: ClientError) -> None:
        """The channel is closed for good: nobody will ever know what became of them."""
        for publication in self.unconfirmed.values():
            if publication.receipt is not None:
                publication.receipt.abandon(error)
        self.runs.abandon(error)
        self.unconfirmed.clear()
        self.unsent.clear()
