"""A selector: a condition on messages (JMS 2, SQL-92), compiled once, asked of each message's encoded bytes.

    Selector("tenant = 'acme' AND (amqp.priority > 4 OR retries IS NULL)").matches(message)

A name is a header; with dots, a field of a table in it; in double quotes, a name of any characters. Under
`amqp.` stand the properties (`amqp.content_type`, `amqp.timestamp`) and what the broker knows of the message
(`amqp.routing_key`, `amqp.exchange`, `amqp.size`, `amqp.redelivered`); JMS's own names (`JMSPriority`,
`JMSTimestamp`) mean the same. Only the headers that are named are decoded.
"""

from __future__ import annotations

from collections.abc import Callable

from embermq.broker.message.message import FLAGS_AT, Message
from embermq.broker.selector.evaluation import evaluation, plain
from embermq.broker.selector.like import PATTERN_CHARACTERS_MAX
from embermq.broker.selector.syntax import Like, Name, Node, parse
from embermq.broker.selector.token import SelectorError
from embermq.wire.field_scan import FieldScan
from embermq.wire.properties import Properties

HEADERS_MAX = 16
SHORTSTR_BYTES_MAX = 255
# What a selector may ask of a message besides its headers.
PROPERTIES = (
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
FACTS: dict[str, Callable[[Message, bool], object]] = {
    "routing_key": lambda message, redelivered: message.routing_key,
    "exchange": lambda message, redelivered: message.exchange,
    "size": lambda message, redelivered: message.size - message.header_size,
    "redelivered": lambda message, redelivered: redelivered,
}
JMS_NAMES = {
    "JMSPriority": "priority",
    "JMSMessageID": "message_id",
    "JMSCorrelationID": "correlation_id",
    "JMSType": "type",
    "JMSTimestamp": "timestamp_ms",
    "JMSDeliveryMode": "delivery_mode_name",
    "JMSReplyTo": "reply_to",
    "JMSRedelivered": "redelivered",
}
DELIVERY_MODES = {1: "NON_PERSISTENT", 2: "PERSISTENT"}
DEFAULTS = {"priority": 0, "delivery_mode": 1}


class Selector:
    __slots__ = ("condition", "facts", "headers", "scan", "text", "tree")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parse(text)
        check_patterns(self.tree, text)
        numbers: dict[Name, int] = {}
        self.condition = evaluation(self.tree, numbers)
        self.headers: list[
            tuple[int, int, tuple[str, ...]]
        ] = []  # place in the values, number in the scan, rest
        self.facts: list[tuple[int, str]] = []  # place in the values, name
        wanted: dict[str, int] = {}
        for name, place in numbers.items():
            fact = fact_of(name, text)
            if fact is not None:
                self.facts.append((place, fact))
                continue
            check_header(name.path[0], text)
            number = wanted.setdefault(name.path[0], len(wanted))
            self.headers.append((place, number, name.path[1:]))
        if len(wanted) > HEADERS_MAX:
            raise SelectorError(f"it names {len(wanted)} headers, {HEADERS_MAX} are the most", text, 0)
        self.scan = FieldScan(tuple(wanted))

    def matches(self, message: Message, redelivered: bool = False) -> bool:
        """Is the condition true of the message? Unknown is not enough."""
        values: list[object] = [None] * (len(self.headers) + len(self.facts))
        if self.headers and self.read_headers(message):
            for place, number, rest in self.headers:
                if self.scan.has(number):
                    values[place] = inner(self.scan.value(message.content, number), rest)
        if self.facts:
            properties = None
            for place, name in self.facts:
                if name in FACTS:
                    values[place] = FACTS[name](message, redelivered)
                else:
                    properties = properties or message.properties
                    values[place] = property_value(properties, name)
        return self.condition(values) is True

    def read_headers(self, message: Message) -> bool:
        """Let the scan find the headers that are named; False: the message has none."""
        content = message.content
        flags = content[FLAGS_AT]
        if not flags & 0x20:
            return False
        pos = FLAGS_AT + 2
        if flags & 0x80:  # content-type
            pos += 1 + content[pos]
        if flags & 0x40:  # content-encoding
            pos += 1 + content[pos]
        self.scan.read(content, pos, message.header_size)
        return self.scan.found > 0


def inner(value: object, path: tuple[str, ...]) -> object:
    """What stands in nested tables under that path."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return plain(value)


def fact_of(name: Name, text: str) -> str | None:
    """Which property or fact the name stands for; None: it is a header."""
    first = name.path[0]
    if first == "amqp":
        fact = ".".join(name.path[1:])
        if fact not in FACTS and fact not in PROPERTIES:
            raise SelectorError(f"there is no 'amqp.{fact}'", text, max(text.find(f"amqp.{fact}"), 0))
        return fact
    if first.startswith("JMS") and len(name.path) == 1 and not first.startswith(("JMSX", "JMS_")):
        if first not in JMS_NAMES:
            raise SelectorError(f"'{first}' cannot be asked for", text, max(text.find(first), 0))
        return JMS_NAMES[first]
    return None


def check_header(name: str, text: str) -> None:
    """A header's name is a short string."""
    try:
        fits = len(name.encode("utf-8", "surrogateescape")) <= SHORTSTR_BYTES_MAX
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise SelectorError("no header can have a name like that", text, max(text.find(name), 0))


def property_value(properties: Properties, name: str) -> object:
    if name == "timestamp_ms":
        return None if properties.timestamp is None else properties.timestamp * 1000
    if name == "delivery_mode_name":
        return DELIVERY_MODES[properties.delivery_mode or 1]
    value: object = getattr(properties, name)
    return DEFAULTS.get(name) if value is None else value


def check_patterns(node: Node, text: str) -> None:
    if isinstance(node, Like) and len(node.pattern) > PATTERN_CHARACTERS_MAX:
        problem = f"a pattern of more than {PATTERN_CHARACTERS_MAX} characters"
        raise SelectorError(problem, text, max(text.find(node.pattern), 0))
    for part in vars(node).values():
        for child in part if isinstance(part, tuple) else (part,):
            if isinstance(child, Node):
                check_patterns(child, text)
