"""Filters of stream consumers: only messages with some filter values are delivered.

A publisher gives a message a value with the header `x-stream-filter-value`; a consumer names those it wants
(`x-stream-filter`), whether it wants messages without one as well (`x-stream-match-unfiltered`), and headers
that must be equal (`x-stream-filter-headers`). Nothing else is delivered. Segments that cannot hold a wanted
value, by their Bloom filters, are not even read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from embermq.broker.message.header_reader import HeaderReader
from embermq.broker.message.message import Message
from embermq.broker.message.record import content_at, header_size_at, message_of
from embermq.broker.queue.arguments import boolean, selector_from, type_name
from embermq.errors import PreconditionFailed
from embermq.store.log.bloom_filter import (
    SegmentFilter,
    delete_stray_filters,
    filter_path,
    read_filter,
    write_filter,
)
from embermq.store.log.record import PERSISTENT

if TYPE_CHECKING:
    from embermq.broker.selector.selector import Selector
    from embermq.store.log.log import Log
    from embermq.store.log.segment import Segment

VALUE = "x-stream-filter-value"
VALUE_IN_TABLE = b"\x15x-stream-filter-value"
VALUE_READER = HeaderReader((VALUE,))
KNOWN_MAX = 256  # filters of a stream in memory, of 4 KiB each
FILTER, UNFILTERED, HEADERS = "x-stream-filter", "x-stream-match-unfiltered", "x-stream-filter-headers"


class Choice:
    """What a consumer wants."""

    def __init__(
        self,
        values: frozenset[str] | None,
        unfiltered: bool,
        headers: dict[str, object],
        selector: Selector | None = None,
    ) -> None:
        self.selector = selector
        self.values = values  # None: any, or none at all
        self.unfiltered = unfiltered
        self.headers = headers
        self.reader = HeaderReader(tuple({VALUE, *headers}))

    def wants(self, payload: bytes) -> bool:
        """The message of this record?"""
        at = content_at(payload, 0)
        if not self.wants_header(payload[at : at + header_size_at(payload, 0)]):
            return False
        return self.selector is None or self.selector.matches(message_of(payload, PERSISTENT))

    def wants_header(self, header: bytes) -> bool:
        """A message with this content header, as far as its headers go?"""
        if self.values is None and not self.headers:
            return True
        if not self.headers and VALUE_IN_TABLE not in header:
            return self.unfiltered
        found = self.reader.read(header, len(header))
        if self.values is not None:
            value = found.get(VALUE)
            if not (value in self.values if isinstance(value, str) else self.unfiltered):
                return False
        return all(name in found and found[name] == value for name, value in self.headers.items())

    def may_be_in(self, segment_filter: SegmentFilter) -> bool:
        """Could there be a wanted message in the segment?"""
        if self.values is None or (self.unfiltered and segment_filter.has_others):
            return True
        return any(segment_filter.may_have(value) for value in self.values)


def choice_from(what: str, arguments: Mapping[str, object]) -> Choice | None:
    """None: the consumer wants everything."""
    values, headers = arguments.get(FILTER), arguments.get(HEADERS, {})
    unfiltered = arguments.get(UNFILTERED, False)
    listed = values if isinstance(values, list) else [] if values is None else [values]
    for name, problem in (
        (FILTER, next((unacceptable(value) for value in listed if not isinstance(value, str)), None)),
        (UNFILTERED, boolean(unfiltered)),
        (HEADERS, None if isinstance(headers, dict) else unacceptable(headers)),
    ):
        if problem is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {what}: {problem}")
    assert isinstance(headers, dict)
    selector = selector_from(what, arguments)
    if not listed and not headers and selector is None:
        return None
    wanted = frozenset(str(value) for value in listed) if listed else None
    return Choice(wanted, unfiltered is True or wanted is None, headers, selector)


def unacceptable(value: object) -> str:
    return f"{{unacceptable_type,{type_name(value)}}}"


def value_of(message: Message) -> str | None:
    if message.content.find(VALUE_IN_TABLE, 0, message.header_size) < 0:
        return None
    value = VALUE_READER.read(message.content, message.header_size).get(VALUE)
    return value if isinstance(value, str) else None


class Filters:
    """The filters of a stream's segments; of one that was being written at a restart there is none."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.known: dict[Segment, SegmentFilter | None] = {}
        self.growing: Segment | None = None  # the segment that `known[growing]` is being made for
        self.sealed: list[Segment] = []  # full, their filters not on disk
        self.used = False  # has any message a value?
        delete_stray_filters(log)

    def add(self, value: str | None) -> None:
        """A message was appended."""
        segment = self.log.active
        assert segment is not None
        if segment is not self.growing:
            self.seal()
            self.growing = segment
            self.known[segment] = SegmentFilter() if segment.count == 1 else None
        found = self.known[segment]
        if found is not None:
            found.add(value)
        self.used = self.used or value is not None

    def seal(self) -> None:
        """The segment is full: its filter goes to disk behind it, if filters are used."""
        segment, self.growing = self.growing, None
        if segment is None:
            return
        if self.used:
            self.sealed.append(segment)
        else:
            self.known.pop(segment, None)

    def write(self) -> None:
        """The log is on disk; so may be the filters of its full segments."""
        sealed, self.sealed = self.sealed, []
        for segment in sealed:
            found = self.known.get(segment)
            if found is not None and not segment.removed:
                with contextlib.suppress(OSError):
                    write_filter(self.log, segment, found)
        if len(self.known) >= KNOWN_MAX:
            self.make_room()

    def passes_over(self, segment: Segment, choice: Choice) -> bool:
        """Can the segment be skipped?"""
        if segment not in self.known:
            if len(self.known) >= KNOWN_MAX:
                self.make_room()
            self.known[segment] = read_filter(self.log, segment)
        found = self.known[segment]
        return found is not None and not choice.may_be_in(found)

    def make_room(self) -> None:
        """What is on disk can be read again."""
        kept = {self.growing, *self.sealed}
        self.known = {segment: found for segment, found in self.known.items() if segment in kept}

    def forget(self, removed: list[Segment]) -> None:
        """Segments that are gone take their filters with them."""
        for segment in removed:
            self.known.pop(segment, None)
            path = filter_path(self.log, segment)
            self.log.disk.delete_segment(path, path)
