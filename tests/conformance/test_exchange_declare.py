"""exchange.declare: types, names, equivalence, passive and no-wait."""

from typing import Any

import pytest

from tests.conformance.model import (
    NO_DEFAULT,
    exchange,
    exchange_exists,
    no_exchange,
    raw_exchange_declare,
    round_trip,
)
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, RawClient, short_string, spec, unique

STANDARD = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}

default_access = rule(
    "001",
    "1.6",
    "exchange/default-access",
    "The default exchange is reachable only by publishing to an empty name",
)
equivalence = rule(
    "001",
    "1.6.2.1.4",
    "exchange.declare/equivalence",
    "Declaring an existing exchange again with other properties fails (RabbitMQ: 406 with the difference)",
)
passive = rule(
    "001",
    "1.6.2.1.4",
    "exchange.declare.passive/others-ignored",
    "With passive all fields but the name and no-wait are ignored and nothing is created",
)


@rule("001", "1.6", "exchange/required-types", "The server implements the types fanout and direct")
@pytest.mark.parametrize("kind", ["fanout", "direct"])
def test_required_types_can_be_declared(channel: RawChannel, kind: str) -> None:
    assert exchange_exists(channel, exchange(channel, kind))


@rule(
    "001", "1.6", "exchange/recommended-types", "The server implements the types topic and headers", "SHOULD"
)
@pytest.mark.parametrize("kind", ["topic", "headers"])
def test_recommended_types_can_be_declared(channel: RawChannel, kind: str) -> None:
    assert exchange_exists(channel, exchange(channel, kind))


@rule(
    "001", "1.6", "exchange/required-instances", 'There is an exchange "amq." + type for each standard type'
)
@rule("002", "3.1.3.2", "fanout/predeclared", "amq.fanout exists")
@rule("002", "3.1.3.3", "topic/predeclared", "amq.topic exists where the topic type is implemented")
@rule("002", "3.1.3.4", "headers/predeclared", "amq.match exists where the headers type is implemented")
@pytest.mark.parametrize("name", STANDARD)
def test_predeclared_exchanges_can_be_bound_and_have_their_type(channel: RawChannel, name: str) -> None:
    channel.bind(channel.declare(), name)
    channel.call(spec.Exchange.Declare(exchange=name, exchange_type=STANDARD[name], durable=True))


@rule(
    "001", "1.6", "exchange/default-exchange", "A direct exchange without a name is the default for Publish"
)
@rule("002", "3.1.3.1", "direct/default", "Each queue is bound to the nameless exchange by its own name")
def test_default_exchange_routes_by_queue_name(channel: RawChannel) -> None:
    queue = channel.declare()
    channel.publish(b"to the queue of this name", routing_key=queue)
    message = channel.get(queue)
    assert message is not None
    assert (message.method.exchange, message.method.routing_key) == ("", queue)


@default_access
@pytest.mark.parametrize(
    "request_",
    [
        spec.Exchange.Declare(exchange="", exchange_type="direct", durable=True),
        spec.Exchange.Declare(exchange="", passive=True),
        spec.Exchange.Delete(exchange=""),
        spec.Exchange.Bind(destination="", source="amq.fanout"),
        spec.Exchange.Bind(destination="amq.fanout", source=""),
        spec.Exchange.Unbind(destination="amq.fanout", source=""),
    ],
    ids=["declare", "passive", "delete", "bind-destination", "bind-source", "unbind"],
)
def test_default_exchange_is_refused_to_exchange_methods(channel: RawChannel, request_: Any) -> None:
    channel.call_fails(request_, 403, NO_DEFAULT)


@rule("001", "1.6.2.1", "exchange.declare/minimum", "At least 16 exchanges per virtual host", "SHOULD")
def test_many_exchanges(channel: RawChannel) -> None:
    names = [exchange(channel) for _ in range(64)]
    assert all(exchange_exists(channel, name) for name in names)
    for name in names:
        channel.call(spec.Exchange.Delete(exchange=name))


@rule(
    "001",
    "1.6.2.1.2",
    "exchange.declare.exchange/reserved",
    'Names that begin with "amq." are refused with 403',
)
@rule("002", "3.1.10", "naming/amq-exchange", "The prefix amq. belongs to standard exchanges")
def test_reserved_names_cannot_be_declared(channel: RawChannel) -> None:
    text = "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    channel.call_fails(spec.Exchange.Declare(exchange="amq.mine"), 403, text)


@rule(
    "001",
    "1.6.2.1.3",
    "exchange.declare.type/support",
    "A type that the server does not know is refused with 503",
)
@pytest.mark.parametrize("no_wait", [False, True])
def test_unknown_type_closes_the_connection(client: RawClient, no_wait: bool) -> None:
    request = spec.Exchange.Declare(exchange=unique(), exchange_type="bogus", nowait=no_wait)
    client.channel().send(request)
    text = "COMMAND_INVALID - unknown exchange type 'bogus'"
    client.expect_close_and_eof(503, text, spec.Exchange.Declare)


@rule("001", "1.6.2.1.3", "exchange.declare.type/empty", "An empty type is refused with 503")
def test_empty_type_closes_the_connection(client: RawClient) -> None:
    client.channel().send_method(40, 10, raw_exchange_declare(unique(), kind=""))
    client.expect_close_and_eof(503, "COMMAND_INVALID - invalid exchange type ''", spec.Exchange.Declare)


@rule("001", "1.6.2.1.4", "exchange.declare.passive/not-found", "Passive and missing: 404 on the channel")
def test_passive_declare_of_a_missing_exchange(channel: RawChannel) -> None:
    name = unique()
    channel.call_fails(spec.Exchange.Declare(exchange=name, passive=True), 404, no_exchange(name))


@passive
def test_passive_declare_ignores_type_and_flags(channel: RawChannel) -> None:
    for kind in ("fanout", "bogus"):
        flags = {"passive": True, "auto_delete": True}
        channel.call(spec.Exchange.Declare(exchange="amq.direct", exchange_type=kind, **flags))


@passive
def test_passive_declare_with_no_wait_has_no_effect(channel: RawChannel) -> None:
    channel.send(spec.Exchange.Declare(exchange="amq.direct", passive=True, nowait=True))
    round_trip(channel)


@equivalence
def test_declaring_again_alike_is_accepted(channel: RawChannel) -> None:
    name = exchange(channel, "topic")
    channel.call(spec.Exchange.Declare(exchange=name, exchange_type="topic", auto_delete=True))


@equivalence
@pytest.mark.parametrize(
    ("argument", "options", "received", "current"),
    [
        ("durable", {"durable": True}, "true", "false"),
        ("auto_delete", {"auto_delete": False}, "false", "true"),
        ("internal", {"internal": True}, "true", "false"),
    ],
)
def test_declaring_again_with_another_flag_fails(
    channel: RawChannel, argument: str, options: dict[str, bool], received: str, current: str
) -> None:
    name = exchange(channel)
    text = (
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for exchange '{name}' in vhost '/': "
        f"received '{received}' but current is '{current}'"
    )
    flags = {"auto_delete": True, **options}
    channel.call_fails(spec.Exchange.Declare(exchange=name, exchange_type="direct", **flags), 406, text)


@rule(
    "001",
    "1.6.2.1.3",
    "exchange.declare.type/typed",
    "An exchange cannot be declared again with another type (406, as RabbitMQ's clients expect; 530 there)",
)
def test_declaring_again_with_another_type_fails(channel: RawChannel) -> None:
    name = exchange(channel)
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{name}' in vhost '/': "
        "received 'fanout' but current is 'direct'"
    )
    request = spec.Exchange.Declare(exchange=name, exchange_type="fanout", auto_delete=True)
    channel.call_fails(request, 406, text)


@equivalence
def test_predeclared_exchange_with_other_flags_fails(channel: RawChannel) -> None:
    text = (
        "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.direct' in vhost '/': "
        "received 'false' but current is 'true'"
    )
    channel.call_fails(spec.Exchange.Declare(exchange="amq.direct", exchange_type="direct"), 406, text)


@rule("001", "1.1", "no-wait/exchange.declare", "With no-wait there is no reply, but the work is done")
def test_declare_without_waiting(channel: RawChannel) -> None:
    name = unique("exchange")
    channel.send(spec.Exchange.Declare(exchange=name, exchange_type="fanout", auto_delete=True, nowait=True))
    channel.call(spec.Exchange.Declare(exchange=name, passive=True))
    channel.call(spec.Exchange.Delete(exchange=name))


@rule(
    "001",
    "1.1",
    "no-wait/failure",
    "A method with no-wait that cannot be done raises its exception all the same",
)
def test_failure_without_waiting_still_closes_the_channel(channel: RawChannel) -> None:
    name = unique()
    channel.send(spec.Exchange.Declare(exchange=name, passive=True, nowait=True))
    channel.expect_close(404, no_exchange(name), spec.Exchange.Declare)


@rule("001", "1.1", "exchange-name/length", "Names of up to 255 octets, any UTF-8, name exchanges")
@pytest.mark.parametrize("name", ["e" * 255, "é" * 127, "signs : ; @ % $"], ids=["ascii", "utf-8", "signs"])
def test_long_and_unusual_names(channel: RawChannel, name: str) -> None:
    channel.send_method(40, 10, raw_exchange_declare(name))
    channel.expect(spec.Exchange.DeclareOk)
    channel.send_method(40, 20, b"\0\0" + short_string(name) + b"\0")
    channel.expect(spec.Exchange.DeleteOk)


@rule("001", "1.6.2.1.1", "exchange.declare.reserved-1/ignored", "The reserved ticket is not looked at")
def test_reserved_ticket_is_ignored(channel: RawChannel) -> None:
    channel.send_method(40, 10, b"\x12\x34" + raw_exchange_declare("amq.direct", flags=1)[2:])
    channel.expect(spec.Exchange.DeclareOk)
