"""The streaming reader of streams: exactly once, because a range of offsets is always the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.decoding.decode_errors import refuser
from pyspark_embermq.decoding.rows import RowMaker
from pyspark_embermq.errors import AMQPSourceError, DataLossError, Missing
from pyspark_embermq.leases import check_kind
from pyspark_embermq.offsets import (
    ABOUT,
    Bounds,
    Offsets,
    Place,
    Range,
    about,
    in_order,
    limited,
    parts,
    places_from,
    places_in,
)
from pyspark_embermq.options import Options
from pyspark_embermq.runtime.error_text import with_plain_errors
from pyspark_embermq.runtime.gc_pause import patient_collector
from pyspark_embermq.source.pace import Pace
from pyspark_embermq.source.progress import Progress
from pyspark_embermq.source.pushdown import NOTHING_PUSHED, Pushed
from pyspark_embermq.source.subscription import Subscription, names

log = logging.getLogger("pyspark_embermq")


@dataclass
class RangePartition(InputPartition):
    part: Range


@with_plain_errors
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process beside the driver; copies of it read on the executors."""

    def __init__(self, schema: StructType, options: Options, queues: Sequence[str]) -> None:
        self.schema = schema
        self.options = options
        self.link = BrokerLink(options)
        self.subscription = Subscription(self.link, queues, streams=True)
        self.pace = Pace(options)
        self.progress = Progress(self.link)
        self.reached: Offsets = {}  # by the last batch that was planned
        self.target: Offsets | None = None  # where a trigger AvailableNow ends

    # -- in the driver's process

    def initialOffset(self) -> dict[str, Any]:
        queues = self.subscription.current()
        places = places_from("startingOffsets", self.options.starting_offsets, queues)
        bounds = {queue: self.link.bounds(queue) for queue in queues} if self.link.is_embermq else {}
        begin = {queue: resolved(self.link, queue, place) for queue, place in places.items()}
        return self.offset(begin, bounds, {})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        check_kind(start, of_leases=False)
        known = places_in(start)
        bounds = self.bounds()
        if known and not set(known) & set(bounds) and not self.subscription.may_change:
            raise AMQPSourceError(
                f"the checkpoint is of {names(known)}, and not of {names(bounds)}: use another one"
            )
        begin = self.checked(start, bounds)
        end = {queue: max(found.next, begin[queue]) for queue, found in bounds.items()}
        if self.target is not None:
            target = self.target
            end = {queue: min(end[queue], max(target.get(queue, 0), begin[queue])) for queue in end}
        waiting = sum(end[queue] - begin[queue] for queue in end)
        if self.target is None and not self.pace.is_due(waiting):
            self.reached = begin
            return start
        rows = self.pace.row_limit(self.row_limit(limit), wait=self.target is not None)
        if rows is not None:
            end = limited(begin, end, rows)
        self.reached = end
        first = {queue: place for queue, place in begin.items() if known.get(queue) != place}
        if not first and all(known[queue] == place for queue, place in end.items()):
            return start
        self.pace.took(sum(end[queue] - begin[queue] for queue in end))
        # A queue that is not read at the moment keeps its place.
        return self.offset({**known, **end}, bounds, first)

    def bounds(self) -> dict[str, Bounds]:
        """Of all streams of the subscription; one that was deleted a moment ago is not of it any more."""
        found: dict[str, Bounds] = {}
        for queue in self.subscription.current():
            try:
                found[queue] = self.link.bounds(queue)
            except Missing:
                if queue in self.subscription.current(at_once=True):
                    raise
        return found

    def offset(self, places: Offsets, bounds: dict[str, Bounds], first: Offsets) -> dict[str, Any]:
        streams = {queue: found.id for queue, found in sorted(bounds.items()) if found.id}
        rest = {"partitions": self.options.min_partitions, "streams": streams, "first": in_order(first)}
        return {ABOUT: {name: value for name, value in rest.items() if value}, **in_order(places)}

    def checked(self, start: dict[str, Any], bounds: dict[str, Bounds]) -> Offsets:
        """Where to go on; a queue that is new starts at its beginning, one that lost messages is told of."""
        known, streams = places_in(start), about(start).get("streams", {})
        begin: Offsets = {}
        for queue, found in bounds.items():
            begin[queue] = known.get(queue, found.first)
            if is_another(streams.get(queue), found):
                self.lose(
                    f"stream '{queue}' is not the one that the checkpoint is of: it was deleted and made anew"
                )
                begin[queue] = found.first
            elif begin[queue] < found.first:
                lost(self.options, queue, begin[queue], found.first)
            elif begin[queue] > found.next:
                self.lose(
                    f"stream '{queue}' ends at {found.next}, but the checkpoint is at {begin[queue]}: "
                    "it was deleted and made anew"
                )
                begin[queue] = found.first
        return begin

    def lose(self, problem: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{problem}. Use another checkpoint, or failOnDataLoss=false")
        log.warning("%s; reading goes on where the stream begins", problem)

    def row_limit(self, limit: ReadLimit) -> int | None:
        if isinstance(limit, ReadMaxRows):
            rows = max(int(limit.max_rows), 1)
            bytes_max = self.options.max_bytes_per_trigger  # Spark knows of one limit only
            return min(rows, self.rows_in(bytes_max)) if bytes_max else rows
        if isinstance(limit, ReadMaxBytes):
            return self.rows_in(limit.max_bytes)
        assert isinstance(limit, ReadAllAvailable), f"{limit} is not offered by getDefaultReadLimit"
        return None

    def rows_in(self, size: int) -> int:
        queues = self.subscription.current()
        largest = max((self.link.message_bytes(queue) for queue in queues), default=1.0)
        return max(int(size / max(largest, 1.0)), 1)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_records_per_trigger:
            return ReadMaxRows(self.options.max_records_per_trigger)
        if self.options.max_bytes_per_trigger:
            return ReadMaxBytes(self.options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any]:
        latest = {queue: found.next for queue, found in self.bounds().items()}
        return self.progress.report(self.reached, latest)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = {queue: found.next for queue, found in self.bounds().items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """As the end says, whatever the options are by now: a batch that is run again has the same parts."""
        check_kind(end, of_leases=False)
        rest = about(end)
        reached = places_in(end)
        for queue, stream in rest.get("streams", {}).items():
            # A batch that was planned before a restart is read without asking for the latest offset again.
            if queue in reached and not self.is_there(queue, stream):
                del reached[queue]
        begin = {**places_in(start), **rest.get("first", {})}
        count = int(rest.get("partitions", self.options.min_partitions))
        return [RangePartition(part) for part in parts(begin, reached, count)]

    def is_there(self, queue: str, stream: str) -> bool:
        """Whether the stream that a batch was planned for is there to be read."""
        try:
            if not is_another(stream, self.link.bounds(queue)):
                return True
            self.lose(f"stream '{queue}' is not the one that the batch is of: it was deleted and made anew")
        except Missing:
            if not self.subscription.may_change:
                raise
            self.lose(f"stream '{queue}' was deleted before its batch was read")
        return False

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: a stream keeps what was read."""

    def stop(self) -> None:
        self.link.close()

    # -- on an executor

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        return read_range(self.options, self.schema, partition.part)


def is_another(stream: str | None, found: Bounds) -> bool:
    """Whether a stream is known to be another than the one of that name was; some brokers do not tell."""
    return bool(stream and found.id and stream != found.id)


def read_range(
    options: Options, schema: StructType, part: Range, pushed: Pushed = NOTHING_PUSHED
) -> Iterator[Any]:
    """The rows of a range, in record batches; those without a row that a filter wants are left out."""
    with BrokerLink(options) as link, patient_collector():
        maker = RowMaker(schema, options, refuser(link))
        expected = part.start
        for arrived in link.read(part, maker.wanted | pushed.columns, maker.timed):
            first, last = arrived.offset[0].as_py(), arrived.offset[-1].as_py()
            if first > expected and not options.has_stream_filter:
                lost(options, part.queue, expected, first)
            expected = last + 1
            if not pushed.leaves_out(arrived):
                yield from maker.batches(arrived, part.queue)
        if expected < part.end and not options.has_stream_filter:
            lost(options, part.queue, expected, part.end)


def resolved(link: BrokerLink, queue: str, place: Place, option: str = "startingOffsets") -> int:
    """The offset that a place means at this moment."""
    if place.kind == "timestamp":
        return link.offset_at(queue, place.value)
    if place.kind == "offset" and not link.is_embermq:
        return place.value  # to ask others for the end takes a second
    bounds = link.bounds(queue)
    if place.kind == "offset":
        if place.value > bounds.next:
            raise AMQPSourceError(
                f"option {option!r} is {place.value}, but stream '{queue}' ends at {bounds.next}"
            )
        return place.value
    return bounds.first if place.kind == "earliest" else bounds.next


def lost(options: Options, queue: str, start: int, end: int) -> None:
    """Messages of a stream have fallen to its retention before they were read."""
    problem = f"messages {start} to {end - 1} of stream '{queue}' are not there any more"
    if options.fail_on_data_loss:
        raise DataLossError(
            f"{problem}: its retention (x-max-age, x-max-length-bytes) was faster than the query. "
            "With failOnDataLoss=false the query goes on without them"
        )
    log.warning("%s", problem)
