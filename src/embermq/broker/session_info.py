"""Facts about connections and channels, as they are at one moment: the interface between amqp and http."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ChannelCounts:
    """What a channel has counted since it was opened."""

    number: int
    received: int  # messages published on it
    received_confirm: int  # of these, in confirm mode
    confirmed: int
    returned: int
    delivered: int  # in whatever way
    delivered_no_ack: int
    acked: int
    unacked: int  # now


@dataclass(frozen=True)
class ConnectionCounts:
    number: int
    vhost: str
    received_bytes: int
    sent_bytes: int
    channels: tuple[ChannelCounts, ...]


@dataclass(frozen=True)
class ConnectionInfo:
    number: int
    name: str  # "127.0.0.1:50000 -> 127.0.0.1:5672"
    user: str
    vhost: str
    state: str
    peer_host: str
    peer_port: int
    host: str
    port: int
    channel_count: int
    channel_max: int
    frame_max: int
    heartbeat_s: int
    mechanism: str
    tls: bool
    connected_at: float  # seconds since 1970
    received_bytes: int
    sent_bytes: int
    client_properties: Mapping[str, object]


@dataclass(frozen=True)
class ChannelInfo:
    connection: ConnectionInfo
    number: int
    consumer_count: int
    unacked_count: int
    prefetch_count: int
    shared_prefetch_count: int
    confirming: bool
    transactional: bool
    flow_active: bool
    counts: ChannelCounts

    @property
    def name(self) -> str:
        return f"{self.connection.name} ({self.number})"
