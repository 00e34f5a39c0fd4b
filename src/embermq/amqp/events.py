"""Events about connections, channels and consumers (`amq.rabbitmq.event`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.broker.events import consumer_created, consumer_deleted

if TYPE_CHECKING:
    from embermq.amqp.channel.channel import Channel
    from embermq.amqp.channel.consumer import ChannelConsumer
    from embermq.amqp.connection.connection import Connection
    from embermq.broker.events import Properties
    from embermq.errors import AMQPError

PROTOCOL = "{0,9,1}"  # as RabbitMQ writes it


def channel_name(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.number})"


def addresses(connection: Connection) -> Properties:
    peer, _, local = connection.name.partition(" -> ")
    peer_host, _, peer_port = peer.rpartition(":")
    host, _, port = local.rpartition(":")
    return {
        "peer_host": peer_host,
        "peer_port": int(peer_port or 0),
        "host": host,
        "port": int(port or 0),
        "protocol": PROTOCOL,
        "auth_mechanism": str(connection.mechanism),
    }


def connection_created(connection: Connection) -> Properties:
    assert connection.user is not None and connection.vhost is not None
    return {
        **connection_closed(connection),
        **addresses(connection),
        "type": "network",
        "user": connection.user.name,
        "vhost": connection.vhost.name,
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "timeout": connection.heartbeat_s,
    }


def connection_closed(connection: Connection) -> Properties:
    return {
        "pid": connection.name,
        "name": connection.name,
        "client_properties": connection.client_properties,
    }


def login(connection: Connection, user: str, error: str) -> Properties:
    told = {"name": user, "connection_name": connection.name, "connection_type": "network"}
    return {**told, **addresses(connection), **({"error": error} if error else {})}


def access_refused(connection: Connection, channel: int, error: AMQPError) -> Properties:
    """Not one of RabbitMQ's: a client that is logged in asked for more than its user may."""
    told = {"connection_name": connection.name, "error": error.detail}
    return {**told, **({"channel": channel} if channel else {})}


def emit_access_refused(connection: Connection, channel: int, error: AMQPError) -> None:
    assert connection.user is not None
    events = connection.broker.events
    with events.acting(connection.user.name):
        events.emit("access.refused", access_refused, connection, channel, error)


def channel_created(channel: Channel) -> Properties:
    return {
        **channel_closed(channel),
        "connection": channel.connection.name,
        "number": channel.number,
        "user": channel.user.name,
        "vhost": channel.vhost.name,
    }


def channel_closed(channel: Channel) -> Properties:
    name = channel_name(channel)
    return {"pid": name, "name": name}


def emit_consumer_created(consumer: ChannelConsumer) -> None:
    channel = consumer.channel
    channel.connection.broker.events.emit(
        "consumer.created", consumer_created, consumer, channel_name(channel), consumer.prefetch_count
    )


def emit_consumer_deleted(consumer: ChannelConsumer) -> None:
    channel = consumer.channel
    channel.connection.broker.events.emit(
        "consumer.deleted", consumer_deleted, consumer, channel_name(channel)
    )
