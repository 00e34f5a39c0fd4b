"""Class exchange: declare, delete, and RabbitMQ's bindings between exchanges."""

from __future__ import annotations

from embermq.amqp.channel.bulk_settle import await_unbinding
from embermq.amqp.channel.channel import Channel
from embermq.amqp.channel.publish_checks import require_topic
from embermq.amqp.connection.state import wait_while
from embermq.broker.exchange.binding import via_names
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.vhost import DEFAULT_EXCHANGE, check_exchange_type
from embermq.errors import AccessRefused, FrameError
from embermq.wire import methods


def clean(name: str) -> str:
    """A name as it is kept: UTF-8, or an error; without line breaks, as RabbitMQ has it."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise FrameError("Malformed UTF-8 in shortstr", blame=0) from None
    return name.replace("\r", "").replace("\n", "")


def refuse_default(name: str) -> None:
    if name == DEFAULT_EXCHANGE:
        raise AccessRefused("operation not permitted on the default exchange")


def on_exchange_declare(channel: Channel, method: methods.ExchangeDeclare) -> None:
    name = clean(method.exchange)
    if not method.passive:
        check_exchange_type(method.type)
    refuse_default(name)
    if method.passive:
        channel.user.require_any(channel.vhost.name, "exchange", name)
        channel.vhost.exchange(name)
    else:
        channel.user.require("configure", channel.vhost.name, "exchange", name)
        wait_while(channel.vhost.binding_removal.is_going(Exchange, name))
        alternate = method.arguments.get("alternate-exchange")
        if isinstance(alternate, str):
            channel.user.require("read", channel.vhost.name, "exchange", name)
            channel.user.require("write", channel.vhost.name, "exchange", alternate)
        channel.vhost.declare_exchange(
            name,
            method.type,
            durable=method.durable,
            auto_delete=method.auto_delete,
            internal=method.internal,
            arguments=method.arguments,
        )
    if not method.no_wait:
        channel.send(methods.ExchangeDeclareOk())


def on_exchange_delete(channel: Channel, method: methods.ExchangeDelete) -> None:
    name = clean(method.exchange)
    refuse_default(name)
    channel.user.require("configure", channel.vhost.name, "exchange", name)
    exchange = channel.vhost.delete_exchange_named(name, method.if_unused)
    if not method.no_wait:
        channel.send(methods.ExchangeDeleteOk())
    if exchange is not None:
        await_unbinding(channel, exchange)


def on_exchange_bind(channel: Channel, method: methods.ExchangeBind) -> None:
    require_binding_rights(channel, method.destination, method.source)
    for name in via_names(method.arguments):
        refuse_default(name)
        channel.user.require("read", channel.vhost.name, "exchange", name)
    source: Exchange = channel.vhost.exchange(method.source)
    require_topic(channel, "read", source, method.routing_key)
    destination: Exchange = channel.vhost.exchange(method.destination)
    channel.vhost.bind(source, destination, method.routing_key, method.arguments)
    if not method.no_wait:
        channel.send(methods.ExchangeBindOk())


def on_exchange_unbind(channel: Channel, method: methods.ExchangeUnbind) -> None:
    require_binding_rights(channel, method.destination, method.source)
    source = channel.vhost.exchanges.get(method.source)
    destination = channel.vhost.exchanges.get(method.destination)
    if source is not None:
        require_topic(channel, "read", source, method.routing_key)
    if source is not None and destination is not None:
        channel.vhost.unbind(source, destination, method.routing_key, method.arguments)
    if not method.no_wait:
        channel.send(methods.ExchangeUnbindOk())


def require_binding_rights(channel: Channel, destination: str, source: str) -> None:
    refuse_default(destination)
    refuse_default(source)
    channel.user.require("write", channel.vhost.name, "exchange", destination)
    channel.user.require("read", channel.vhost.name, "exchange", source)
