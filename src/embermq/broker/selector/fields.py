"""The fields of a message that selectors name, read from its encoded bytes: headers, properties, facts.

Only what is named is decoded. The bytes may be a message's own, or stand in a block of a log.
"""

from __future__ import annotations

from decimal import Decimal

from embermq.broker.message.message import FLAGS_AT, Message
from embermq.wire.field_scan import FieldScan

# In the order of their flags, from the highest bit on.
PROPERTIES = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
COUNT = len(PROPERTIES)
HEADERS, DELIVERY_MODE, PRIORITY, TIMESTAMP = (
    PROPERTIES.index(name) for name in ("headers", "delivery_mode", "priority", "timestamp")
)
FIRST_FLAG = 0x8000
NAMES_PER_SCAN = 16
# What else can be asked for, numbered behind the properties.
FACTS = ("routing_key", "exchange", "size", "redelivered", "timestamp_ms", "delivery_mode_name")
ROUTING_KEY, EXCHANGE, SIZE, REDELIVERED, TIMESTAMP_MS, DELIVERY_MODE_NAME = range(COUNT, COUNT + len(FACTS))
NAMED = (*PROPERTIES, *FACTS)
MODE_NAMES = {1: "NON_PERSISTENT", 2: "PERSISTENT"}


class Header:
    """A header that is named: where its value goes, and where it is found."""

    __slots__ = ("number", "path", "place", "scan")

    def __init__(self, place: int, scan: FieldScan, number: int, path: tuple[str, ...]) -> None:
        self.place = place
        self.scan = scan
        self.number = number  # in the scan
        self.path = path  # into nested tables


class Fields:
    """What is read of each message, in the order in which it was asked for."""

    def __init__(self) -> None:
        self.count = 0
        self.scans: list[FieldScan] = []
        self.headers: list[Header] = []
        self.facts: list[tuple[int, int]] = []  # place in the values, which
        self.reads_properties = False  # others than headers
        # Where the headers and the other properties of the message that is read stand; 0: not there.
        self.headers_at = 0
        self.at = [0] * COUNT

    def ask_fact(self, name: str) -> None:
        """A property by its name, or a fact."""
        which = NAMED.index(name)
        self.facts.append((self.count, which))
        self.reads_properties = self.reads_properties or which < COUNT or which >= TIMESTAMP_MS
        self.count += 1

    def ask_header(self, path: tuple[str, ...]) -> None:
        """The header of that name, or a field of a table in it."""
        name = path[0].encode("utf-8", "surrogateescape")
        for scan in self.scans:
            if name in scan.names:
                break
        else:
            names = self.scans[-1].names if self.scans else ()
            known = tuple(known.decode("utf-8", "surrogateescape") for known in names)
            full = len(known) == NAMES_PER_SCAN
            scan = FieldScan((path[0],) if full else (*known, path[0]))
            if not full and self.scans:
                self.replace_scan(self.scans.pop(), scan)
            self.scans.append(scan)
        self.headers.append(Header(self.count, scan, scan.names.index(name), path[1:]))
        self.count += 1

    def replace_scan(self, old: FieldScan, scan: FieldScan) -> None:
        """The new one has all its names, in the same places."""
        for header in self.headers:
            if header.scan is old:
                header.scan = scan

    def of_message(self, message: Message, redelivered: bool) -> list[object]:
        size = message.size - message.header_size
        return self.read(message.names, 0, message.content, 0, message.header_size, size, redelivered)

    def read(
        self,
        names: bytes,
        names_at: int,
        content: bytes,
        content_at: int,
        header_size: int,
        body_size: int,
        redelivered: bool,
    ) -> list[object]:
        values: list[object] = [None] * self.count
        if self.headers or self.reads_properties:
            self.find_properties(content, content_at + FLAGS_AT)
        if self.headers_at and self.headers:
            for scan in self.scans:
                scan.read(content, self.headers_at, content_at + header_size)
            for header in self.headers:
                if header.scan.has(header.number):
                    value = header.scan.value(content, header.number)
                    values[header.place] = inner(value, header.path) if header.path else plain(value)
        for place, which in self.facts:
            if which < COUNT or which >= TIMESTAMP_MS:
                values[place] = self.property_value(content, which)
            elif which == ROUTING_KEY:
                start = names_at + 1 + names[names_at]
                values[place] = shortstr(names, start)
            elif which == EXCHANGE:
                values[place] = shortstr(names, names_at)
            else:
                values[place] = body_size if which == SIZE else bool(redelivered)
        return values

    def find_properties(self, content: bytes, pos: int) -> None:
        """Note where they stand. They were checked when they came."""
        flags = content[pos]
        flags = flags << 8 | content[pos + 1]
        more = flags
        pos += 2
        while more & 1:
            more = content[pos + 1]
            pos += 2
        self.headers_at = 0
        last = COUNT if self.reads_properties else HEADERS + 1
        for which in range(last):
            if not flags & (FIRST_FLAG >> which):
                if self.reads_properties:
                    self.at[which] = 0
                continue
            if self.reads_properties:
                self.at[which] = pos
            if which == HEADERS:
                self.headers_at = pos
                if not self.reads_properties:
                    return
                pos += 4 + int.from_bytes(content[pos : pos + 4], "big")
            elif which == TIMESTAMP:
                pos += 8
            elif which in (DELIVERY_MODE, PRIORITY):
                pos += 1
            else:
                pos += 1 + content[pos]

    def property_value(self, content: bytes, which: int) -> object:
        if which in (TIMESTAMP_MS, TIMESTAMP):
            at = self.at[TIMESTAMP]
            if at == 0:
                return None
            seconds = int.from_bytes(content[at : at + 8], "big")
            return seconds * 1000 if which == TIMESTAMP_MS else seconds
        if which in (DELIVERY_MODE_NAME, DELIVERY_MODE):
            at = self.at[DELIVERY_MODE]
            mode = content[at] if at else 1
            return mode if which == DELIVERY_MODE else MODE_NAMES.get(mode)
        at = self.at[which]
        if which == PRIORITY:
            return content[at] if at else 0
        return shortstr(content, at) if at else None


def shortstr(buf: bytes, at: int) -> str:
    return buf[at + 1 : at + 1 + buf[at]].decode("utf-8", "surrogateescape")


def inner(value: object, path: tuple[str, ...]) -> object:
    """What stands in nested tables under that path."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return plain(value)


def plain(value: object) -> object:
    """A header's value as selectors know it: decimals are numbers."""
    if isinstance(value, str):
        return value
    return float(value) if isinstance(value, Decimal) else value
