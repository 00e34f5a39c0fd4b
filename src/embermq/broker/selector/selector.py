"""A selector: a condition on messages (JMS 2, SQL-92), compiled once, asked of each message's encoded bytes.

    Selector("tenant = 'acme' AND (amqp.priority > 4 OR retries IS NULL)").matches(message)

A name is a header; with dots, a field of a table in it; in double quotes, a name of any characters. Under
`amqp.` stand the properties (`amqp.content_type`, `amqp.timestamp`) and what the broker knows of the message
(`amqp.routing_key`, `amqp.exchange`, `amqp.size`, `amqp.redelivered`); JMS's own names (`JMSPriority`,
`JMSTimestamp`) mean the same. Only the headers that are named are decoded.
"""

from __future__ import annotations

from embermq.broker.message.message import Message
from embermq.broker.selector.evaluation import evaluation
from embermq.broker.selector.fields import FACTS, PROPERTIES, Fields
from embermq.broker.selector.like import PATTERN_CHARACTERS_MAX
from embermq.broker.selector.syntax import Like, Name, Node, parse
from embermq.broker.selector.token import SelectorError

HEADERS_MAX = 16
SHORTSTR_BYTES_MAX = 255
# What a selector may ask of a message besides its headers, under `amqp.`
NAMED = frozenset((*PROPERTIES, *FACTS)) - {"headers", "timestamp_ms", "delivery_mode_name"}
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


class Selector:
    __slots__ = ("condition", "fields", "names", "text", "tree")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parse(text)
        check_patterns(self.tree, text)
        numbers: dict[Name, int] = {}
        self.condition = evaluation(self.tree, numbers)
        self.names = tuple(numbers)
        headers = {name.path[0] for name in self.names if fact_of(name, text) is None}
        if len(headers) > HEADERS_MAX:
            raise SelectorError(f"it names {len(headers)} headers, {HEADERS_MAX} are the most", text, 0)
        for header in headers:
            check_header(header, text)
        self.fields = Fields()
        for name in self.names:
            ask(self.fields, name)

    def matches(self, message: Message, redelivered: bool = False) -> bool:
        """Is the condition true of the message? Unknown is not enough."""
        return self.condition.value(self.fields.of_message(message, redelivered)) is True


def ask(fields: Fields, name: Name) -> None:
    """Have this name's value read, behind those that were asked for before."""
    fact = fact_of(name)
    if fact is None:
        fields.ask_header(name.path)
    else:
        fields.ask_fact(fact)


def fact_of(name: Name, text: str = "") -> str | None:
    """Which property or fact the name stands for; None: it is a header."""
    first = name.path[0]
    if first == "amqp":
        fact = ".".join(name.path[1:])
        if fact not in NAMED:
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


def check_patterns(node: Node, text: str) -> None:
    if isinstance(node, Like) and len(node.pattern) > PATTERN_CHARACTERS_MAX:
        problem = f"a pattern of more than {PATTERN_CHARACTERS_MAX} characters"
        raise SelectorError(problem, text, max(text.find(node.pattern), 0))
    for part in vars(node).values():
        for child in part if isinstance(part, tuple) else (part,):
            if isinstance(child, Node):
                check_patterns(child, text)
