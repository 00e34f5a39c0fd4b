"""Publishes that the broker has not confirmed, by their tags: publisher confirms, as a publisher sees them.

Messages are kept one by one, so that they can be sent again. Rows that were published as columns are kept as
runs of consecutive tags, with no object for each message: confirms settle many at a time, and only what is
returned, refused singly or must be sent again is looked at row by row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from embermq.client.core.message import Message
from embermq.client.core.publication import Publication, Receipt
from embermq.client.errors import ClientError
from embermq.wire.columns.publish_rows import Rows


class Run:
    """Tags `low` to `stop` are unsettled but for those in `settled`; tag minus `row_offset` is the row."""

    __slots__ = (
        "low",
        "mandatory",
        "receipt",
        "returned",
        "row_offset",
        "rows",
        "searched",
        "settled",
        "stop",
    )

    def __init__(
        self, rows: Rows, row: int, first: int, count: int, mandatory: bool, receipt: Receipt
    ) -> None:
        self.rows = rows
        self.row_offset = first - row
        self.low = first
        self.stop = first + count
        self.mandatory = mandatory
        self.receipt = receipt
        self.settled: set[int] = set()
        self.returned: dict[int, Message] = {}
        self.searched = first  # returns come in order: what stands before the last one is not looked at first

    @property
    def outstanding(self) -> int:
        return self.stop - self.low - len(self.settled)

    def settle_through(self, tag: int, acked: bool) -> int:
        """Everything up to this tag; how many that was."""
        stop = min(tag + 1, self.stop)
        before = {one for one in self.settled if one < stop}
        count = stop - self.low - len(before)
        self.settled -= before
        self.low = stop
        returned = [self.returned.pop(one) for one in sorted(self.returned) if one < stop]
        self.receipt.settle_many(count, acked, returned)
        return count

    def settle(self, tag: int, acked: bool) -> int:
        if tag < self.low or tag in self.settled:
            return 0
        if tag == self.low:
            return self.settle_through(tag, acked)
        self.settled.add(tag)
        self.receipt.settle(acked, self.returned.pop(tag, None))
        return 1

    def note_returned(self, method: bytes, message: Message) -> bool:
        """Whether it is one of these: the first that looks like it, behind the one found before."""
        tag = self.find(method, message, self.searched, self.stop)
        if tag is None:
            tag = self.find(method, message, self.low, self.searched)
        if tag is None:
            return False
        self.returned[tag] = message
        self.searched = tag + 1
        return True

    def find(self, method: bytes, message: Message, start: int, stop: int) -> int | None:
        """The tag of the first that looks like it; the broker may have changed its properties."""
        similar: int | None = None
        for tag in range(max(start, self.low), stop):
            row = tag - self.row_offset
            if tag in self.returned or tag in self.settled or self.rows.body(row) != message.body:
                continue
            if self.rows.method(row) == method:
                if self.rows.properties(row) == message.raw_properties:
                    return tag
                similar = similar or tag
        return similar

    def publications(self) -> Iterator[tuple[int, Publication]]:
        """What is unsettled, message by message."""
        for tag in range(self.low, self.stop):
            if tag not in self.settled:
                row = tag - self.row_offset
                yield tag, publication_of(self.rows, row, self.mandatory, self.receipt)


def publication_of(rows: Rows, row: int, mandatory: bool, receipt: Receipt | None) -> Publication:
    return Publication(rows.method(row), rows.properties(row), rows.body(row), mandatory, receipt)


class RowRuns:
    """All runs of a channel, in the order of their tags."""

    __slots__ = ("_runs", "count")

    def __init__(self) -> None:
        self._runs: deque[Run] = deque()
        self.count = 0  # rows that are not confirmed

    def add(self, rows: Rows, row: int, first: int, count: int, mandatory: bool, receipt: Receipt) -> None:
        last = self._runs[-1] if self._runs else None
        if last is not None and last.rows is rows and last.stop == first:
            last.stop += count
        else:
            self._runs.append(Run(rows, row, first, count, mandatory, receipt))
        self.count += count

    def confirm(self, tag: int, multiple: bool, acked: bool) -> None:
        runs = self._runs
        if not multiple:
            for run in runs:
                if run.low <= tag < run.stop:
                    self.count -= run.settle(tag, acked)
                    break
        else:
            for run in runs:
                if run.low > tag:
                    break
                self.count -= run.settle_through(tag, acked)
        while runs and not runs[0].outstanding:
            runs.popleft()

    def note_returned(self, method: bytes, message: Message) -> bool:
        """Whether a message that came back is a row; `method` is the payload that it was published with."""
        return any(run.note_returned(method, message) for run in self._runs if run.mandatory)

    def take(self) -> dict[int, Publication]:
        """Everything that is not confirmed, by tag; there is nothing here then."""
        taken = {tag: publication for run in self._runs for tag, publication in run.publications()}
        self._runs.clear()
        self.count = 0
        return taken

    def abandon(self, error: ClientError) -> None:
        """What became of them will never be known."""
        for run in self._runs:
            if run.outstanding:
                run.receipt.abandon(error, run.outstanding)
        self._runs.clear()
        self.count = 0


class Unconfirmed:
    __slots__ = ("last_tag", "lowest", "mandatory_count", "publications", "rows")

    def __init__(self) -> None:
        self.publications: dict[int, Publication] = {}
        self.rows = RowRuns()
        self.last_tag = 0  # of the last publish on this channel, or row
        self.lowest = 1  # nothing below this tag is in `publications`
        self.mandatory_count = 0  # publications that may be returned

    @property
    def count(self) -> int:
        return len(self.publications) + self.rows.count

    def add(self, publication: Publication) -> int:
        """It gets the next tag."""
        self.last_tag += 1
        self.publications[self.last_tag] = publication
        if publication.mandatory:
            self.mandatory_count += 1
        return 0

    def add_rows(self, rows: Rows, row: int, count: int, mandatory: bool, receipt: Receipt) -> None:
        """So many from `row` on get the next tags."""
        self.rows.add(rows, row, self.last_tag + 1, count, mandatory, receipt)
        self.last_tag += count

    def confirm(self, tag: int, multiple: bool, acked: bool) -> int:
        """basic.ack or basic.nack of the broker."""
        if multiple and (tag == 0 or tag > self.last_tag):
            tag = self.last_tag
        if self.rows.count:
            self.rows.confirm(tag, multiple, acked)
        if not multiple:
            self._settle(self.publications.pop(tag, None), acked)
            return 0
        lowest = self.lowest
        if not self.publications and lowest <= tag:
            lowest = tag + 1
        while lowest <= tag:
            self._settle(self.publications.pop(lowest, None), acked)
            lowest += 1
        self.lowest = lowest
        return 0

    def _settle(self, publication: Publication | None, acked: bool) -> int:
        if publication is not None:
            if publication.mandatory:
                self.mandatory_count -= 1
            if publication.receipt is not None:
                publication.receipt.settle(acked, publication.returned)
        return 0

    def note_returned(self, method: bytes, message: Message) -> None:
        """Find what came back. Returns carry no tag, but they come in order and before the confirm.

        `method` is the payload that it was published with.
        """
        publication = self._find_returned(method, message) if self.mandatory_count else None
        if publication is not None:
            publication.returned = message
        elif self.rows.count:
            self.rows.note_returned(method, message)

    def _find_returned(self, method: bytes, message: Message) -> Publication | None:
        """The first one that looks like it; the broker may have changed its properties (direct reply-to)."""
        similar: Publication | None = None
        for publication in self.publications.values():
            if (
                publication.mandatory
                and publication.returned is None
                and publication.body == message.body
                and publication.method == method
            ):
                if publication.properties == message.raw_properties:
                    return publication
                similar = similar or publication
        return similar

    def refused(self, error: ClientError, refusals_max: int) -> None:
        """The broker closed the connection, perhaps because of one of these: that cannot go on for ever."""
        self.publications = {**self.publications, **self.rows.take()}
        for tag, publication in list(self.publications.items()):
            publication.refusals += 1
            if publication.refusals >= refusals_max:
                del self.publications[tag]
                if publication.receipt is not None:
                    publication.receipt.abandon(error)

    def take(self) -> list[Publication]:
        """Everything, in the order of the tags, which begin anew."""
        taken = sorted({**self.publications, **self.rows.take()}.items())
        self.publications = {}
        self.last_tag, self.lowest, self.mandatory_count = 0, 1, 0
        return [publication for _, publication in taken]

    def abandon(self, error: ClientError) -> None:
        """The channel is closed for good: what became of them will never be known."""
        for publication in self.publications.values():
            if publication.receipt is not None:
                publication.receipt.abandon(error)
        self.rows.abandon(error)
        self.publications.clear()
