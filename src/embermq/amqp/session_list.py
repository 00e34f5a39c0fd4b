"""Connections, channels and consumers as the management shows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from embermq.amqp.channel.channel import Channel
from embermq.amqp.channel.consumer import ChannelConsumer
from embermq.amqp.connection.connection import Connection
from embermq.amqp.connection.state import OPEN, Pause
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.broker.session_info import ChannelCounts, ChannelInfo, ConnectionCounts, ConnectionInfo
from embermq.errors import ConnectionForced

STATES = ("starting", "starting", "securing", "securing", "tuning", "opening", "running", "closing", "closed")


class Sessions:
    """A view over the connections that there are now; `clock` is the one of their `connected_at`."""

    def __init__(
        self,
        connections: Callable[[], Iterable[Connection]],
        clock: Callable[[], float],
    ) -> None:
        self.all = connections
        self.clock = clock

    def opened(self) -> Iterator[Connection]:
        return (connection for connection in self.all() if connection.state == OPEN)

    def connections(self) -> list[ConnectionInfo]:
        return [self.connection_info(connection) for connection in self.opened()]

    def connection(self, name: str) -> ConnectionInfo | None:
        for connection in self.opened():
            if connection.name == name:
                return self.connection_info(connection)
        return None

    def channels(self) -> list[ChannelInfo]:
        return [
            self.channel_info(channel)
            for connection in self.opened()
            for channel in connection.channels.values()
        ]

    def channel_of(self, consumer: Consumer) -> tuple[ChannelInfo, int] | None:
        if not isinstance(consumer, ChannelConsumer):
            return None
        return self.channel_info(consumer.channel), consumer.prefetch_count

    def consumers_of(self, info: ChannelInfo) -> list[Consumer]:
        for connection in self.opened():
            if connection.number == info.connection.number and info.number in connection.channels:
                return list(connection.channels[info.number].consumers.values())
        return []

    def connection_count(self) -> int:
        return sum(1 for _ in self.opened())

    def paused_count(self, reason: Pause) -> int:
        return sum(1 for connection in self.opened() if connection.pauses & reason)

    def channel_count(self) -> int:
        return sum(len(connection.channels) for connection in self.opened())

    def connection_counts(self) -> Iterator[ConnectionCounts]:
        """What every connection and its channels have counted; one at a time, as there may be many."""
        for connection in list(self.opened()):
            if connection.state == OPEN and connection.vhost is not None:
                yield ConnectionCounts(
                    connection.number,
                    connection.vhost.name,
                    connection.received_bytes,
                    connection.sent_bytes,
                    tuple(channel_counts(channel) for channel in connection.channels.values()),
                )

    def unacked(self, queue: Queue) -> Iterator[tuple[ChannelInfo, list[Entry]]]:
        """What a queue has out with clients, channel by channel."""
        for connection in list(self.opened()):
            for channel in list(connection.channels.values()):
                entries = [entry for entry in channel.outstanding() if entry.queue is queue]
                if entries:
                    yield self.channel_info(channel), entries

    def close_all(self, reason: str, *, user: str = "", vhost: str = "") -> Iterator[None]:
        """All of a user, or all in a virtual host, one after the other."""
        for connection in list(self.opened()):
            assert connection.user is not None and connection.vhost is not None
            if connection.state == OPEN and (connection.user.name == user or connection.vhost.name == vhost):
                connection.close(ConnectionForced(reason))
                yield

    def close(self, info: ConnectionInfo, reason: str) -> None:
        for connection in self.opened():
            if connection.number == info.number:
                connection.close(ConnectionForced(reason))
                return

    def connection_info(self, connection: Connection) -> ConnectionInfo:
        assert connection.user is not None and connection.vhost is not None
        peer, _, local = connection.name.partition(" -> ")
        peer_host, _, peer_port = peer.rpartition(":")
        host, _, port = local.rpartition(":")
        return ConnectionInfo(
            number=connection.number,
            name=connection.name,
            user=connection.user.name,
            vhost=connection.vhost.name,
            state=state_of(connection),
            peer_host=peer_host,
            peer_port=int(peer_port),
            host=host,
            port=int(port),
            channel_count=len(connection.channels),
            channel_max=connection.channel_max,
            frame_max=connection.frame_max,
            heartbeat_s=connection.heartbeat_s,
            mechanism=str(connection.mechanism),
            tls=bool(connection.tls),
            connected_at=time.time() - (self.clock() - connection.connected_at),
            received_bytes=connection.received_bytes,
            sent_bytes=connection.sent_bytes,
            client_properties=connection.client_properties,
        )

    def channel_info(self, channel: Channel) -> ChannelInfo:
        return ChannelInfo(
            connection=self.connection_info(channel.connection),
            number=channel.number,
            consumer_count=len(channel.consumers),
            unacked_count=channel.unacked_count,
            prefetch_count=channel.prefetch_count,
            shared_prefetch_count=channel.shared_prefetch_count,
            confirming=bool(channel.confirming),
            transactional=channel.transaction is not None,
            flow_active=bool(channel.flow_active),
            counts=channel_counts(channel),
        )


def state_of(connection: Connection) -> str:
    """In RabbitMQ's words."""
    if connection.pauses & Pause.ALARM:
        return "blocked"
    if connection.pauses & Pause.THROTTLE:
        return "flow"
    return STATES[connection.state]


def channel_counts(channel: Channel) -> ChannelCounts:
    return ChannelCounts(
        number=channel.number,
        received=channel.received_count,
        received_confirm=channel.published,
        confirmed=channel.confirmed,
        returned=channel.returned_count,
        delivered=channel.delivery_tag,
        delivered_no_ack=channel.no_ack_count,
        acked=channel.acked_count,
        unacked=channel.unacked_count,
    )
