"""Dead letters of messages that cannot be decoded: published to an exchange, with the reason in a header."""

from __future__ import annotations

from typing import Any

from embermq.client import Message, Outgoing, Properties
from pyspark_embermq.broker import BrokerLink
from pyspark_embermq.decoding.rows import Refuse

REASON_HEADER = "x-decode-error"


def refuser(link: BrokerLink) -> Refuse | None:
    """Publishes messages to the dead-letter exchange and waits for the confirms; None when there is none."""
    options = link.options
    if options.on_decode_error != "dead-letter":
        return None

    def refuse(refused: list[tuple[Message, str]]) -> None:
        with link.channel() as channel:
            channel.publish_batch(
                [letter(message, why, options.dead_letter_routing_key) for message, why in refused],
                exchange=options.dead_letter_exchange,
            )

    return refuse


def letter(message: Message, why: str, routing_key: str) -> Outgoing:
    properties: Any = message.properties
    named = {name: getattr(properties, name) for name in Properties.__slots__}
    named["headers"] = {**message.headers, REASON_HEADER: why}
    named["delivery_mode"] = 2
    return Outgoing(message.body, routing_key or message.routing_key, properties=Properties(**named))
